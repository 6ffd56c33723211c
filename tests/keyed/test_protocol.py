"""Keyed calls driven by hand: every command twice, guesses of the time that are wrong, reads in the middle."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import redis

from redis_counters.errors import CounterError, SchemaMismatch, Unavailable, WrongType
from redis_counters.protocol.keyed.batch import KeyedBatches
from redis_counters.protocol.keyed.calls import Call, Has, Like, Once, Seed
from redis_counters.protocol.keyed.key_shards import KNOWN_FOR_S
from redis_counters.protocol.read.cache import FetchLease
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.writer import Writer
from tests.keyed.support import KEYS
from tests.protocol.by_hand import run
from tests.servers import RealServer


class Client:
    """One process's keyed calls, with clocks of the test's."""

    def __init__(self, server: RealServer, **options: Any) -> None:
        numbers = itertools.count()
        self.redis: redis.Redis = server.client()
        self.time = 0.0
        self.wall = 0.0
        writer = Writer(make_settings(**options), Buffer(), lambda: f"{next(numbers):012x}")
        self.reads = Reads(writer, lambda: self.time, lambda: self.wall, lambda: 0.0)
        self.keyed = KeyedBatches(self.reads)
        self.sent: list[Command] = []

    def drive(self, steps: Any, *, times: int = 1) -> Any:
        """Return what the generator returns; each command reaches the server so many times, the last answer counts."""
        answers: Any = None
        try:
            while True:
                commands = steps.send(answers)
                answers = []
                for command in commands:
                    self.sent.append(command)
                    answers.append([run(self.redis, command) for _ in range(times)][-1])
        except StopIteration as stop:
            return stop.value

    def do(self, *calls: Call, times: int = 1) -> list[object]:
        """Return the outcome of each call: its answer, or its error."""
        self.drive(self.keyed.apply(calls), times=times)
        assert not any(call.open for call in calls)
        return [call.error or call.answer for call in calls]

    def get(self, name: bytes) -> int:
        value: dict[bytes, int] = self.drive(self.reads.fetch([name]))
        return int(value[name])

    def ready(self) -> None:
        """Every bucket has a registry, as where somebody has counted before."""
        for registry in KEYS.registries:
            self.redis.hset(registry, mapping={"g": "gen00", "n": 0, "c": 0})

    def scripts(self) -> list[Script]:
        """Return the scripts that were sent since the last time."""
        sent, self.sent = self.sent, []
        return [command.script for command in sent if command.script is not None]


def once(key: str, amount: int = 1, ttl: float = 60) -> Once:
    return Once("c", key, amount, ttl)


@pytest.fixture
def client(any_server: RealServer) -> Client:
    return Client(any_server, shards=3)


def test_every_command_arrives_twice(client: Client) -> None:
    """The second answer says that it was so before, and everything is there once."""
    calls: list[Call] = [once(f"{i}", 7) for i in range(20)]
    calls += [Like(b"l", i, b"+") for i in range(20)] + [Seed("s", 5, "t")]
    assert set(client.do(*calls, times=2)) == {b"0"}
    assert client.do(Like(b"l", 3, b"-"), times=2) == [b"0"]
    assert [client.get(name) for name in (b"c", b"l", b"s")] == [140, 19, 5]


def test_a_late_copy_changes_nothing(client: Client) -> None:
    """Of an increment, whenever it comes within the ttl. A late like is as good as one that was just made."""
    client.do(once("k", 7), Seed("s", 5, "t"))
    client.do(Seed("s", 9, "t"))
    late = [command for command in client.sent if command.script in (Script.ONCE_APPLY, Script.SLOTS_SEED)]
    for command in late * 3:
        run(client.redis, command)
    assert [client.get(name) for name in (b"c", b"s")] == [7, 9]


@pytest.mark.parametrize("wall", [0.0, 1e9, 4e9])
def test_the_clock_of_a_client_decides_nothing(client: Client, wall: float) -> None:
    """However wrong it is, one answer tells the server's, and from then on the guesses are right."""
    client.ready()
    client.wall = wall
    assert client.do(once("k")) == [b"2"]
    first = client.scripts()
    assert first.count(Script.ONCE_APPLY) == 2
    for i in range(10):
        assert client.do(once("k"), once(f"{i}"))[0] == b"0"
    assert client.scripts().count(Script.ONCE_APPLY) <= 10 * 2 + 2
    assert client.get(b"c") == 11


def test_a_clock_that_leaps_again_and_again_is_said(client: Client) -> None:
    """Nothing is counted then, and the call may be repeated."""
    client.do(once("warm"))

    class Leaping(KeyedBatches):
        def _server_now(self, bucket: int) -> float:
            return super()._server_now(bucket) + 3_600_000

    client.scripts()
    client.keyed = Leaping(client.reads)
    (error,) = client.do(once("k"))
    assert isinstance(error, Unavailable)
    assert 1 < client.scripts().count(Script.ONCE_APPLY) < 10
    assert client.get(b"c") == 1


def test_a_home_is_asked_for_now_and_then(client: Client) -> None:
    """And once for all names of a batch in a bucket."""
    client.ready()
    client.do(once("a"), once("b"), Like(b"c", 1, b"+"))
    assert client.scripts().count(Script.KEYED_OPEN) == 1
    client.do(once("d"))
    assert Script.KEYED_OPEN not in client.scripts()
    client.time += KNOWN_FOR_S
    client.do(once("e"))
    assert client.scripts().count(Script.KEYED_OPEN) == 1


