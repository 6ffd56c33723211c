"""When a client's own janitor does a step, and its events. A driver asks for commands and hands in answers.

The looks at counters that may grow (`auto_shards`) are taken at the same occasions, between the janitor's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from redis_counters.events import Event, EventKind
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.upkeep.auto_shards import Growth
from redis_counters.protocol.upkeep.janitor import JanitorReport, Steps, Who, one_pass, repair, upkeep_of
from redis_counters.protocol.upkeep.stepper import Stepper
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.namespace import look_up_namespace

PERIODS_PER_TTL = 10  # a period is that part of `actor_ttl`,
MIN_PERIOD_S = 5.0  # or as many seconds, if that is more
REPAIR_PAUSE_S = 5.0  # seconds between looks at shards that reads found crowded
MIN_PAUSE_S = 0.005  # seconds between two steps,
IDLE_FACTOR = 4  # or as many times what the step took, if that is more,
MAX_PAUSE_S = 0.5  # but not longer: it may have been the machine that was slow


class Housekeeping:
    """One step after the other of one pass after the other. Not thread-safe: drivers lock."""

    def __init__(self, reads: Reads, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        self.reads = reads
        self.writer = reads.writer
        self.clock = clock
        self.chance = chance
        self.upkeep = upkeep_of(self.writer.settings)
        self.growth = Growth(self.writer, clock, chance, grouped=reads.grouped)
        self.report = JanitorReport()
        self.stepper = Stepper()
        self.seen: set[bytes] = set()  # crowded shards that were looked at in this period
        self._looking = False  # the commands that are on their way are of `auto_shards`
        self._passing = False
        self._next_step = 0.0
        self._next_repair = clock()
        # Not at once: a short process would only begin it.
        self._next_pass = clock() + self._some_period()

    @property
    def period(self) -> float:
        return max(MIN_PERIOD_S, self.writer.settings.actor_ttl / PERIODS_PER_TTL)

    def _some_period(self) -> float:
        return self.period * (0.5 + self.chance())

    def wait(self) -> float:
        """Return in how many seconds there is something to do."""
        return min(self._wait(), self.growth.wait())

    def _wait(self) -> float:
        if self.stepper.steps is not None:
            due = self._next_step
        else:
            due = min(self._next_pass, self._next_repair) if self.reads.crowded else self._next_pass
        return max(0.0, due - self.clock())

    def commands(self) -> list[Command] | None:
        """Return what to send now, to be `answered` or `abandoned`; None if there is nothing to do."""
        looks = self.growth.commands()
        self._looking = looks is not None
        if looks is not None:
            return looks
        if self._wait() > 0:
            return None
        if self.stepper.steps is None:
            self._begin()
        commands = self.stepper.commands()
        if commands is None:
            self._end()
        return commands

    def answered(self, answers: list[object], took: float) -> None:
        """Take in the answers to the commands, which took so many seconds."""
        if self._looking:
            self._looking = False
            self.growth.answered(answers)
            return
        if self.stepper.answered(answers):
            self._next_step = self.clock() + min(max(MIN_PAUSE_S, IDLE_FACTOR * took), MAX_PAUSE_S)

    def abandoned(self) -> None:
        """The answers will not come: the pass is over, another will find what this one left."""
        self._looking = False
        self.growth.abandoned()
        if self.stepper.abandon():
            self._end()

    def _begin(self) -> None:
        now = self.clock()
        if now >= self._next_pass:
            self._passing, self.seen = True, set()
            self.stepper.steps = self._whole(None)
        else:
            shards = [key for key in self.reads.crowded if key not in self.seen]
            self.reads.crowded.clear()
            self.seen.update(shards)
            self._passing = False
            self.stepper.steps = self._whole(shards)

    def _whole(self, shards: Sequence[bytes] | None) -> Steps:
        writer = self.writer
        if writer.router.keys is None:
            (raw,) = yield [look_up_namespace(writer.settings)]
            if not self.reads.settle(raw):
                return
        keys = writer.router.keys
        assert keys is not None
        if shards is None:
            yield from one_pass(keys, self.upkeep, self.report, period=int(self.period), patient=True)
        else:
            yield from repair(keys, self.upkeep, self.report, shards)

    def _end(self) -> None:
        now = self.clock()
        self._next_repair = now + REPAIR_PAUSE_S
        if self._passing:
            self._next_pass = now + self._some_period()
        report, self.report = self.report, JanitorReport()
        ttl, retention = self.upkeep.actor_ttl, self.upkeep.retention
        self._tell(EventKind.REAPED, report.reaped, f"closed, silent for {ttl} s")
        self._tell(EventKind.FOLDED, report.folded, "folded")
        self._tell(EventKind.CLEANED, report.cleaned, f"forgotten, folded {retention} s ago")

    def _tell(self, kind: EventKind, done: Iterable[Who], what: str) -> None:
        """One event per bucket."""
        actors: dict[int, list[bytes]] = {}
        for bucket, actor in done:
            actors.setdefault(bucket, []).append(actor)
        for bucket, some in actors.items():
            single = some[0] if len(some) == 1 else None
            who = f"actor {single.decode('ascii', 'replace')}" if single is not None else f"{len(some):,} actors"
            self.writer.events.append(Event(kind, f"bucket {bucket}: {who} {what}", None, single, bucket))
