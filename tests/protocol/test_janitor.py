"""Actors that fell silent are closed, folded and forgotten, step by step, and no value ever changes by it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from redis_counters.errors import CounterError
from redis_counters.protocol.upkeep.janitor import JanitorReport, one_pass, repair
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import KeySpace, index_of
from redis_counters.protocol.wire.registry import RegistryPage, all_records
from tests.protocol.cleaning import LONG, UPKEEP, House, aged, answers, drive
from tests.servers import RealServer

CLIENTS = 2000


@pytest.mark.slow("two thousand clients")
def test_two_thousand_short_lived_clients_leave_nothing_behind(any_server: RealServer) -> None:
    """The value is 2,000 before, during and after; in the end there is a base, and what a registry keeps of itself."""
    house = House(any_server.client())
    for _ in range(CLIENTS):
        house.short_lived(b"visits")

    def unchanged(_commands: list[Command]) -> None:
        assert house.value(b"visits") == CLIENTS

    unchanged([])
    assert house.fields() > 3 * CLIENTS  # a slot, a record and an owner each
    house.age()
    assert len(house.clean_up(unchanged).reaped) == CLIENTS
    house.age(UPKEEP.delay + 1)
    report = house.clean_up(unchanged)
    assert (len(report.folded), report.slots, report.complete) == (CLIENTS, CLIENTS, True)
    assert set(house.client.hkeys(house.keys.shard_key(b"visits", 0)[1])) == {b"d", b"+"}
    house.age()
    house.clean_up(unchanged)  # a walk that began after they were folded, and found nothing of them
    assert len(list(house.records())) == 0
    assert house.fields() == 2 + 4
    assert house.clean_up(unchanged) == JanitorReport(buckets=4, complete=True)


def test_nobody_is_folded_before_his_time(any_server: RealServer) -> None:
    """Who is open is not, who was closed a moment ago neither: a fail-over might open him again."""
    house = House(any_server.client())
    _, actor = house.short_lived(b"x")
    assert house.clean_up() == JanitorReport(buckets=4, complete=True)
    house.age(UPKEEP.actor_ttl)
    assert house.clean_up().waiting == 1
    assert house.states() == "c"
    house.age(UPKEEP.delay - 5)
    assert house.clean_up().slots == 0
    assert house.states() == "c"
    house.age(10)
    report = house.clean_up()
    assert (report.folded, report.slots) == ({(house.keys.bucket(b"x", 0), actor)}, 1)
    assert house.states() == "f"
    house.age(UPKEEP.retention - 5)
    assert house.clean_up().cleaned == []
    house.age(10)
    assert house.clean_up().cleaned == [(house.keys.bucket(b"x", 0), actor)]
    assert house.value(b"x") == 1


def test_who_comes_back_during_a_walk_is_left_alone(any_server: RealServer) -> None:
    """He reopens and counts while the janitor is about to fold him; his slots stay, and what he counts counts.

    (He has a longer delay than the janitor: by the janitor's own it would be too late.)
    """
    house = House(any_server.client())
    bucket, actor = house.short_lived(b"x", 5)
    house.age()
    house.clean_up()
    house.age(UPKEEP.delay + 1)
    registry, key = house.keys.registries[bucket], house.keys.shard_key(b"x", 0)[1]

    def come_back(commands: list[Command]) -> None:
        if commands[0].plain == b"SCAN":
            house.call(
                Script.ACTOR_OPEN, [registry, index_of(registry)], b"any", actor, b"other", b"", 10 * UPKEEP.delay
            )
            house.tell(bucket, actor, 2, {key: 7})

    report = house.clean_up(come_back)
    assert (report.slots, house.states(), house.value(b"x")) == (0, "o", 7)
    assert house.clean_up() == JanitorReport(buckets=4, complete=True)


@pytest.mark.slow("each step of each pass")
def test_a_pass_may_be_cut_at_any_step(any_server: RealServer) -> None:
    """Whatever was begun: no value is changed by it, and the next pass finishes."""
    chance, client = random.Random(7), any_server.client()
    for cut in range(1, 60):
        client.flushall()
        house = House(client)
        names = [b"n%d" % i for i in range(8)]
        for name in names * 3:
            house.short_lived(name, 2)
        house.age()
        house.clean_up()
        house.age(UPKEEP.delay + 1)
        for _ in range(2):
            steps, told = one_pass(house.keys, UPKEEP, JanitorReport()), None
            for _ in range(cut):
                try:
                    commands = next(steps) if told is None else steps.send(told)
                except StopIteration:
                    break
                told = answers(client, commands[: chance.randint(0, len(commands))])
                told += answers(client, commands[len(told) :])
            if chance.random() < 0.5 and commands:  # the last of what was sent did not arrive
                steps.close()
            assert [house.value(name) for name in names] == [6] * 8
            house.age(UPKEEP.delay + 1)
        house.clean_up()
        assert house.states() == "f" * 24
        house.age()
        house.clean_up()
        assert [house.value(name) for name in names] == [6] * 8
        assert house.states() == ""
        if told is not None and len(told) == 0:
            break


def test_a_lease_lets_one_go(any_server: RealServer) -> None:
    """Of many that ask within a period, one keeps house; with a period of 0, all do."""
    house = House(any_server.client())
    house.short_lived(b"x")
    house.age()
    assert [house.clean_up(period=60).buckets for _ in range(3)] == [4, 0, 0]
    assert house.clean_up().buckets == 4


def test_without_a_namespace_there_is_nothing_to_do(any_server: RealServer) -> None:
    client, report = any_server.client(), JanitorReport()
    assert drive(client, one_pass(KeySpace(b"rc", 16), UPKEEP, report)) == 1
    assert report == JanitorReport()
    assert client.dbsize() == 0


def test_a_dry_run_changes_nothing(any_server: RealServer) -> None:
    """It tells what a pass would do."""
    house = House(any_server.client())
    for name in (b"x", b"y", b"x"):
        house.short_lived(name)

    def everything() -> dict[bytes, dict[bytes, bytes]]:
        return {key: house.client.hgetall(key) for key in house.client.keys("*") if not key.endswith(b"}:x")}

    for expected in ((3, 0, 0, 0), (0, 3, 3, 0), (0, 0, 0, 0), (0, 0, 0, 3)):
        house.age(UPKEEP.retention + 1)
        before = everything()
        dry = house.clean_up(dry_run=True)
        assert everything() == before
        wet = house.clean_up()
        for report in (dry, wet):
            assert (len(report.reaped), len(report.folded), report.slots) == expected[:3]


def test_a_registry_of_another_type_is_left_alone(any_server: RealServer) -> None:
    """The other buckets are looked after all the same, to the end."""
    house = House(any_server.client(), buckets=4)
    names = [b"n%d" % i for i in range(20)]
    for name in names:
        house.short_lived(name)
    spoilt = house.keys.registries[1]
    house.client.delete(spoilt)
    house.client.set(spoilt, "mine")
    rest = {0, 2, 3}
    for _ in range(3):
        for registry in (house.keys.registries[bucket] for bucket in rest):
            for record in RegistryPage(house.client.hgetall(registry).items()).records:
                house.client.hset(registry, record.actor, aged(record, LONG))
        house.clean_up()
    assert [house.client.hlen(house.keys.registries[bucket]) for bucket in rest] == [4, 4, 4]
    assert house.client.get(spoilt) == b"mine"
    assert all(house.value(name) == 1 for name in names)


def test_a_slot_that_is_not_folded_keeps_the_actors_of_its_bucket(any_server: RealServer) -> None:
    """Redis refuses it, for it holds no count. Without its actor's record nothing would find it any more."""
    house = House(any_server.client(), buckets=1)
    _, actor = house.short_lived(b"spoilt")
    house.short_lived(b"good")
    house.client.hset(house.keys.shard_key(b"spoilt", 0)[1], actor + b"+", "many")
    for _ in range(4):
        house.age()
        report = house.clean_up()
    assert (report.refused, report.complete, report.cleaned) == (1, False, [])
    assert house.states() == "ff"
    assert house.value(b"good") == 1


@pytest.mark.parametrize("changed", [False, True])
def test_a_walk_that_ends_on_another_server_was_not_complete(any_server: RealServer, changed: bool) -> None:
    """A fail-over in between: nobody is forgotten because of it, for some keys were not seen."""
    house, report = House(any_server.client()), JanitorReport()
    house.short_lived(b"x")
    house.age()
    house.clean_up()
    house.age()
    house.clean_up()
    house.age()
    steps, told, runs = one_pass(house.keys, UPKEEP, report), None, 0
    while True:
        try:
            commands = next(steps) if told is None else steps.send(told)
        except StopIteration:
            break
        told = answers(house.client, commands)
        if commands[0].plain == b"INFO":
            runs += 1
            told = [b"# Server\r\nrun_id:%d\r\n" % (runs if changed else 1)]
    assert runs == 2
    assert (report.complete, len(report.cleaned), house.states()) == (not changed, 1 - changed, "f" * changed)


def test_a_bucket_that_moves_to_a_server_that_was_walked_over(any_server: RealServer) -> None:
    """Its keys may not have been seen, neither here nor there: nobody in it is forgotten because of this walk."""
    house, report = House(any_server.client()), JanitorReport()
    names = [b"x", b"y", b"z", b"u", b"v"]
    here = house.keys.bucket(names[0], 0)
    moving = next(name for name in names if house.keys.bucket(name, 0) != here)
    for name in (names[0], moving):
        house.short_lived(name)
    for _ in range(2):
        house.age()
        house.clean_up()
    house.age()
    steps, told, walking = one_pass(house.keys, UPKEEP, report), None, False
    moves = house.keys.registries[max(here, house.keys.bucket(moving, 0))]  # looked at after the other
    while True:
        try:
            commands = next(steps) if told is None else steps.send(told)
        except StopIteration:
            break
        told = answers(house.client, commands)
        walking = walking or commands[0].plain == b"SCAN"
        if commands[0].plain == b"INFO":
            told = [b"run_id:%d" % (2 if each.at == moves and not walking else 1) for each in commands]
    assert walking
    assert not report.complete
    assert not report.cleaned


GARBAGE: list[Any] = [
    None,
    b"",
    b"OK",
    7,
    [],
    [None],
    [b"OK"],
    [b"OK", b"x"],
    [b"OK", b"7", 3],
    [b"0", None],
    [b"0", [b"a"]],
    [b"0", [b"gen00.1.abcd", b"c 1"]],
    [b"0", [b"gen00.1.abcd", 7]],
    [b"7", [b"gen00.1.abcd+", b"many"]],
    [0, {b"gen00.1.abcd": b"o 1 1 owner x"}],
    [b"0", {"text": "text"}],
    {b"a": b"b"},
    ErrorReply("ERR what"),
    ErrorReply("WRONGTYPE no"),
    ErrorReply("READONLY no"),
    ErrorReply("NOPERM no"),
]


@pytest.mark.parametrize("what", ["pass", "repair", "records"])
def test_answers_that_make_no_sense_end_a_pass(what: str) -> None:
    """With an error of ours or without one, and nothing else, whichever of the answers it is."""
    chance, keys = random.Random(11), KeySpace(b"rc", 2)
    ended = dict.fromkeys(("error", "end", "still"), 0)
    sense: dict[bytes, Any] = {
        b"": [b"OK", b"1000"],
        b"TIME": [b"1000", b"1"],
        b"HSCAN": [b"0", [b"g", b"gen00", b"gen00.1.abcd", b"c 1 1 owner x"]],
        b"SCAN": [b"0", [b"{rc:0}:c:0:x"]],
        b"INFO": b"run_id:1",
        b"HMGET": [b"c 1 1 owner x"],
    }
    for _ in range(2000):
        steps: Any = one_pass(keys, UPKEEP, JanitorReport())
        if what == "repair":
            steps = repair(keys, UPKEEP, JanitorReport(), [b"{rc:0}:c:0:x"])
        elif what == "records":
            steps = all_records(keys.registries)
        try:
            commands = next(steps)
            for _ in range(50):
                told = [chance.choice(GARBAGE) if chance.random() < 0.3 else sense[c.plain] for c in commands]
                commands = steps.send(told)
            ended["still"] += 1
        except CounterError:
            ended["error"] += 1
        except StopIteration:
            ended["end"] += 1
    assert min(ended["error"], ended["end"]) > 20
    assert ended["still"] < 100


@pytest.mark.slow("hundreds of lives")
def test_processes_that_are_killed(any_server: RealServer) -> None:
    """Real ones: what they had flushed counts before, during and after; nothing else is left of them."""
    client: Any = any_server.client()
    program = (
        "import os, sys; from redis_counters import Counters; c = Counters.from_url(sys.argv[1], buckets=4);"
        "c.incr('visits', 3); c.decr('visits'); c.incr(sys.argv[2]); c.flush(); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = [
        subprocess.run([sys.executable, "-c", program, any_server.url, f"n{i}"], env=environment, timeout=60).returncode
        for i in range(8)
    ]
    assert set(ended) == {-9}
    house = House(client, buckets=4)

    def unchanged(_commands: list[Command]) -> None:
        assert house.value(b"visits") == 16
        assert [house.value(b"n%d" % i) for i in range(8)] == [1] * 8

    assert "o" in house.states()
    for _ in range(3):
        house.age()
        house.clean_up(unchanged)
    assert house.states() == ""
    assert set(client.hkeys(house.keys.shard_key(b"visits", 0)[1])) == {b"+", b"-", b"d"}
