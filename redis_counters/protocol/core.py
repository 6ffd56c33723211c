"""The state of one client: buffer, write side, read side. One object for both faces; drivers lock and act."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.errors import CounterError, NotRecorded, Overflow, SchemaMismatch, quoted, without_traceback
from redis_counters.events import Event, EventKind, Observer
from redis_counters.protocol.flush.round import Steps, run_flush
from redis_counters.protocol.flush.target import FlushTarget
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.journal.recovery import Orphan, revive
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.upkeep.schedule import Housekeeping
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.wire.shard_counts import AUTO, Auto, check_shards
from redis_counters.protocol.wire.values import Name, name_bytes, signed_amount
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.expiries import Expiries, Expiry, Moment, future_milliseconds
from redis_counters.protocol.write.writer import Writer

MAX_BUFFERED = 50_000  # increments that may lie in the buffer while a round takes longer than the interval
MAX_EVENTS = 20  # of one kind that are published at a time; how many more there were comes with the last
MAX_UNCHECKED = 2**31
"""Amounts up to this go into the buffer unseen; whether larger ones fit is checked at the call."""


class Core:
    """State of one client. Time, chance and identity come in as functions."""

    def __init__(
        self,
        settings: Settings,
        mint: Callable[[], str],
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float],
        *,
        grouped: bool = False,
        buffer: Buffer | None = None,
    ) -> None:
        self.settings = settings
        self.grouped = grouped  # Redis is a cluster: keys of different buckets may lie on different servers
        self.mint = mint
        self.clock = clock
        self.wall = wall
        self.chance = chance
        self.observer: Observer | None = None
        self.display: Callable[[], str] | None = None  # the name for people, where it follows the process
        self.buffer = Buffer() if buffer is None else buffer
        self.failures = 0
        self.undelivered = 0
        self.failing = False  # the last round did not go through
        self.last_error: str | None = None
        self.cause: CounterError | None = None  # of the last round that did not go through
        self.known_shards: dict[bytes, int] = {}
        self.auto: set[bytes] = set()  # counters that handles asked to grow by themselves
        self.expiries = Expiries(journal=settings.journal is not None)
        self.left_in_journal = False  # what was not delivered when closed is there, for the next process
        self.journal_failures = 0  # times that the journal could not be written
        self.begin()

    def begin(self) -> None:
        """The client owns nothing and has a new identity: at the start, and in the child of a fork."""
        self.buffer.clear()
        if self.display is not None:
            self.settings = self.settings._replace(display=self.display().encode("utf-8", "replace")[:200])
        self.writer = Writer(self.settings, self.buffer, self.mint)
        journal = self.settings.journal is not None
        self.recorder = Recorder(self.writer, strict=self.settings.journal_always) if journal else None
        self.writer.router.expiries = self.expiries
        self.expiries.change(self.expiries.known)
        self.orphans: list[Orphan] = []  # journals of processes that are gone, to be sent too
        for name, shards in self.known_shards.items():  # what handles asked for holds in the child too
            self.writer.router.shards.ask(name, shards)
        for name in self.auto:
            self.writer.router.shards.ask(name, AUTO)
        self.reads = Reads(self.writer, self.clock, self.wall, self.chance, grouped=self.grouped)
        self.housekeeping = Housekeeping(self.reads, self.clock, self.chance)

    # -- counting, where it is not the plain increment by one

    def add(self, name: Name, amount: int) -> bool:
        """The signed amount is in the buffer; False if it is so large that `add_large` has to see to it."""
        if -MAX_UNCHECKED <= amount <= MAX_UNCHECKED:
            if amount:
                self.buffer.amounts.append((name, amount))
            return True
        return False

    def count(self, name: Name, amount: int) -> None:
        """The amount is in the totals, past the buffer."""
        self.buffer.amounts.append((name, amount))
        self.writer.accumulator.drain()

    def add_large(self, name: Name, amount: int) -> None:
        """The amount is counted, or refused: Overflow, and nothing has changed."""
        self.check_room(name, amount)
        self.count(name, amount)

    def check_room(self, name: Name, amount: int) -> None:
        """Raises Overflow if the own slot has no room for that."""
        raw = name_bytes(name)
        self.writer.accumulator.drain()
        if abs(signed_amount(amount, name)) > self.writer.router.room(raw, amount):
            sort = "increments" if amount > 0 else "decrements"
            raise Overflow(
                f"counter {quoted(raw)}: {abs(amount)} more {sort} would leave the range of a slot, "
                f"{INT64_MAX}; not counted",
                counter=raw,
            )

    def declare(self, name: bytes, shards: int | Auto | None, expire_at: Moment | None = None) -> Expiry | None:
        """The counter has at least that many shards (or grows), and expires then: hold on to what is returned."""
        expiry = None
        if expire_at is not None:
            now = self.wall()
            at = future_milliseconds(expire_at, now)
            self.expiries.forget(int(now * 1000), self._counts)
            expiry = self.expiries.ask(name, at)
        if shards == AUTO:
            self.auto.add(name)
            self.writer.router.shards.ask(name, AUTO)
        elif shards is not None:
            self.known_shards[name] = max(check_shards("shards", shards), self.known_shards.get(name, 1))
            self.writer.router.shards.ask(name, shards)
        return expiry

    def _counts(self, name: bytes) -> bool:
        self.writer.accumulator.drain()
        return self.writer.router.owns(name)

    # -- flushing

    def round(self) -> Steps:
        """Return one round of flushing, to be driven."""
        own = run_flush(self.writer, self.clock, self.recorder)
        return self._round_with_orphans(own) if self.orphans else own

    def _round_with_orphans(self, own: Steps) -> Steps:
        yield from own
        keys = self.writer.router.keys
        assert keys is not None
        for orphan in list(self.orphans):
            if orphan.over:
                continue
            try:
                if orphan.recorder is None:
                    orphan.recorder = revive(orphan.stored, self.settings, keys, self.mint, self.clock())
            except SchemaMismatch as error:
                orphan.given_up = True
                self.report(EventKind.REFUSED, f"journal {orphan.shown} cannot be told, and is left alone: {error}")
                continue
            orphan.look(self.clock(), closing=self.writer.closing)
            yield from self._round_of(orphan.recorder)

    def _round_of(self, recorder: Recorder) -> Steps:
        """One round of an orphan; its events, errors and figures count as the client's own."""
        writer, into = recorder.writer, self.writer
        uncertain = writer.uncertain
        try:
            yield from run_flush(writer, self.clock, recorder)
        finally:
            into.events += writer.events
            writer.events = []
            into.errors += writer.errors
            writer.errors = []
            into.uncertain += writer.uncertain - uncertain

    def failed(self, error: CounterError, cause: BaseException | None = None) -> None:
        """A round did not go through. What answers next may be another server, with an older state."""
        if not isinstance(error, NotRecorded):  # that is the disk's: Redis has answered
            for writer in self._writers():
                writer.probe_all()
        self.failures += 1
        self.last_error = str(error)
        self.cause = without_traceback(error, cause)
        if not self.failing:
            self.failing = True
            self.report(EventKind.FLUSH_FAILED, f"{error}; what is counted is kept, and sent again")

    def new_connection(self) -> None:
        """Commands go over a connection that none went over before: what is behind it may have lost counts.

        Client libraries connect anew, and follow redirections, without an error.
        """
        for writer in self._writers():
            writer.look_all()

    def _writers(self) -> Iterator[Writer]:
        """All that hold totals: what this process counts, and what was left by others that are gone."""
        yield self.writer
        yield from (orphan.writer for orphan in self.orphans if orphan.writer is not None)

    def succeeded(self) -> None:
        """A round went through."""
        if self.failing:
            self.failing = False
            self.report(EventKind.FLUSH_RECOVERED, "Redis answers again, what had waited is sent")

    def report(self, kind: EventKind, message: str, counter: Name | None = None, amount: int | None = None) -> None:
        """The event will be published by the driver."""
        self.writer.events.append(Event(kind, message, counter, amount=amount))

    def take_events(self) -> list[Event]:
        """Return the events since the last time; of a kind that came very often, some, and how many more."""
        events, self.writer.events = self.writer.events, []
        if len(events) <= MAX_EVENTS:
            return events
        shown: list[Event] = []
        for kind in dict.fromkeys(event.kind for event in events):
            same = [event for event in events if event.kind is kind]
            most = len(same) if kind is EventKind.NOT_DELIVERED else MAX_EVENTS  # a loss is published in full
            shown += same[:most]
            if len(same) > most:
                shown.append(Event(kind, f"and {len(same) - MAX_EVENTS:,} more"))
        return shown

    def begin_flush(self) -> FlushTarget | None:
        """Return what a flush has to wait for, None if there is nothing; what was refused is tried once more."""
        self.writer.accumulator.drain_amounts()
        self.writer.outstanding.retry_refused()
        target = FlushTarget(self.writer, self.orphans)
        return None if target.reached() and not self.writer.router.overflowed else target

    def begin_close(self) -> None:
        """From the next round on, every actor that has all of it across is closed and folded."""
        self.writer.accumulator.drain()
        self.writer.outstanding.retry_refused()
        self.writer.closing = True

    @property
    def orphans_over(self) -> bool:
        """True if all is sent that processes which are gone had counted, as far as it was found."""
        return all(orphan.over for orphan in self.orphans)

    @property
    def overdue(self) -> bool:
        """The buffer has grown so long that it should be taken in, though a round is under way."""
        waiting = len(self.buffer.ones) + len(self.buffer.amounts)
        return waiting >= min(MAX_BUFFERED, self.settings.max_pending)

    def nothing_to_do(self) -> bool:
        """True if no round is needed, neither for what was counted nor for actors that should end."""
        nothing = self.writer.clean and not self.orphans and not self.writer.house_due(self.clock())
        if nothing:  # the caller that asked may have been interrupted before it counted: then it asked for nothing
            self.buffer.flush_requested.value = False
        return nothing

    def fits_when_full(self, name: Name, amount: int) -> bool:
        """Return whether this counter is pending already, which takes no more memory, and its slot has room."""
        writer, raw = self.writer, name_bytes(name)
        writer.accumulator.drain()
        return writer.router.is_pending(raw) and abs(amount) <= writer.router.room(raw, amount)

    def stats(self) -> Stats:
        """Return the figures at this time. Cost: O(buckets)."""
        writer = self.writer
        writer.accumulator.drain()
        return Stats(
            accepted=writer.accumulator.accepted,
            flushed=writer.flushed,
            flushes=writer.flushes,
            pending=writer.outstanding.waiting(),
            slots=sum(actor.slots for actor in writer.router.actors()),
            snapshots=self.reads.snapshots,
            failures=self.failures,
            journal_failures=self.journal_failures,
            undelivered=self.undelivered,
            uncertain=writer.uncertain,
            grown=writer.grown,
            last_error=self.last_error,
        )
