"""One process of a schedule: the real core, and in place of a driver one that a schedule can stop anywhere."""

from __future__ import annotations

import copy
import random
import string
from collections import Counter, deque
from typing import TYPE_CHECKING

from redis_counters.errors import CounterError, Unavailable
from redis_counters.events import EventKind
from redis_counters.protocol.core import Core
from redis_counters.protocol.flush.round import RecordStep, SendStep, Steps
from redis_counters.protocol.flush.target import FlushTarget
from redis_counters.protocol.journal.recovery import Orphan
from redis_counters.protocol.wire.commands import Argument, Command, ErrorReply, NoAnswer, Script
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.slot_totals import SlotKind
from tests.simulation.connections import Connections
from tests.simulation.ledger import Account, Violation
from tests.simulation.memory import Journal
from tests.simulation.plan import ALWAYS, EXPIRING, GROWING, NAMES, WINDOW, Options
from tests.simulation.reading import Reading

if TYPE_CHECKING:
    from tests.simulation.world import World

MOST_COMMANDS = 400  # of a round: one that takes more has no end
ERRORS = (
    "BUSY Redis is busy running a script.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "MISCONF Redis is configured to save RDB snapshots.",
)
LETTERS = string.ascii_letters + string.digits


class Flight:
    """A command on its way, and its answer as soon as there is one."""

    __slots__ = ("answer", "command", "executed", "fate", "text")

    def __init__(self, command: Command, text: bool, fate: str) -> None:
        self.command = command
        self.text = text
        self.fate = fate
        self.executed = False
        self.answer: object = None


