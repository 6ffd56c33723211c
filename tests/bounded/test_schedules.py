"""Random schedules: commands lost, doubled, late, fail-overs; at every step fields, records and bounds agree."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest

from redis_counters.protocol.keyed.bounded import ADD, GIVE_BACK, SPEND, Change, limits
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from tests.bounded.support import value
from tests.keyed.support import records
from tests.keyed.test_protocol import Client
from tests.protocol.by_hand import run
from tests.servers import RealServer

STEPS = 150
LIMITS = limits(0, 30)
AMOUNTS = [1, 2, 3, 11, 20]


class World:
    """Two processes, one server, and a network that does its worst."""

    def __init__(self, server: RealServer, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = server
        self.clients = [Client(server) for _ in range(2)]
        for n, client in enumerate(self.clients):
            mint = client.reads.writer.router.mint
            client.reads.writer.router.mint = lambda n=n, mint=mint: f"{n}{mint()}"  # type: ignore[misc]
        self.redis: Any = server.client()
        self.late: list[Command] = []
        self.kept: dict[bytes, tuple[bytes, int]] = {}
        self.fates: Counter[str] = Counter()

    def do(self, call: Change) -> bool:
        """Return whether the call was answered."""
        client = self.chance.choice(self.clients)
        steps = client.keyed.apply([call])
        answers: Any = None
        while True:
            try:
                commands = steps.send(answers)
            except StopIteration:
                assert call.error is None
                return True
            answers = []
            for command in commands:
                fate = self.chance.choices(["well", "before", "after", "twice"], [70, 8, 12, 10])[0]
                self.fates[fate] += 1
                if command.script is Script.BOUNDED_APPLY and self.chance.random() < 0.3:
                    self.late.append(command)
                if fate != "before":
                    answer = [run(client.redis, command) for _ in range(2 if fate == "twice" else 1)][-1]
                    assert not isinstance(answer, ErrorReply), answer.text
                    answers.append(answer)
                if fate in ("before", "after"):
                    steps.close()
                    return False

    def insist(self, call: Change) -> bytes:
        while not self.do(call):
            call.answer = call.error = None
        assert isinstance(call.answer, bytes)
        return call.answer

    def meddle(self) -> bool:
        """Something happens besides; return whether Redis forgot something."""
        what = self.chance.random()
        if what < 0.3 and self.late:
            self.fates["late"] += 1
            run(self.redis, self.chance.choice(self.late))
        elif what < 0.4:
            self.kept = {key: (self.redis.dump(key), max(self.redis.pttl(key), 0)) for key in self.redis.keys("*")}
        elif what < 0.43:
            self.fates["fail-over"] += 1
            self.redis.flushall()
            for key, (dumped, left) in self.kept.items():
                self.redis.restore(key, left, dumped)
            return True
        return False

    def agree(self) -> None:
        """What is there is what records say: added, less spent and not given back; and within the bounds."""
        net = 0
        for part in records(self.server).values():
            for record in part.values():
                found = re.fullmatch(rb"([+-])(\d+) (\w+) \d+", record)
                assert found
                if found[3] == b"1":
                    net += int(found[2]) if found[1] == b"+" else -int(found[2])
        assert value(self.server, b"x") == net
        assert 0 <= net <= 30


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("seed", range(15))
def test_fields_and_records_always_agree(any_server: RealServer, seed: int) -> None:
    """And each key, whoever asks again, has the answer that it had, unless a fail-over took that back."""
    world = World(any_server, seed)
    chance = world.chance
    told: dict[str, bytes] = {}
    returned: set[str] = set()
    calls: dict[str, tuple[bytes, int]] = {}
    for n in range(STEPS):
        key = f"key {chance.randrange(25)}"
        verb, amount = calls.setdefault(key, (chance.choice([ADD, SPEND]), chance.choice(AMOUNTS)))
        kind = chance.random()
        if kind < 0.15 and verb == SPEND:
            call = Change(b"x", LIMITS, GIVE_BACK, 0, key)
            returned.add(key)
            world.do(call)
        elif kind < 0.3:
            world.do(Change(b"x", LIMITS, verb, amount, None))
        else:
            call = Change(b"x", LIMITS, verb, amount, key)
            if world.do(call):
                assert isinstance(call.answer, bytes)
                answer = call.answer[:1]
                assert answer in b"01=", n
                assert key in returned or answer != b"="
                assert key in returned or told.setdefault(key, answer) == answer
        if world.meddle():
            told.clear()
        world.agree()
    for key, (verb, amount) in calls.items():
        if key not in returned:
            world.insist(Change(b"x", LIMITS, verb, amount, key))
        world.agree()
    while world.insist(Change(b"x", LIMITS, SPEND, 1, None)) == b"1":
        world.agree()
    assert value(any_server, b"x") == 0
    assert min(world.fates[fate] for fate in ("before", "after", "twice", "late")) > 0


def test_a_schedule_in_which_something_is_sold_twice_is_found(any_server: RealServer) -> None:
    """The check can fail: a spend without its record, and a right that nobody added."""
    world = World(any_server, 1)
    world.insist(Change(b"x", LIMITS, ADD, 5, "k"))
    world.agree()
    key = world.clients[0].reads.writer.router.presumed_keys.bounded_key(b"x")[1]
    for fields in ({b"-": 1, b"a": -1, b"h": 1}, {b"a": 1}):
        for field, amount in fields.items():
            world.redis.hincrby(key, field, amount)
        with pytest.raises(AssertionError):
            world.agree()
        for field, amount in fields.items():
            world.redis.hincrby(key, field, -amount)
        world.agree()
