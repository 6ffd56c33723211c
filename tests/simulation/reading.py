"""How a process of a schedule reads: fetches that may wait at any point, and what is promised of each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.read.cache import FetchLease
from redis_counters.protocol.read.fetch import Asks, Reads
from redis_counters.protocol.wire.commands import Command, sent
from redis_counters.protocol.wire.values import CounterValue
from tests.simulation.ledger import Violation
from tests.simulation.plan import GROWING

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Fetch(NamedTuple):
    """A read that waits for its answers. ``answers`` is empty as long as the commands have not arrived."""

    asks: Asks
    lease: FetchLease
    commands: list[Command]
    answers: list[object]
    fall_backs: int


class Reading:
    """The reads of one process, and what they have shown."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = process.world
        self.fetches: list[Fetch] = []
        self.last: dict[bytes, tuple[int, int, int]] = {}  # value read, issued then, fall-backs when it was fetched
        self.fetched: dict[bytes, int] = {}  # fall-backs when the cached snapshot was fetched
        self.values = 0

    @property
    def reads(self) -> Reads:
        return self.process.core.reads

    def stop(self) -> None:
        """Nothing is waited for any more."""
        for fetch in self.fetches:
            fetch.asks.close()
        self.fetches.clear()

    def begin(self, names: list[bytes], how: str) -> None:
        """Values are read, or a fetch has begun: ``a`` as the faces look first, without a lock; ``q`` the commands are
        not there yet; ``h`` they are, and answered; ``l`` they are lost; else the whole of it, ``n``: past the cache.
        """
        reads = self.reads
        if how == "a":
            cached_nowait = {name: reads.cache.cached_nowait(name) for name in names}
            self._check({name: value for name, value in cached_nowait.items() if value is not None})
            return
        lease = FetchLease()
        claim = reads.cache.claim(names, 0 if how == "n" else None, None, lease)
        self._check(claim.values)
        if claim.busy or not claim.missing:
            return
        asks = reads.fetch(claim.missing)
        fetch = Fetch(asks, lease, next(asks), [], self.world.fall_backs)
        if how == "l":
            self._end_fetch(fetch, Unavailable("lost"))
            return
        if how == "h":
            self._ask(fetch)
        if how in ("q", "h"):
            self.fetches.append(fetch)
        else:
            self._go_on(fetch)

    def go_on(self, which: int) -> None:
        if self.fetches:
            self._go_on(self.fetches.pop(which % len(self.fetches)))

    def _ask(self, fetch: Fetch) -> None:
        sent(fetch.commands)
        fetch.answers.extend(self.world.ask(command) for command in fetch.commands)

    def _go_on(self, fetch: Fetch) -> None:
        """The fetch goes on to its end."""
        while True:
            if not fetch.answers:
                self._ask(fetch)
            try:
                commands = fetch.asks.send(fetch.answers)
            except StopIteration as stop:
                self.fetched.update(dict.fromkeys(fetch.lease.names, fetch.fall_backs))
                self._end_fetch(fetch, None)
                self._check(stop.value)
                return
            except CounterError as error:
                self._end_fetch(fetch, error)
                if "other type" not in self.world.plan.faults:
                    raise Violation(f"a read failed: {error}") from error
                return
            fetch = fetch._replace(commands=commands, answers=[])

    def _end_fetch(self, fetch: Fetch, error: CounterError | None) -> None:
        fetch.asks.close()
        self.reads.cache.release(fetch.lease, error)

    def _check(self, values: dict[bytes, CounterValue]) -> None:
        world, process = self.world, self.process
        for name, value in values.items():
            self.values += 1
            world.check_bound(name, value)
            if name not in GROWING or not world.plan.faults.isdisjoint(("deleted", "other type", "taken away")):
                continue
            issued = process.issued[name]
            if process.core.writer.uncertain:  # it may count too little by now, and has said so
                continue
            # Once its record is forgotten, nobody can tell whether an own slot was folded: rather too little is shown.
            if value < issued and world.plan.faults.isdisjoint(("cleaned", "short memory")):
                raise Violation(f"process {process.number} reads {value} of {name!r}, and has counted {issued} itself")
            last, issued_then, fall_backs = self.last.get(name, (0, 0, -1))
            if fall_backs == world.fall_backs and self._has_noticed() and value < last + issued - issued_then:
                more = issued - issued_then
                raise Violation(
                    f"process {process.number} reads {value} of {name!r} after {last} and {more} of its own"
                )
            if not self._has_noticed():
                self.last.pop(name, None)
                continue
            self.last[name] = (int(value), issued, self.fetched.get(name, world.fall_backs))

    def _has_noticed(self) -> bool:
        """True if the process knows of every fail-over what it took back, and none of its actors is forgotten."""
        if "short memory" in self.world.plan.faults:  # a read in doubt shows rather too little
            return False
        world, actors = self.world, [actor for actor in self.process.core.writer.router.actors() if actor.id]
        return all(
            actor.last_proved > world.fell_back_at and actor.id in world.database.fields(actor.registry)
            for actor in actors
        )