class Process:
    """``number`` is its own and never used again."""

    def __init__(
        self, world: World, number: int, options: Options, forked_from: Process | None = None, stream: int = 0
    ) -> None:
        self.world = world
        self.number = number
        self.options = options
        self.tokens = random.Random((world.plan.seed * 100 + number) * 100 + stream)
        self.core: Core = self._core() if forked_from is None else self._child_of(forked_from.core)
        self.expires = self._expires()  # it knows when the counter expires that does
        self.journal = Journal(self) if options.journal else None
        self.orphan: Orphan | None = None  # what this process tells of one that was killed
        self.of_a_closing_one = False  # which may have folded some of what it told
        self.flushed, self.flushed_at = 0, world.now  # how much of what it told has arrived, and when the last of it
        self.dead = False
        self.frozen = False  # it does nothing until it is thawed (SIGSTOP, a suspended machine)
        self.closing = False
        self.cut_short = False  # it was killed, or closed with something that Redis refuses, which close() reports
        self.steps: Steps | None = None
        self.answer: object = None
        self.flights: deque[Flight] = deque()
        self.connections = Connections(world, self)
        self.sent = 0
        self.folded: set[Argument] = set()  # actors that it has folded itself
        self.told = 0  # uncertainties in events
        self.moved_on = False  # an actor of it was found folded
        self.goals: list[tuple[FlushTarget, dict[Account, int]]] = []
        self.issued: Counter[bytes] = Counter()  # of the counters that only grow
        self.reading = Reading(self)

    def _core(self) -> Core:
        options, world = self.options, self.world
        settings = make_settings(
            namespace="t",
            shards=options.shards,
            max_batch=options.max_batch,
            max_age=options.max_age,
            actor_ttl=options.actor_ttl,
            retention=options.retention,
            rotate_slots=options.rotate_slots,
            reassert_window=WINDOW,
            buckets=world.plan.buckets,
            journal="memory" if options.journal else None,
            journal_mode="always" if options.journal == ALWAYS else "interval",
        )
        return Core(settings, self.mint, lambda: world.now, lambda: world.now, self.tokens.random)

    def _child_of(self, core: Core) -> Core:
        """Return what the child of a fork has: a copy of all, begun anew."""
        child = copy.copy(core)
        child.buffer, child.mint, child.expiries = Buffer(), self.mint, copy.deepcopy(core.expiries)
        child.buffer.ones.extend(core.buffer.ones)
        child.buffer.amounts.extend(core.buffer.amounts)
        child.begin()
        return child

    def _expires(self) -> bool:
        at = self.world.expires_at
        if at is not None and self.world.now < at:
            self.core.declare(EXPIRING, None, at)
        return at is None or EXPIRING in self.core.expiries.known

    @property
    def forgetful(self) -> bool:
        """It is made of a journal that may lack something that was told."""
        return self.orphan is not None and self.journal is not None and self.journal.has_failed

    def mint(self) -> str:
        return "".join(self.tokens.choices(LETTERS, k=12))

    # -- counting

    def count(self, name: bytes, amount: int) -> bool:
        """The amount is counted, without its sign where the counter only grows; False if the process is closing."""
        if self.closing or self.orphan is not None or (name == EXPIRING and not self.expires):
            return False
        amount = abs(amount) if name in GROWING else amount
        self.world.ledger.count(self.number, name, amount)
        if self.journal is not None:
            self.journal.call(name, amount)
        if name in GROWING:
            self.issued[name] += amount
        if self.journal is not None and self.journal.stored.always:
            self.core.count(name, amount)  # into the totals at once: the journal need not keep the call any more then
        elif amount == 1:
            self.core.buffer.ones.append(name.decode())
        elif not self.core.add(name, amount):
            self.core.add_large(name, amount)
        return True

    def grow(self, name: int, shards: int) -> bool:
        """A counter that the process counts in gets more shards, as one that is written to often does."""
        if self.closing or self.orphan is not None or (NAMES[name] == EXPIRING and not self.expires):
            return False
        self.core.writer.router.raise_shards(NAMES[name], shards)
        return True

    def pending(self, key: bytes, name: bytes) -> dict[Account, int]:
        """Return what of a shard Redis may have without this process knowing it."""
        writer, amounts = self.core.writer, {}
        for kind, sign in ((SlotKind.PLUS, b"+"), (SlotKind.MINUS, b"-")):
            tables = [actor.tables[kind] for actor in writer.router.actors()]
            amounts[self.number, name, sign] = sum(t.total.get(key, 0) - t.acknowledged.get(key, 0) for t in tables)
        return amounts

    def unsure(self) -> dict[Account, int]:
        """Return what was counted and is not acknowledged, by account."""
        writer = self.core.writer
        writer.accumulator.drain()
        amounts: Counter[Account] = Counter()
        for early, sign in zip(writer.router.unrouted, (b"+", b"-"), strict=True):
            for name, amount in early.items():
                amounts[self.number, name, sign] += amount
        for actor in writer.router.actors():
            for table, sign in zip(actor.tables, (b"+", b"-"), strict=False):
                for key, amount in table.pending():
                    amounts[self.number, key.rsplit(b":", 1)[1], sign] += amount
        return amounts

    # -- flushing

    def flush(self) -> None:
        """A flush() has begun: all that was counted until now is to be in Redis when its goal is reached."""
        if self.closing:
            return
        goal = self.core.begin_flush()
        if goal is not None:
            issued = self.world.ledger.issued
            self.goals.append((goal, {account: n for account, n in issued.items() if account[0] == self.number}))

    def close(self) -> None:
        if not self.closing:
            self.core.begin_close()
            self.closing = True

    def go(self, fates: str = "") -> None:
        """The round goes on, or one begins if there is something to do, until it ends, breaks, or is to stop."""
        if self.orphan is not None and self.orphan.writer is not None:
            self.orphan.look(self.world.now, closing=self.closing)
        if self.steps is None:
            if not self.closing and self.core.nothing_to_do():
                return
            self.steps, self.answer, self.sent = self.core.round(), None, 0
        letters = iter(fates)
        while True:
            try:
                step = self._feed(self.steps)
            except StopIteration:
                self._round_ended()
                return
            except CounterError as error:  # as the drivers do: the round is over
                self._break(error)
                return
            if isinstance(step, SendStep):
                self.sent += 1
                if self.sent > MOST_COMMANDS:
                    raise Violation(f"process {self.number}: a round does not end")
                flight = Flight(step.command, step.text, next(letters, "."))
                self.connections.write(step.command)
                self.flights.append(flight)
                if flight.fate == "s":
                    return
            elif isinstance(step, RecordStep):
                assert self.journal is not None
                self.answer = self.journal.record(step.recorder)
            elif not self._receive():
                self._break(Unavailable("the connection broke"))
                return

    def serve(self, count: int) -> None:
        """So many commands on their way have arrived; their answers wait."""
        for flight in list(self.flights)[:count]:
            if flight.executed:
                continue
            if flight.fate in "LW":
                continue
            if flight.fate in "lw":
                return  # what comes after it on this connection does not arrive either
            self._execute(flight)

    def _execute(self, flight: Flight) -> None:
        flight.executed = True
        if flight.fate == "e" or self.world.now < self.world.trouble_until:
            flight.answer = ErrorReply(ERRORS[self.sent % len(ERRORS)])
            return
        flight.answer = self.world.run(self.number, flight.command, text=flight.text)
        if flight.fate == "d" and not isinstance(flight.answer, ErrorReply):  # else it would be refused again
            self.world.keep_late(self.number, flight.command)
        elif flight.fate == "g":
            flight.answer = b"HTTP/1.1 400 Bad Request"

    def _receive(self) -> bool:
        """Take the next answer; False if it does not come."""
        flight = self.flights[0]
        if flight.fate in "lw" or self.connections.broken:
            return False
        if flight.fate in "RLW":
            self.flights.popleft()
            self._lose(flight)
            self.answer = NoAnswer(Unavailable("a server of the cluster broke off"))
            return True
        if not flight.executed:
            self.connections.write(flight.command)  # it may be redirected
            self._execute(flight)
        if flight.fate == "r":
            return False
        self.flights.popleft()
        self.answer = answer = flight.answer
        if self.world.refused and isinstance(answer, list) and answer and answer[0] == b"OK":
            self.world.has_heard(flight.command)
        if flight.command.script is Script.SLOTS_FOLD and isinstance(answer, list) and answer == [b"OK", answer[-1]]:
            self.folded.add(flight.command.args[0])
        return True

    def _feed(self, steps: Steps) -> object:
        """Return the next step. What the process reports as uncertain by the way may be missing in the end."""
        answer, self.answer = self.answer, None
        word = answer[0] if isinstance(answer, list) and answer else None
        self.moved_on = self.moved_on or word == b"FOLDED"
        if word not in (b"GONE", b"FOLDED", b"UNKNOWN"):
            try:
                return steps.send(answer)
            finally:
                if self.core.writer.flushed != self.flushed:
                    self.flushed, self.flushed_at = self.core.writer.flushed, self.world.now
        ledger, before = self.world.ledger, self.core.writer.uncertain
        # A forgotten record may hide a fail-over as well.
        exactly = word == b"GONE" and "fail-over" not in self.world.plan.faults
        unsure = self.unsure() if exactly else {a: n for a, n in ledger.issued.items() if a[0] == self.number}
        try:
            return steps.send(answer)
        finally:
            if self.core.writer.uncertain != before:
                self.world.reported_uncertain(self, word)
                for account, amount in unsure.items():
                    ledger.lost[account] += amount

    def _round_ended(self) -> None:
        self.steps = None
        for error in self.core.writer.errors:
            if getattr(error, "counter", None) is None:
                self.core.failed(error)
                break
        else:
            self.core.succeeded()
        self._check_goals()
        self._check_events()
        self._check_kept()
        if (self.closing or self.orphan is not None) and self.core.writer.closed:
            self.cut_short = bool(self.core.writer.outstanding.refusals())
            if self.cut_short:
                self.world.ledger.ended(self.number, {})
            self.die()

    def _break(self, error: CounterError) -> None:
        """The connection is gone: what has not arrived may still do so, if it is not lost."""
        steps, self.steps = self.steps, None
        flights, self.flights = self.flights, deque()
        assert steps is not None
        steps.close()
        for flight in flights:
            self._lose(flight)
        self.connections.close()
        self.core.failed(error)

    def _lose(self, flight: Flight) -> None:
        """Its answer does not come; it may have arrived, or may still do so."""
        if flight.executed or flight.fate in "lL":
            return
        if flight.fate in "rR":
            self._execute(flight)
        else:
            self.world.keep_late(self.number, flight.command)

    def hang_up(self) -> None:
        """Its connections end: in silence, if nothing is on its way; else who waits for an answer gets none."""
        if self.flights:
            self.connections.broken = True
        else:
            self.connections.close()

    def die(self) -> None:
        """The process is gone, in order or not; what it had sent may still arrive."""
        self.dead = True
        self.reading.stop()
        if self.steps is not None:
            self._break(Unavailable("killed"))

    def kill(self) -> None:
        """The process is gone at once; what its journal holds, another tells."""
        self.cut_short = True
        self.die()
        if self.journal is not None:
            self.world.take_over(self)

    # -- what is promised of flushes

    def _check_events(self) -> None:
        """Every uncertainty was told in an event."""
        self.told += sum(event.kind is EventKind.UNCERTAIN for event in self.core.take_events())
        if self.told != self.core.writer.uncertain:
            raise Violation(f"{self.core.writer.uncertain} uncertainties, of which {self.told} were told")

    def _check_kept(self) -> None:
        """Who tells a journal is there for as long as a fail-over may take back what he told."""
        faults = self.world.plan.faults
        if "fail-over" not in faults:  # then janitors do not wait either: what is told may be folded at once
            return
        if "other type" in faults:  # what is refused has not arrived, and need not stay
            return
        if self.core.writer.uncertain:  # what is told as uncertain need not stay either
            return
        if self.moved_on:  # who is folded was closed for longer than a fail-over reaches, with all that counts as told
            return
        ends = self.orphan is not None and not self.closing and self.core.writer.closed
        if ends and self.flushed and self.world.now - self.flushed_at < WINDOW:
            raise Violation(f"process {self.number} has told a journal and ends, before it is sure to stay told")

    def _check_goals(self) -> None:
        """What a flush() waited for is in Redis when it returns (unless something has taken it away since)."""
        ledger = self.world.ledger
        reached = [goal for goal in self.goals if goal[0].reached()]
        self.goals = [goal for goal in self.goals if goal not in reached]
        if not self.world.plan.faults.isdisjoint(("fail-over", "registry lost", "other type", "emptied")):
            return
        for _goal, issued in reached:
            for account, amount in issued.items():
                if account[1] in ledger.expired:
                    continue
                least = amount - ledger.removed[account] - ledger.lost[account] - ledger.all_taken[account]
                if ledger.totals[account] < least:
                    raise Violation(
                        f"flush() was over with {ledger.totals[account]} in Redis of {amount} for {account}"
                    )
