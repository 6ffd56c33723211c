"""A region: a server whose state can go back, and clients that count there and live to the end."""

from __future__ import annotations

import random
import string
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from redis_counters.crdt.regional import RegionalShard, parse_fields
from redis_counters.errors import Unavailable
from redis_counters.protocol.core import Core
from redis_counters.protocol.exchange.change_index import is_note, names_in
from redis_counters.protocol.flush.round import RecordStep, SendStep
from redis_counters.protocol.read.sums import added_up
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.wire.settings import make_settings
from tests.simulation.hashes import Value
from tests.simulation.plan import BUCKETS, WINDOW
from tests.simulation.regions.sorted_sets import RegionalDatabase, SortedSet
from tests.simulation.server import LuaServer

NAMESPACE = b"t"
MOST_COMMANDS = 400  # of a round: one that takes more has no end
MOST_ROUNDS = 20  # until all that was counted is there
LETTERS = string.ascii_letters + string.digits

Place = tuple[bytes, bytes]  # a shard's key, and `REGION/DOT`
Totals = tuple[int, int]


class State(NamedTuple):
    """What the server held at one time, and what it had counted itself, under which dots."""

    time: float
    keys: dict[bytes, Value]
    own: dict[Place, Totals]


class Region:
    """One deployment. ``durable``: what has left it is never lost by a fail-over."""

    def __init__(
        self,
        name: bytes,
        number: int,
        seed: int,
        clock: Callable[[], float],
        shards: list[int],
        texts: Mapping[Script, bytes] | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.chance = random.Random(seed * 10 + number)
        self.server = LuaServer(clock, texts)
        self.database = self.server.database = RegionalDatabase(clock, (number + 1) << 24)
        self.space = KeySpace(NAMESPACE, BUCKETS)
        self.own: dict[Place, Totals] = {}
        self.history = [State(clock(), {}, {})]
        self.confirms = True  # followers answer WAIT
        self.erased = False  # a key was deleted by hand: no fail-over any more, see "Limits"
        self.issued: Counter[tuple[bytes, bytes]] = Counter()  # by name and sign
        self.seen: dict[Place, Totals] = {}  # what resets here have seen, of any region
        self.floors: dict[Place, Totals] = {}  # what this region was told of resets, or knows of its own
        self.cores = [self._core(number) for number in shards]

    def _core(self, shards: int) -> Core:
        settings = make_settings(
            namespace="t", shards=shards, buckets=BUCKETS, reassert_window=WINDOW, max_batch=3, actor_ttl=10**7
        )
        return Core(settings, self.mint, self.clock, self.clock, self.chance.random)

    def mint(self) -> str:
        return "".join(self.chance.choices(LETTERS, k=12))

    # -- the server

    def run(self, command: Command) -> object:
        """Return the server's answer; what it did may be taken back later."""
        if command.plain == b"WAIT":
            if self.confirms:
                self.settle()
            return int(self.confirms)
        writes = self.database.writes
        answer = self.server.run(command, text=True)
        if self.database.writes != writes:
            self.keep()
        return answer

    def keep(self) -> None:
        """The state now is one that a fail-over may come back to."""
        unknown = self.unknown()
        for key, shard in self.shards():
            for place in shard.places():
                plus, minus, *floors = shard.entry(place)
                if key in unknown and place.endswith(b".0"):
                    continue
                if place.startswith(self.name + b"/"):
                    self.own[key, place] = larger(self.own.get((key, place)), (plus, minus))
                self.floors[key, place] = larger(self.floors.get((key, place)), (floors[0], floors[1]))
        self.history.append(State(self.clock(), self.database.snapshot(), dict(self.own)))
        while self.clock() - self.history[1].time > 2 * WINDOW:
            del self.history[0]

    def unknown(self) -> set[bytes]:
        """Return the keys of which it is not known yet whether they were made for the first time."""
        found = set()
        for bucket in range(BUCKETS):
            index = self.database.keys.get(self.space.index(bucket))
            if isinstance(index, SortedSet):
                prefix = self.space.shard0[bucket][:-2]
                notes = [member for member in index.scores if is_note(member) and member[1:2] not in b"cC"]
                found |= {prefix + name for note in notes for name in names_in(note)}
        return found

    def settle(self) -> None:
        """All that there is is durable."""
        del self.history[:-1]

    def fail_over(self, lost: int) -> bool:
        """The latest writes are lost that are not durable, none older than the window."""
        if self.erased:
            return False
        count = 0
        while count < lost and len(self.history) > 1 and self.clock() - self.history[-1].time < WINDOW:
            self.history.pop()
            count += 1
        if not count:
            return False
        state = self.history[-1]
        self.database.restore(state.keys)
        self.own = dict(state.own)
        self.server.known.clear()
        for core in self.cores:
            core.failed(Unavailable("the connection broke"))
        return True

    # -- what is there

    def shards(self) -> list[tuple[bytes, RegionalShard]]:
        """Return what every shard holds, by key."""
        return [
            (key, parse_fields(value, self.name))
            for key, value in self.database.keys.items()
            if b":c:" in key and isinstance(value, dict)
        ]

    def value(self, name: bytes) -> int:
        """Return what a reader finds, who asks for as many shards as shard 0 tells of."""
        raws: list[object] = []
        told = 1
        while len(raws) < told:
            raws.append(dict(self.database.fields(self.space.shard_key(name, len(raws))[1])))
            told = max(told, added_up(name, raws)[2])
        return added_up(name, raws)[1]

    def keys_of(self, name: bytes) -> list[bytes]:
        """Return the shards of a counter, the highest first: shard 0 is reset last."""
        keys = [key for key in self.database.keys if b":c:" in key and name_of(key) == name]
        return sorted(keys, key=shard_of, reverse=True)

    # -- counting

    def count(self, which: int, name: bytes, amount: int) -> None:
        core = self.cores[which % len(self.cores)]
        self.issued[name, b"+" if amount > 0 else b"-"] += abs(amount)
        core.add(name.decode(), amount)

    def flush(self, core: Core) -> None:
        """One round, all of it."""
        steps, answer, answers = core.round(), None, deque[object]()
        for _ in range(MOST_COMMANDS):
            try:
                step = steps.send(answer)
            except StopIteration:
                break
            if isinstance(step, SendStep):
                answers.append(self.run(step.command))
                answer = None
            else:
                assert not isinstance(step, RecordStep)
                answer = answers.popleft()
        else:
            raise AssertionError("a round has no end")
        assert not core.writer.errors, core.writer.errors
        core.succeeded()

    def flush_all(self) -> None:
        """Everything that was counted is in Redis, and again what a fail-over took back."""
        for _ in range(MOST_ROUNDS):
            for core in self.cores:
                self.flush(core)
            if all(core.writer.clean for core in self.cores):
                return
        raise AssertionError("there is something left to be flushed")

    # -- resets

    def reset(self, name: bytes, *, delete: bool) -> None:
        """All that there is of the counter is seen; this is answered when it is durable."""
        for key in self.keys_of(name):
            shard, unknown = parse_fields(self.database.fields(key), self.name), key in self.unknown()
            bucket = self.space.bucket(name, shard_of(key))
            keys = (self.space.registries[bucket], self.space.index(bucket), key)
            users = self.space.users_key(name, shard_of(key))
            command = Command(Script.SHARD_RESET, (*keys, users), (int(delete),))
            answer = self.run(command)
            assert not isinstance(answer, ErrorReply), answer.text
            seen = {place: shard.entry(place) for place in shard.places()}
            if unknown:  # which dot it was the script has found out
                assert isinstance(answer, list)
                entries = [entry.split(b",") for entry in answer[1].split()]
                seen = {self.name * (place[:1] == b"/") + place: [*map(int, counts), 0] for place, *counts in entries}
            for place, (plus, minus, *_) in seen.items():
                self.seen[key, place] = larger(self.seen.get((key, place)), (plus, minus))
            self.settle()


def larger(one: Totals | None, other: Totals) -> Totals:
    return other if one is None else (max(one[0], other[0]), max(one[1], other[1]))