def test_looking_asks_for_homes_without_making_them(client: Client) -> None:
    assert client.do(Has(b"c", 1), Has(b"d", 1)) == [0, 0]
    assert client.scripts() == []
    assert client.redis.keys("*") == []
    client.ready()
    client.do(Like(b"c", 1, b"+"))
    client.scripts()
    assert client.do(Has(b"c", 1), Has(b"c", 2), Has(b"d", 1)) == [1, 0, 0]
    client.time += KNOWN_FOR_S
    assert client.do(Has(b"c", 1), Like(b"c", 2, b"+"), Has(b"d", 1))[0] == 1
    assert client.scripts().count(Script.KEYED_OPEN) == 1


def test_a_counter_that_was_deleted_by_hand_tells_of_its_key_shards_again(client: Client) -> None:
    """Whichever of its shards a key counts in: others ask shard 0 for their number."""
    client.do(*map(once, "abc"))
    shard0 = KEYS.shard_key(b"c", 0)[1]
    key = next(key for key in map(str, range(100)) if once(key).hash % 3)
    client.redis.delete(*(KEYS.shard_key(b"c", shard)[1] for shard in range(3)))
    assert client.do(once(key)) == [b"2"]
    assert client.redis.hmget(shard0, "o", "k") == [b"3", b"3"]


def test_a_lost_namespace_is_made_again(client: Client) -> None:
    """With its record, registries and homes; a record with other buckets is refused, and nothing is written."""
    client.do(once("k"), Like(b"l", 1, b"+"))
    client.redis.flushall()
    assert client.do(once("k"), Like(b"l", 1, b"+"), Seed("s", 1, "t")) == [b"2", b"2", b"2"]
    assert client.redis.hget("rc:meta", "buckets") == b"16"
    assert client.redis.hmget(KEYS.shard_key(b"l", 0)[1], "o", "k") == [b"3", b"3"]
    client.redis.flushall()
    client.redis.hset("rc:meta", mapping={"schema": 1, "buckets": 5, "region": "main"})
    call = once("k")
    with pytest.raises(SchemaMismatch):
        client.do(call)
    assert client.redis.keys("*") == [b"rc:meta"]


def test_another_process_may_have_settled_another_number(any_server: RealServer) -> None:
    """The first one holds, for both."""
    first, second = Client(any_server, shards=1), Client(any_server, shards=7)
    keys = [f"{i}" for i in range(30)]
    assert set(first.do(*map(once, keys))) <= {b"1", b"2"}
    assert set(second.do(*map(once, keys))) == {b"0"}
    assert first.redis.hget(KEYS.shard_key(b"c", 0)[1], "o") == b"1"


@pytest.mark.parametrize("told", ["rubbish", "", "0", "-1", "1.5", "99999999999"])
def test_what_is_no_number_of_shards_is_refused(client: Client, told: str) -> None:
    """Somebody has spoilt the field: no key has a home, and nothing is counted."""
    client.redis.hset(KEYS.shard_key(b"c", 0)[1], "o", told)
    outcomes = client.do(once("k"), Like(b"c", 1, b"+"), Has(b"c", 1), Seed("s", 5, "t"))
    assert [type(outcome) for outcome in outcomes[:3]] == [WrongType] * 3
    assert outcomes[3] in (b"1", b"2")
    assert client.redis.keys("*:o:*") == client.redis.keys("*:l:*") == []


# --- reads ---------------------------------------------------------------------------------------------------------


def test_a_fetch_that_began_before_is_not_kept(client: Client) -> None:
    """Its reader gets what he asked for; whoever asks after the call gets the call's effect."""
    client.do(once("first"))
    lease = FetchLease()
    claim = client.reads.cache.claim([b"c"], None, None, lease)
    assert claim.missing == [b"c"]
    fetch = client.reads.fetch(claim.missing)
    answers = [run(client.redis, command) for command in next(fetch)]
    client.do(once("second"))
    with pytest.raises(StopIteration) as stopped:
        fetch.send(answers)
    assert stopped.value.value == {b"c": 1}
    client.reads.cache.release(lease)
    assert client.reads.cache.cached(b"c", float("inf")) is None
    assert client.get(b"c") == 2
    assert client.reads.cache.cached(b"c", None) == 2


def test_a_cached_value_is_forgotten(client: Client) -> None:
    """By whatever was counted, liked or seeded, also if it was so before: the first reply may have been lost."""
    for call in (once("k"), once("k"), Like(b"c", 1, b"+"), Seed("c", 5, "t")):
        client.get(b"c")
        assert client.reads.cache.cached(b"c", None) is not None
        client.do(call)
        assert client.reads.cache.cached(b"c", None) is None


def test_what_fails_leaves_the_last_value(client: Client) -> None:
    """So that it can be read while Redis is away."""
    client.do(once("k"))
    client.get(b"c")
    steps = client.keyed.apply([once("l")])
    (command,) = next(steps)
    assert command.script is Script.ONCE_APPLY
    with pytest.raises(StopIteration):
        steps.send([ErrorReply("READONLY You can't write against a read only replica.")])
    assert client.reads.cache.cached(b"c", None) == 1


@pytest.mark.parametrize("answer", [b"OK", [], [b"OK"], [b"OK", b"x"], [b"OK", b"1", b"1", b"1"], [b"NO"], None, 7])
def test_what_is_no_answer_of_ours_is_an_error(client: Client, answer: object) -> None:
    """A proxy's, say: the call fails, and nobody takes it for counted."""
    client.do(once("warm"))
    call = once("k")
    steps = client.keyed.apply([call])
    next(steps)
    with pytest.raises(StopIteration):
        steps.send([answer])
    assert isinstance(call.error, CounterError)
