"""No step of the janitor holds the server up, however large a counter is and however many there are."""

from __future__ import annotations

import os
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.protocol.upkeep.janitor import JanitorReport, repair
from redis_counters.protocol.wire.commands import Command
from tests.faces.either import commandstats, reset_stats
from tests.protocol.cleaning import LONG, UPKEEP, House, drive
from tests.servers import RealServer

SLOTS = 20_000
COUNTERS = int(
    os.environ.get("REDIS_COUNTERS_MANY", "10000")
)  # 1,000,000 were tried by hand: docs/howto/housekeeping.md
SLOW = 10_000  # microseconds
ATTEMPTS = 3  # a command may be slow because the machine is busy, but not the same work each time
MOST_COMMANDS = 100  # of one step
PIECE = 250  # slots, fields or names that one command deals with


def crowd(house: House, name: bytes, slots: int) -> list[bytes]:
    """A counter has that many slots of 3, each of an actor that is open and old; return them."""
    bucket, key = house.keys.shard_key(name, 0)
    registry = house.keys.registries[bucket]
    first = int(house.open(bucket).split(b".")[1]) + 1
    actors = [b"gen%02d.%d.abcd" % (bucket, n) for n in range(first, first + slots)]
    house.client.hset(registry, "n", first + slots)
    long_ago = int(house.client.time()[0]) - LONG
    for start in range(0, slots, 1000):
        some = actors[start : start + 1000]
        house.client.hset(registry, mapping={actor: b"o 1 %d owner%b test" % (long_ago, actor) for actor in some})
        house.client.hset(registry, mapping={b"@owner" + actor: actor for actor in some})
        house.client.hset(key, mapping={actor + b"+": 3 for actor in some})
    return actors


def many_counters(house: House, count: int) -> None:
    """Each of these counters has a slot of 2 of an actor that is open and old."""
    actors = [house.open(bucket) for bucket in range(house.keys.buckets)]
    for start in range(0, count, 5000):
        pipeline = house.client.pipeline(transaction=False)
        for n in range(start, min(start + 5000, count)):
            bucket, key = house.keys.shard_key(b"n%d" % n, 0)
            pipeline.hset(key, mapping={actors[bucket] + b"+": 2, b"+": 1, b"d": b"x.1"})
        pipeline.execute()


def slow_commands(house: House, state: str) -> list[tuple[int, bytes]]:
    """Keep house, after which all actors are in that state; return what SLOWLOG has of it: microseconds, command."""
    house.age()
    house.client.slowlog_reset()
    house.clean_up()
    found = [(entry["duration"], entry["command"][:60]) for entry in house.client.slowlog_get(100)]
    assert set(house.states()) == set(state)
    return found


@pytest.mark.slow("large counters")
def test_no_command_is_slow(any_server: RealServer) -> None:
    """Closing, folding and forgetting 20,000 actors of one counter, among many counters, by the server's SLOWLOG."""
    client: Any = any_server.client()
    before = {name: client.config_get(name)[name] for name in ("slowlog-log-slower-than", "slowlog-max-len")}
    client.config_set("slowlog-log-slower-than", SLOW)
    client.config_set("slowlog-max-len", 100)
    found: list[list[tuple[int, bytes]]] = []
    try:
        while len(found) < ATTEMPTS and [] not in found:
            client.flushall()
            house = House(client, buckets=16)
            crowd(house, b"hot", SLOTS)
            many_counters(house, COUNTERS)
            with any_server.ahead():
                found.append([entry for state in ("c", "f", "") for entry in slow_commands(house, state)])
            assert house.value(b"hot") == 3 * SLOTS
            assert client.hlen(house.keys.shard_key(b"hot", 0)[1]) == 1
            assert {client.hget(house.keys.shard_key(b"n%d" % n, 0)[1], "+") for n in range(0, COUNTERS, 97)} == {b"3"}
        assert [] in found, found
    finally:
        for name, value in before.items():
            client.config_set(name, value)


def test_no_step_is_large(any_server: RealServer) -> None:
    """Counted, not timed: a step is a hundred commands at most, a script of it deals with 250 slots at most."""
    house = House(any_server.client(), buckets=1)
    crowd(house, b"hot", 3000)
    many_counters(house, 3000)
    most_commands = most_keys = most_arguments = 0

    def look(commands: list[Command]) -> None:
        nonlocal most_commands, most_keys, most_arguments
        most_commands = max(most_commands, len(commands))
        most_keys = max(most_keys, sum(len(command.keys) for command in commands if command.script))
        most_arguments = max(most_arguments, *(len(command.args) for command in commands))
        for command in commands:
            if b"COUNT" in command.args:
                assert int(command.args[list(command.args).index(b"COUNT") + 1]) <= PIECE

    for _ in range(3):
        house.age()
        house.clean_up(look)
    assert house.states() == ""
    assert most_commands <= MOST_COMMANDS
    assert most_keys <= PIECE + MOST_COMMANDS
    assert most_arguments <= MOST_COMMANDS + 2


@pytest.mark.parametrize("slots", [64, 3000])
def test_repair_goes_in_pieces_too(any_server: RealServer, slots: int) -> None:
    """A crowded counter is folded without a look at any other; who is alive keeps his slot."""
    house = House(any_server.client(), buckets=4)
    bucket, key = house.keys.shard_key(b"hot", 0)
    crowd(house, b"hot", slots)
    crowd(house, b"other", 10)
    _, alive = house.short_lived(b"hot", 5)
    keys: set[bytes] = set()

    def look(commands: list[Command]) -> None:
        keys.update(key for command in commands for key in command.keys)
        assert len(commands) <= MOST_COMMANDS
        assert house.value(b"hot") == 3 * slots + 5

    for expected in (slots + 1, 2):
        drive(house.client, repair(house.keys, UPKEEP, JanitorReport(), [key]), look)
        house.age(UPKEEP.delay + 1)
        if expected == 2:
            assert house.client.hkeys(key).count(alive + b"+") == 1
            assert house.client.hlen(key) == expected
    assert keys == {key, house.keys.registries[bucket]}
    assert house.client.hlen(house.keys.shard_key(b"other", 0)[1]) == 10


@pytest.mark.slow("large counters")
def test_reading_a_crowded_counter_is_one_command(any_server: RealServer) -> None:
    """HGETALL of all slots: it takes the server milliseconds, and is exact; folding makes it short again."""
    house = House(any_server.client(), buckets=16)
    crowd(house, b"hot", SLOTS)
    with Counters.from_url(any_server.url) as counters:
        reset_stats(any_server)
        assert counters.get("hot", max_age=0) == 3 * SLOTS
        assert commandstats(any_server)["hgetall"] == 1
        for _ in range(2):
            house.age()
            house.clean_up()
        assert counters.get("hot", max_age=0) == 3 * SLOTS
    assert house.client.hlen(house.keys.shard_key(b"hot", 0)[1]) == 1
