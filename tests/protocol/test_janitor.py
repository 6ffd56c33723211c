"""Actors that fell silent are closed, folded and forgotten, step by step, and no value ever changes by it."""

from __future__ import annotations

import random

from redis_counters.protocol.commands import Command, Script
from redis_counters.protocol.janitor import Tally, one_pass
from redis_counters.protocol.keys import KeySpace
from tests.protocol.cleaning import UPKEEP, House, answers, drive
from tests.servers import RealServer

CLIENTS = 2000


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
    tally = house.clean_up(unchanged)
    assert (len(tally.folded), tally.slots, tally.complete) == (CLIENTS, CLIENTS, True)
    assert set(house.client.hkeys(house.keys.shard_key(b"visits", 0)[1])) == {b"d", b"+"}
    house.age()
    house.clean_up(unchanged)  # a walk that began after they were folded, and found nothing of them
    assert len(list(house.records())) == 0
    assert house.fields() == 2 + 4
    assert house.clean_up(unchanged) == Tally(buckets=4, complete=True)


def test_nobody_is_folded_before_his_time(any_server: RealServer) -> None:
    """Who is open is not, who was closed a moment ago neither: a fail-over might open him again."""
    house = House(any_server.client())
    _, actor = house.short_lived(b"x")
    assert house.clean_up() == Tally(buckets=4, complete=True)
    house.age(UPKEEP.actor_ttl)
    assert house.clean_up().waiting == 1
    assert house.states() == "c"
    house.age(UPKEEP.delay - 5)
    assert house.clean_up().slots == 0
    assert house.states() == "c"
    house.age(10)
    tally = house.clean_up()
    assert (tally.folded, tally.slots) == ({(house.keys.bucket(b"x", 0), actor)}, 1)
    assert house.states() == "f"
    house.age(UPKEEP.retention - 5)
    assert house.clean_up().cleaned == []
    house.age(10)
    assert house.clean_up().cleaned == [(house.keys.bucket(b"x", 0), actor)]
    assert house.value(b"x") == 1


def test_who_comes_back_during_a_walk_is_left_alone(any_server: RealServer) -> None:
    """He reopens and counts while the janitor is about to fold him; his slots stay, and what he counts counts."""
    house = House(any_server.client())
    bucket, actor = house.short_lived(b"x", 5)
    house.age()
    house.clean_up()
    house.age(UPKEEP.delay + 1)
    registry, key = house.keys.registries[bucket], house.keys.shard_key(b"x", 0)[1]

    def come_back(commands: list[Command]) -> None:
        if commands[0].plain == b"SCAN":
            house.call(Script.ACTOR_OPEN, [registry], b"any", actor, b"other", b"")
            house.tell(bucket, actor, 2, {key: 7})

    tally = house.clean_up(come_back)
    assert (tally.slots, house.states(), house.value(b"x")) == (0, "o", 7)
    assert house.clean_up() == Tally(buckets=4, complete=True)


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
            steps, told = one_pass(house.keys, UPKEEP, Tally()), None
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
    client, tally = any_server.client(), Tally()
    assert drive(client, one_pass(KeySpace(b"rc", 16), UPKEEP, tally)) == 1
    assert tally == Tally()
    assert client.dbsize() == 0


def test_a_dry_run_changes_nothing(any_server: RealServer) -> None:
    """It tells what a pass would do."""
    house = House(any_server.client())
    for name in (b"x", b"y", b"x"):
        house.short_lived(name)

    def everything() -> dict[bytes, dict[bytes, bytes]]:
        return {key: house.client.hgetall(key) for key in house.client.keys("*")}

    for expected in ((3, 0, 0, 0), (0, 3, 3, 0), (0, 0, 0, 0), (0, 0, 0, 3)):
        house.age(UPKEEP.retention + 1)
        before = everything()
        dry = house.clean_up(dry_run=True)
        assert everything() == before
        wet = house.clean_up()
        for tally in (dry, wet):
            assert (len(tally.reaped), len(tally.folded), tally.slots) == expected[:3]
