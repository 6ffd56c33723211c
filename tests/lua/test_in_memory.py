"""The server in this process, of ``memory://``, answers as real ones do: to every script, with nearly every word."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua import regions
from tests.lua.calls import INDEX, REGISTRY, Bucket, key
from tests.lua.regions import changes, digest, join, merge, merged_key, read, repair, stamps, told
from tests.lua.scenarios import SCENARIOS
from tests.lua.test_stamps import CHANGES
from tests.servers import RealServer

A, B, C = key("a"), key("b"), key("c")


@pytest.fixture
def memory() -> Iterator[Bucket]:
    client: Any = fakeredis.FakeRedis()
    yield Bucket(client)
    client.close()


# Its errors are no texts in Lua, so no script can tell a sealed shard by them.
NOT_HERE = {(Script.SLOTS_MERGE, "SEALED"), (Script.SHARD_UNSEAL, "OK")}


@pytest.mark.parametrize(
    ("script", "word"),
    [each for each in SCENARIOS if each not in NOT_HERE],
    ids=lambda value: getattr(value, "value", value),
)
def test_every_word_is_answered(memory: Bucket, script: Script, word: str) -> None:
    assert SCENARIOS[script, word](memory)[0] == word
    assert memory.called is script


@pytest.mark.parametrize("how", CHANGES)
def test_what_changes_is_stamped(memory: Bucket, how: str) -> None:
    join(memory, C)
    assert CHANGES[how](memory)[0] == "OK"
    assert {name: version for name, version in stamps(memory).items() if version} == {b"0:a": 2, b"0:b": 2, b"0:c": 1}
    assert memory.map(A).dot == b"gen00.0"


def test_its_incarnation_is_the_registry(memory: Bucket) -> None:
    """There is no INFO."""
    join(memory, A)
    mark, _, members = told(changes(memory))
    assert (mark, members) == (b"gen00 1 1", [b"0:a"])
    assert told(changes(memory, mark)) == (mark, False, [])


def test_it_tells_and_merges_as_a_real_server_does(memory: Bucket, any_server: RealServer) -> None:
    """A long row of random calls, the same to both: the same texts, stamps and fields; digests equal where they are."""
    real = Bucket(any_server.client())
    chance = random.Random(5)
    counts = [0, 1, 9, 10, 2**53 + 1, 2**63 - 1, 2**63, 10**20]
    for both in (memory, real):
        join(both)
        both.actor()
    for _ in range(150):
        name = chance.choice([A, B, C])
        if chance.random() < 0.3:
            field = chance.choice(["g.1.own+", "g.1.own-", "~g.1.own+", "+", "1-", "k", "@us/g.0-", "~@us/g.0-"])
            count = 0 if field.startswith("~g") else chance.choice(counts[:6])
            for both in (memory, real):
                both.client.hset(name, mapping={"d": "g.7", field: count})
        entries = [
            b",".join([place, *(b"%d" % chance.choice(counts) for _ in range(4))])
            for place in chance.sample([b"us/g.0", b"us/g.1", b"ap/g.0", b"eu/g.7", b"eu/g.1"], chance.randrange(4))
        ]
        text = b" ".join([b"%d 0" % chance.choice([0, 2, 16]), *entries])
        if chance.random() < 0.5:
            mark = b"i %d 1" % chance.randrange(9)
            since = memory.fields(regions.MARKS).get(b"<us", b"-")
            answers = [merge(both, (name, text), since=since, mark=mark) for both in (memory, real)]
        else:
            answers = [repair(both, (name, text)) for both in (memory, real)]
        assert answers[0] == answers[1]
        assert read(memory, A, B, C) == read(real, A, B, C)
        assert read(memory, A, B, C, without=b"us") == read(real, A, B, C, without=b"us")
        ours, theirs = (
            [digest(both, A, B, C), digest(both, B, A, C), *(digest(both, x) for x in (A, B, C))]
            for both in (memory, real)
        )
        assert [each[2] for each in ours] == [each[2] for each in theirs]
        assert [n for n, each in enumerate(ours) if each == ours[0]] == [
            n for n, each in enumerate(theirs) if each == theirs[0]
        ]
    for index in (INDEX, merged_key()):
        assert stamps(memory, index) == stamps(real, index)
    for name in (A, B, C, REGISTRY):
        found, expected = memory.fields(name), real.fields(name)
        own = {field for field in expected if field.startswith(b"@aaaaa") or field.endswith(b".bbbb")}
        own.add(b"h")  # when versions were: the next second may begin between the two calls
        assert {k: v for k, v in found.items() if k not in own} == {k: v for k, v in expected.items() if k not in own}
