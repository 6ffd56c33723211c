"""One writer's identity in one bucket: what it sends, and what it takes an answer for.

Its phases, its doubts and the events that change them are a table, see `states`. One rule is not in it, for what was
sent and not answered: it stays *unknown* until a flush that carries all of it is answered with OK, even when that flush
is refused meanwhile, because a copy of the command may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from redis_counters.protocol.wire.commands import Command, Script, hmget
from redis_counters.protocol.wire.keys import index_of
from redis_counters.protocol.wire.replies import BadReply, Reply
from redis_counters.protocol.write.expiries import Expiries
from redis_counters.protocol.write.flushes import Chunk, FlushHeader, Totals, increments, mixed
from redis_counters.protocol.write.history import Applied, History
from redis_counters.protocol.write.sealed import SealedShards
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals
from redis_counters.protocol.write.states import ActorEvent, ActorState, Phase


class Actor:
    """An owner's side of one actor. It decides what to send next and what an answer means; it sends nothing itself."""

    def __init__(
        self,
        bucket: int,
        registry: bytes,
        mint: Callable[[], str],
        display: bytes,
        delay: int,
        opened: float,
        expiries: Expiries,
    ) -> None:
        self.bucket = bucket
        self.registry = registry
        self.mint = mint
        self.owner = mint().encode()
        self.display = display
        self.delay = delay  # seconds after it was closed in which it may be taken back
        self.opened = opened
        self.expiries = expiries
        self.id = b""
        self.state = ActorState()
        self.seq = 0
        self.base = 0
        self.tables = (SlotTotals(SlotKind.PLUS), SlotTotals(SlotKind.MINUS), SlotTotals(SlotKind.SHARDS))
        self.unknown: Chunk | None = None  # in a flush without an answer
        self.sent = History()
        self.last_acknowledged = opened
        self.last_proved = opened  # when Redis last showed that it has all that is acknowledged
        self.last_looked = opened  # when the record was read, and was as it should be
        self.unfolded: list[bytes] = []  # keys that folding has still to do
        self.folding: list[bytes] = []  # keys in the fold on its way
        self.known_applied: Applied | None = None
        self.refused_now: list[bytes] = []  # by the last answer, and not before
        self.sharded = False  # it may have slots in other shards than 0
        self.sealed = SealedShards()  # nothing can be sent before they are unsealed
        self.maybe_refused: frozenset[tuple[SlotKind, bytes]] = frozenset()  # a journal does not keep what was refused
        self.moved = 0  # how often amounts came here from another place
        self.successor: Actor | None = None

    # -- what there is to do

    @property
    def clean(self) -> bool:
        """True if nothing waits to be sent or answered."""
        plus, minus, shards = self.tables
        waits = plus.dirty or plus.gated or minus.dirty or minus.gated or shards.dirty or shards.gated
        return self.unknown is None and not waits

    @property
    def delivered(self) -> bool:
        """True if it is clean, and nothing is kept because Redis refuses it."""
        plus, minus, shards = self.tables
        return self.clean and not (plus.refused or minus.refused or shards.refused)

    @property
    def slots(self) -> int:
        return sum(len(t.total) for t in self.tables)

    def request(self, limit: int, *, must_probe_first: bool = False) -> Command | None:
        """Return what to send next, with at most ``limit`` counters; None if there is nothing to do.

        ``must_probe_first``: it was silent for so long that its record may be gone, so it asks before it sends totals.
        """
        phase = self.state.phase
        self.sealed.asked = None
        if phase is Phase.ACTIVE:
            if self.sealed.shards:
                return self.sealed.request(self.mint)
            return self._flush(limit, must_probe_first=must_probe_first) or self._look()
        if phase is Phase.NEW:
            return self._open() if not self.clean else None
        if phase is Phase.REOPEN:
            return self._open()
        if phase is Phase.CLOSING:
            return Command(Script.ACTOR_CLOSE, (self.registry,), (self.id, self.base))
        if phase is Phase.FOLDING:
            self.folding = self.unfolded[-limit:]
            return Command(Script.SLOTS_FOLD, (self.registry, *self.folding), (self.id, 0))
        return None

    def _look(self) -> Command | None:
        if not self.state.look_due:
            return None
        self.state.on(ActorEvent.LOOK_OVER)
        return hmget(self.registry, (self.id,))

    def retire(self) -> None:
        """Begin to end, if everything is acknowledged."""
        if (self.state.phase is Phase.NEW and self.clean) or (self.state.phase is Phase.ACTIVE and self.delivered):
            self.state.on(ActorEvent.RETIRED)

    def _open(self) -> Command:
        # A generation is drawn for each request: a registry that is made anew must not get its old one again.
        generation = self.mint()[:5].encode()
        return Command(
            Script.ACTOR_OPEN,
            (self.registry, index_of(self.registry)),
            (self.owner, self.id, generation, self.display, self.delay),
        )

    def _flush(self, limit: int, *, must_probe_first: bool) -> Command | None:
        # A new chunk only after the last was answered: what may or may not have been applied goes along again.
        totals: Totals = (self.tables[0].total, self.tables[1].total, self.tables[2].total)
        taken: tuple[Collection[bytes], Collection[bytes], Collection[bytes]] | None
        if self.unknown is not None:
            taken = self.unknown.totals
            if must_probe_first:  # what GONE leaves in doubt is what was sent: no more than had been
                totals = self.unknown.totals
        else:
            taken = self._take(limit) if not must_probe_first else None
        if taken is None:
            if not self.state.probe_due and not (must_probe_first and not self.clean):
                return None
            taken = ((), (), ())
        plus, minus, shards = totals
        self.seq += 1
        header = FlushHeader(self.id, self.seq, self.base, int(self.state.requires_exact_base))
        if not (taken[1] or taken[2] or self.tables[0].floored or self.sharded):
            chunk, command = increments(
                self.registry, header, list(taken[0]), plus, self.tables[0].acknowledged, self.expiries
            )
        else:
            some = ({k: plus[k] for k in taken[0]}, {k: minus[k] for k in taken[1]}, {k: shards[k] for k in taken[2]})
            chunk, command = mixed(self.registry, header, some, self.tables, self.expiries)
        self.unknown = chunk
        self.sent.remember(chunk)
        self.sent.shorten(self.base)
        return command

    def _take(self, limit: int) -> tuple[Collection[bytes], Collection[bytes], Collection[bytes]] | None:
        """Return the keys of the next chunk by kind; the kinds take turns in being first, so that none starves."""
        taken: list[list[bytes]] = [[], [], []]
        for turn in range(3):
            kind = (turn + self.seq) % 3
            if limit and self.tables[kind].dirty:
                taken[kind] = self.tables[kind].take(limit)
                limit -= len(taken[kind])
        if not any(taken):
            for table in self.tables:  # what waits at a gate may have been passed over
                table.passed = table.taken
            return None
        return taken[0], taken[1], taken[2]

    def void(self) -> None:
        """Forget the last flush: it was answered with an error of Redis, so it is not recorded."""
        chunk = self.unknown
        if self.state.phase is Phase.ACTIVE and chunk is not None and self.sealed.asked is None:
            self.sent.forget(chunk.seq)

    # -- what an answer means

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer to the last request in; FOLDED and GONE are the writer's (see `taken_over`)."""
        if self.sealed.asked is not None:
            self.sealed.answered()
        elif self.state.phase in (Phase.NEW, Phase.REOPEN):
            self._answer_open(reply)
        elif self.state.phase is Phase.ACTIVE:
            self._answer_flush(reply, now)
        elif reply.word == "UNKNOWN":
            # With the record, its "folded" is lost: sending again what is folded already would count it twice.
            self.state.on(ActorEvent.RECORD_LOST_IN_FOLD if self.folding else ActorEvent.RECORD_LOST)
        elif reply.word == "REGRESS":
            self._lost(reply.number(0))
        elif reply.word == "OPEN":  # a fail-over may have taken back that it was closed, and perhaps more
            self.state.on(ActorEvent.OPENED_AGAIN)
        elif reply.word != "OK":
            raise BadReply(f"{reply.word} came for an actor that ends")
        elif self.state.phase is Phase.CLOSING:
            self.begin_folding(ActorEvent.CLOSED)
        else:
            del self.unfolded[len(self.unfolded) - len(self.folding) :]
            if not self.unfolded:
                self.state.on(ActorEvent.FOLDED)

    def _answer_open(self, reply: Reply) -> None:
        if reply.word == "OPEN":
            self.id, recorded = reply.text(0), reply.number(1)
            self.state.on(ActorEvent.OPENED)
            if self.state.journal_may_be_stale and recorded > self.seq:
                self.state.on(ActorEvent.JOURNAL_LACKS_FLUSHES)
            if recorded < self.base:  # an older state of us
                self._lost(recorded)

    def begin_folding(self, event: ActorEvent) -> None:
        """All of its slots are to be folded; without any it is done."""
        self.state.on(event)
        self.unfolded = list({key: None for t in self.tables[:2] for key in t.total})
        if not self.unfolded:
            self.state.on(ActorEvent.FOLDED)

    def _lost(self, recorded: int) -> None:
        """Acknowledged flushes are missing (a fail-over): every total is sent again."""
        self.known_applied, exact = self.applied_as_of(recorded)
        self.state.on(ActorEvent.REGRESSED)
        if not exact:
            self.state.on(ActorEvent.BASE_FORGOTTEN)
        self.base = recorded
        self.seq = max(self.seq, recorded)
        for table in self.tables:
            table.forget()

    def _answer_flush(self, reply: Reply, now: float) -> None:
        chunk = self.unknown
        assert chunk is not None
        if reply.word == "OK":
            recorded = reply.number(0)
            if recorded != chunk.seq:
                raise BadReply(f"OK came for flush {recorded} instead of {chunk.seq}")
            if len(chunk):
                self.last_acknowledged = now
            self._acknowledge(chunk, reply)
            self.base, self.last_proved = max(self.base, recorded), now
            self.state.on(ActorEvent.APPLIED)
        elif reply.word == "STALE":
            self.seq = max(self.seq, reply.number(0))
        elif reply.word == "REGRESS":
            self._lost(reply.number(0))
        elif reply.word == "SEALED":
            pass  # the writer knows what to do with the shards
        elif reply.word == "MISSING":
            missing = [chunk.item(number) for number in reply.numbers()]
            if not all(key in self.tables[kind].acknowledged for kind, key in missing):
                raise BadReply("MISSING came for a slot that was never acknowledged")
            for kind, key in missing:
                self.tables[kind].floored.add(key)
        elif reply.word in ("CLOSED", "UNKNOWN"):  # a second copy of the flush may still arrive, so it stays unknown
            self.state.on(ActorEvent.CLOSED_BY_OTHERS if reply.word == "CLOSED" else ActorEvent.RECORD_LOST)
        else:
            raise BadReply(f"{reply.word} is no reply to a flush")

    def _acknowledge(self, chunk: Chunk, reply: Reply) -> None:
        refused = {chunk.item(number): text for number, text in reply.refused()}
        self.refused_now = [key for (kind, key), text in refused.items() if self.tables[kind].refused.get(key) != text]
        chunk.refused.update(refused)
        chunk.answered = True
        for table in self.tables:
            if chunk.totals[table.kind]:
                table.acknowledge(chunk.applied(table.kind))
            table.passed = table.taken
        for (kind, key), text in refused.items():
            self.tables[kind].refused[key] = text
        self.unknown = None
        if self.known_applied is not None:
            for kind in (SlotKind.PLUS, SlotKind.MINUS):
                self.known_applied[kind].update(chunk.applied(kind))
            if self.clean:
                self._keep_applied(self.known_applied)
                self.known_applied = None
                self.state.on(ActorEvent.HEALED)

    def _keep_applied(self, applied: Applied) -> None:
        """Acknowledge what Redis has of slots that wait because their counter's number of shards is refused.

        (What it refused itself is not there any more: something else is in its place.)
        """
        said_no = set[tuple[SlotKind, bytes]]().union(*(chunk.refused for chunk in self.sent.values()))
        for table in self.tables[:2] if not self.state.base_inexact else ():
            for key in table.refused:
                if (table.kind, key) not in said_no and applied[table.kind].get(key):
                    table.acknowledged[key] = applied[table.kind][key]

    # -- what Redis has of it

    def applied_as_of(self, seq: int) -> tuple[Applied, bool]:
        """Return the totals that Redis held when it had recorded ``seq``, and whether that is exact."""
        refused = self.maybe_refused.union((table.kind, key) for table in self.tables for key in table.refused)
        held = (self._applied(SlotKind.PLUS), self._applied(SlotKind.MINUS))
        found = self.sent.applied_as_of(seq, self.base, held, refused)
        if found is None:  # all that was ever sent counts as applied
            return (dict(self.tables[0].total), dict(self.tables[1].total)), False
        applied, exact = found
        return applied, exact and not self.state.base_inexact

    def let_through(self, table: SlotTotals, key: bytes) -> bool:
        """True if the key may be sent, or is in flight: holding it back now would break what flush() promises."""
        if self.unknown is not None and key in self.unknown.totals[table.kind]:
            return True
        return key in table.dirty and key not in table.gated

    def highest_sent(self, kind: SlotKind, key: bytes) -> int:
        """Return the highest total of a slot that was sent to Redis."""
        if self.state.healing:  # acknowledgements are forgotten, and what they were for may be there
            return self.tables[kind].total.get(key, 0)
        unanswered = 0 if self.unknown is None else self.unknown.totals[kind].get(key, 0)
        return max(unanswered, self.tables[kind].acknowledged.get(key, 0))

    def all_highest_sent(self) -> Applied:
        """Return, by kind, the highest totals that were sent to Redis."""
        plus, minus = ({key: self.highest_sent(t.kind, key) for key in t.total} for t in self.tables[:2])
        return plus, minus

    def _applied(self, kind: SlotKind) -> dict[bytes, int]:
        """Return what Redis held as of `base`: what is acknowledged, but for the time that all is sent again."""
        return self.tables[kind].acknowledged if self.known_applied is None else self.known_applied[kind]
