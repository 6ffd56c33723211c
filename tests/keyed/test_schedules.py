"""Random schedules of keyed calls: commands lost, doubled, late, fail-overs; at every step effect and record agree."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from redis_counters.crdt.slotmap import parse
from redis_counters.protocol.keyed.calls import Call, Like, Once, Seed
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from tests.keyed.support import KEYS, records, users
from tests.keyed.test_protocol import Client
from tests.protocol.by_hand import run
from tests.servers import RealServer

SHARDS = 3
STEPS = 120
KEYS_USED = [f"key {i}" for i in range(12)]
AMOUNTS = {key: 10**i for i, key in enumerate(KEYS_USED)}  # so that the value says which keys have counted, how often
PEOPLE = [f"user {i}" for i in range(6)]
LATE = (Script.ONCE_APPLY, Script.LIKES_APPLY, Script.SLOTS_SEED, Script.KEYED_OPEN)


class World:
    """Two processes, one server, and a network that does its worst."""

    def __init__(self, server: RealServer, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = server
        self.clients = [Client(server, shards=SHARDS) for _ in range(2)]
        self.redis: Any = server.client()
        self.late: list[Command] = []
        self.kept: dict[bytes, tuple[bytes, int]] = {}
        self.fates: Counter[str] = Counter()

    def do(self, client: Client, call: Call) -> bool:
        """Return whether the call was answered."""
        steps = client.keyed.apply([call])
        answers: Any = None
        while True:
            try:
                commands = steps.send(answers)
            except StopIteration:
                return call.error is None
            answers = []
            for command in commands:
                fate = self.chance.choices(["well", "before", "after", "twice"], [70, 8, 12, 10])[0]
                self.fates[fate] += 1
                if command.script in LATE and self.chance.random() < 0.3:
                    self.late.append(command)
                if fate != "before":
                    answer = run(client.redis, command)
                    if fate == "twice":
                        answer = run(client.redis, command)
                    assert not isinstance(answer, ErrorReply), answer.text
                    answers.append(answer)
                if fate in ("before", "after"):
                    steps.close()
                    return False

    def insist(self, call: Call) -> None:
        while not self.do(self.chance.choice(self.clients), call):
            call.answer = call.error = None

    def meddle(self) -> None:
        """Something happens besides: a late copy, a moment that is remembered, a fail-over to it."""
        what = self.chance.random()
        if what < 0.3 and self.late:
            self.fates["late"] += 1
            run(self.redis, self.chance.choice(self.late))
        elif what < 0.4:
            self.kept = {key: (self.redis.dump(key), max(self.redis.pttl(key), 0)) for key in self.redis.keys("*")}
        elif what < 0.45:
            self.fates["fail-over"] += 1
            self.redis.flushall()
            for key, (value, left) in self.kept.items():
                self.redis.restore(key, left, value)

    def value(self, name: bytes) -> int:
        return sum(parse(self.redis.hgetall(KEYS.shard_key(name, shard)[1])).value for shard in range(SHARDS))

    def agree(self) -> None:
        """What has counted is what is recorded, and who likes is who is counted."""
        recorded = [int(record.split()[0]) for part in records(self.server).values() for record in part.values()]
        assert self.value(b"c") == sum(recorded)
        assert self.value(b"l") == len(users(self.server, b"l", SHARDS))


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("seed", range(10))
def test_effect_and_record_always_agree(any_server: RealServer, seed: int) -> None:
    """And in the end, when everybody has repeated what he wanted, all of it is there once."""
    world = World(any_server, seed)
    chance = world.chance
    totals: list[int] = []
    for _ in range(STEPS):
        key, user = chance.choice(KEYS_USED), chance.choice(PEOPLE)
        kind = chance.randrange(5)
        if kind < 2:
            call: Call = Once("c", key, AMOUNTS[key], 3600)
        elif kind < 4:
            call = Like(b"l", user, chance.choice([b"+", b"-"]))
        else:
            totals.append(chance.randrange(-50, 50))
            call = Seed("s", totals[-1], "t")
        world.do(chance.choice(world.clients), call)
        world.meddle()
        world.agree()
    for key in KEYS_USED:
        world.insist(Once("c", key, AMOUNTS[key], 3600))
    for user in PEOPLE:
        world.insist(Like(b"l", user, b"+"))
    world.insist(Seed("s", 1000, "t"))
    assert world.value(b"c") == sum(AMOUNTS.values())
    assert world.value(b"l") == len(PEOPLE)
    assert world.value(b"s") == 1000
    for name in (b"c", b"l", b"s"):
        assert world.clients[0].get(name) == world.value(name)
    assert min(world.fates[fate] for fate in ("before", "after", "twice", "late")) > 0


def test_a_schedule_without_records_is_found(any_server: RealServer) -> None:
    """The check can fail: a count without its record is seen at once."""
    world = World(any_server, 1)
    world.insist(Once("c", "key 1", 10, 3600))
    world.agree()
    world.redis.hincrby(KEYS.shard_key(b"c", 0)[1], "+", 1)
    with pytest.raises(AssertionError):
        world.agree()
