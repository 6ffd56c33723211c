"""Several regions, and exchanges between them that may be stopped, repeated and overtaken anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from redis_counters.crdt.regional import RegionalShard
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.exchange.asks import Ask
from redis_counters.protocol.exchange.compare import Comparison
from redis_counters.protocol.exchange.joining import join
from redis_counters.protocol.exchange.members import EVICTED, Member, agree, look, record, settle
from redis_counters.protocol.exchange.membership import admit, evict, forget_others
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.pull import pull
from redis_counters.protocol.exchange.repair import tidy
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import BucketSync, Pace
from redis_counters.protocol.wire.commands import Command, ErrorReply, NoAnswer, Script
from redis_counters.protocol.wire.durability import Durability
from tests.simulation.ledger import Violation
from tests.simulation.plan import BUCKETS
from tests.simulation.regions.plan import NAMES, Plan
from tests.simulation.regions.region import NAMESPACE, Region

BEGINNING = 1_000_000.0  # seconds, on every clock
ROUNDS = 4  # in the end, until all are equal
REGIONS = (b"eu", b"us", b"ap-1")

Tell = Callable[[str], None]


class Going:
    """A piece of an exchange on its way: what it asks next, and whom."""

    def __init__(self, asks: Generator[Ask, list[object], Any], sides: tuple[Region, Region]) -> None:
        self.asks = asks
        self.sides = sides
        self.ask: Ask | None = None
        self.answers: list[object] = []
        self.over = False
        self.advance(None)

    def advance(self, answers: list[object] | None) -> None:
        self.answers = []
        try:
            self.ask = next(self.asks) if answers is None else self.asks.send(answers)
        except StopIteration:
            self.over = True
        except CounterError:
            self.over = True

    def stop(self) -> None:
        self.asks.close()
        self.over = True


class World:
    """One run of a schedule. ``texts`` replaces scripts; ``tell`` is told of every step and command, in words."""

    def __init__(self, plan: Plan, tell: Tell | None = None, texts: Mapping[Script, bytes] | None = None) -> None:
        self.plan = plan
        self.tell = tell
        self.now = BEGINNING
        self.durability = Durability(replicas=1) if "durable" in plan.faults else None
        self.regions = [
            Region(REGIONS[n], n, plan.seed, lambda: self.now, list(shards), texts)
            for n, shards in enumerate(plan.regions)
        ]
        self.going: list[Going] = []
        self.late: list[tuple[Region, Command]] = []
        self.buckets: dict[tuple[int, int, int], BucketSync] = {}  # what exchanges know, by source, destination, bucket
        self.evicted: set[int] = set()
        self.happened: Counter[str] = Counter()
        self._join()

    # -- who takes part

    def _join(self) -> None:
        seen = [self._plain(r, settle(NAMESPACE, r.name, BUCKETS, r.mint().encode())) for r in self.regions]
        for region in self.regions:
            self._plain(region, join(region.space, list(range(BUCKETS)), region.mint))
        for here, one in zip(self.regions, seen, strict=True):
            told: dict[bytes, Member] = {}
            for other in seen:
                if other is not one:
                    told |= agree(one, other)[one.name]
            self._plain(here, record(NAMESPACE, one.name, one.id or b"", told))
            here.settle()

    def _plain(self, region: Region, steps: Generator[list[Command], list[object], Any]) -> Any:
        answers: list[object] | None = None
        while True:
            try:
                commands = next(steps) if answers is None else steps.send(answers)
            except StopIteration as stop:
                return stop.value
            answers = [self.run(region, command) for command in commands]

    def evict(self, which: int) -> None:
        """All others, and it itself, know that it takes part no more."""
        if which in self.evicted or len(self.regions) - len(self.evicted) < 2:
            return
        if any(region.erased for region in self.regions):  # it may be the only one that has what was deleted by hand
            return
        gone = self.regions[which]
        id = self._plain(gone, look(NAMESPACE, gone.name)).id
        for region in [r for r in self.regions if r is not gone] + [gone]:
            at = self._plain(region, look(NAMESPACE, region.name))
            self._plain(region, evict(NAMESPACE, at, gone.name, id))
            region.settle()
        self.evicted.add(which)
        self.happened["evicted"] += 1

    def admit(self, which: int) -> None:
        """It takes part again."""
        if which not in self.evicted:
            return
        back = self.regions[which]
        seen = {r.name: self._plain(r, look(NAMESPACE, r.name)) for r in self.regions}
        self._plain(back, forget_others(seen[back.name], back.mint))
        back.settle()
        members = {back.name: Member(seen[back.name].id, EVICTED)}
        for n, region in enumerate(self.regions):
            if n == which or n not in self.evicted:
                self._plain(region, admit(NAMESPACE, seen[region.name], members, region.mint))
                region.settle()
        # What it has heard of resets of others' counts is gone; if nobody else has, they do not hold.
        for place in [place for place in back.floors if not place[1].startswith(back.name + b"/")]:
            del back.floors[place]
        for region in self.regions:
            for place, totals in region.seen.items():
                told = [each.floors.get(place, (0, 0)) for each in self.regions]
                region.seen[place] = min(totals[0], max(t[0] for t in told)), min(totals[1], max(t[1] for t in told))
        self.evicted.discard(which)
        self.forget()
        self.happened["returned"] += 1

    # -- the exchange

    def route(self, source: int, destination: int) -> Route:
        one, other = self.regions[source], self.regions[destination]
        known = [region.name for region in self.regions]
        return Route(one.name, other.name, one.space, (known, known), self.durability)

    def bucket(self, source: int, destination: int, number: int) -> BucketSync:
        key = (source, destination, number)
        if key not in self.buckets:
            self.buckets[key] = BucketSync(number, Pace(0.2, self.now))
        return self.buckets[key]

    def forget(self) -> None:
        """The exchanges are killed: others begin with nothing."""
        for going in self.going:
            going.stop()
        self.going.clear()
        self.buckets.clear()

    def disconnected(self, which: int) -> None:
        """A region's connections are gone: what is known of its buckets may not hold at another server."""
        for (source, destination, _), bucket in self.buckets.items():
            if which in (source, destination):
                bucket.forget()

    def linked(self, source: int, destination: int) -> bool:
        """Whether the destination asks the source, if both take part."""
        apart = (destination - source) % len(self.regions)
        return apart == 1 if "ring" in self.plan.faults else apart > 0

    def takes_part(self, *regions: int) -> bool:
        return self.evicted.isdisjoint(regions)

    def pull(self, source: int, destination: int, number: int) -> Going:
        asks = pull(self.route(source, destination), self.bucket(source, destination, number), SyncMetrics(), self.now)
        return Going(asks, (self.regions[source], self.regions[destination]))

    def tidy(self, source: int, destination: int, number: int) -> Going:
        route, bucket = self.route(source, destination), self.bucket(source, destination, number)
        asks = tidy(route, bucket, SyncMetrics(), self.now, both=self.linked(destination, source))
        return Going(asks if bucket.floored else _nothing(), (self.regions[source], self.regions[destination]))

    def compare(self, source: int, destination: int, number: int) -> Going:
        comparison = Comparison(self.route(source, destination), number, both=True)
        return Going(comparison.whole(SyncMetrics()), (self.regions[source], self.regions[destination]))

    def go(self, going: Going, fates: Iterator[str]) -> None:
        """The piece goes on, command by command, each with a fate, until it is over, broken off, or waits."""
        while not going.over:
            assert going.ask is not None
            region = going.sides[going.ask.side]
            command = going.ask.commands[len(going.answers)]
            fate = next(fates, ".")
            if fate == "s":
                self.going.append(going)
                self.buckets.clear()  # what that exchange knows is its own; others begin with nothing
                return
            if fate in "lk":
                if fate == "l":
                    self.late.append((region, command))
                break
            going.answers.append(self.run(region, command))
            if fate == "d":
                self.late.append((region, command))
            if fate == "r":
                break
            if len(going.answers) == len(going.ask.commands):
                going.advance(going.answers)
        if not going.over:
            self.broken(going, fates)

    def broken(self, going: Going, fates: Iterator[str]) -> None:
        """The connection is gone: the process is killed, or it is told that there is no answer."""
        assert going.ask is not None
        if next(fates, ".") == "k":
            going.stop()
            return
        missing = len(going.ask.commands) - len(going.answers)
        no_answer = NoAnswer(Unavailable("the connection broke"))
        going.advance([*going.answers, *[no_answer] * missing])
        self.happened["no answer"] += 1
        self.go(going, fates)

    def deliver_late(self, which: int) -> None:
        if self.late:
            region, command = self.late.pop(which % len(self.late))
            self.run(region, command)
            self.happened["late"] += 1

    def run(self, region: Region, command: Command) -> object:
        answer = region.run(command)
        if self.tell is not None:
            what = command.script.value if command.script else command.plain.decode()
            words = [part if isinstance(part, bytes) else b"%d" % part for part in (*command.keys, *command.args)]
            shown = answer.text if isinstance(answer, ErrorReply) else answer
            self.tell(f"    {region.name.decode()}: {what} {b' '.join(words).decode('utf-8', 'replace')} -> {shown}")
        if command.script is Script.ENTRIES_MERGE and isinstance(answer, list):
            self.happened[f"merge {answer[0].decode()}"] += 1
        if command.script is Script.ENTRIES_DROP and isinstance(answer, list) and answer[-1]:
            self.happened["dropped"] += 1
        if command.script is Script.DOTS_SETTLE:
            self.happened["made again"] += 1
        return answer

    # -- losses

    def erase(self, which: int, name: bytes, shard: int) -> None:
        """A key is deleted by hand, where others durably have all that it holds."""
        region = self.regions[which]
        region.flush_all()  # what a fail-over took back is there again: see "Limits"
        key = region.space.shard_key(name, shard)[1]
        here = dict(region.shards()).get(key)
        if here is None or which in self.evicted or key in region.unknown():
            return
        for place in here.places():
            holders = [
                other
                for n, other in enumerate(self.regions)
                if n != which and n not in self.evicted and self._holds(other, key, place, here.entry(place))
            ]
            if not holders:
                return
        others = [dict(other.shards()).get(key, RegionalShard()) for other in self.regions if other is not region]
        if max(other.shards for other in others) < here.shards:
            return
        for other in self.regions:
            other.settle()
        region.database.delete(key)
        region.keep()
        region.settle()
        region.erased = True
        self.happened["erased"] += 1

    def _holds(self, other: Region, key: bytes, place: bytes, entry: list[int]) -> bool:
        there = dict(other.shards()).get(key)
        if there is None or place not in there.places() or (key in other.unknown() and place.startswith(other.name)):
            return False
        return all(a >= b for a, b in zip(there.entry(place), entry, strict=True))

    # -- what must be

    def check(self) -> None:
        """Nothing is above what was issued (where nothing was reset, floors are no matter)."""
        if any(region.seen for region in self.regions):
            return
        for name in NAMES:
            most = sum(region.issued[name, b"+"] for region in self.regions)
            least = -sum(region.issued[name, b"-"] for region in self.regions)
            for region in self.regions:
                value = region.value(name)
                if not least <= value <= most:
                    raise Violation(f"{name!r} is {value} in {region.name!r}; issued were {most} and {least}")

    def finish(self) -> None:
        """All is healed; then every region has the same, and it is what was counted and no reset has seen."""
        for region in self.regions:
            region.confirms = True
        while self.going:
            self.go(self.going.pop(), iter(""))
        for which in sorted(self.evicted):
            self.admit(which)
        for region in self.regions:
            region.flush_all()
            region.settle()
        if "living" not in self.plan.faults:
            self.forget()
        for last in range(ROUNDS):
            for source in range(len(self.regions)):
                for destination in range(len(self.regions)):
                    if self.linked(source, destination):
                        for number in range(BUCKETS):
                            self.go(self.pull(source, destination, number), iter(""))
                            if "compared" in self.plan.faults:
                                self.go(self.compare(source, destination, number), iter(""))
                            self.now += 0.1
            if last == 1:  # they may be as late as they like
                while self.late:
                    self.deliver_late(0)
                for region in self.regions:
                    region.flush_all()
        self._check_end()

    def _check_end(self) -> None:
        for name in NAMES:
            expected = 0
            for region in self.regions:
                parts = {
                    (key, place): totals
                    for (key, place), totals in region.own.items()
                    if key.endswith(b":" + name) and place.startswith(region.name + b"/")
                }
                for sign, part in ((b"+", 0), (b"-", 1)):
                    counted = sum(totals[part] for totals in parts.values())
                    if counted != region.issued[name, sign]:
                        raise Violation(
                            f"{region.issued[name, sign]} of {sign!r} were issued for {name!r} in {region.name!r}, "
                            f"{counted} are there: {parts}"
                        )
                for spot, (plus, minus) in parts.items():
                    seen = [other.seen.get(spot, (0, 0)) for other in self.regions]
                    expected += plus - max(s[0] for s in seen) - minus + max(s[1] for s in seen)
            values = [region.value(name) for region in self.regions]
            if any(value != expected for value in values):
                raise Violation(f"{name!r} is {values}, and {expected} was counted that no reset has seen")


def _nothing() -> Generator[Ask, list[object], None]:
    yield from ()
