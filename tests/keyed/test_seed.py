"""seed and adopt: any number of processes may tell the same total, and it is there once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
import redis

from redis_counters import Counters, Overflow, UsageError, WrongType
from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.protocol.upkeep.janitor import JanitorReport, one_pass, upkeep_of
from tests.faces.either import FACES, Either, truth
from tests.keyed.support import KEYS, done
from tests.lifecycle.children import ended_well, forked
from tests.servers import RealServer

both = pytest.mark.parametrize("face", FACES)


@both
def test_a_total_is_there_once(server: RealServer, face: str) -> None:
    """Told again it changes nothing; a higher one raises, a lower one does not; counting goes on beside it."""

    async def main() -> None:
        async with Either.on(face, server) as one, Either.on(face, server, shards=4) as other:
            for either in (one, other, one):
                await done(either.counters.seed("c", 100, "import"))
                assert await either.get("c", max_age=0) == 100
            one.incr("c", 5)
            assert await one.get("c") == 105
            await done(one.counters.seed("c", 120, "import"))
            assert await one.get("c") == 125
            await done(other.counters.seed("c", 110, b"import"))
            await one.flush()
            assert await other.get("c") == 125
            await done(other.counters.seed("c", 1000, "elsewhere"))
            assert await other.get("c") == 1125

    asyncio.run(main())
    assert truth(server, ["c"]) == {b"c": 1125}


@both
def test_totals_of_any_size_and_sign(any_server: RealServer, face: str) -> None:
    totals = {"zero": 0, "one": 1, "minus": -7, "wide": 2**53 + 1, "most": INT64_MAX, "least": -INT64_MAX}
    names: dict[Any, int] = {**totals, b"\xff": 3, "": 4, "ü{}": 5}

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            for _ in range(2):
                await done(either.counters.seed_many(names, "t"))
                assert await either.get_many(names, max_age=0) == names
            await done(either.counters.seed_many({}, "t"))
            for beyond in (INT64_MAX + 1, -INT64_MAX - 1):
                with pytest.raises(Overflow):
                    await done(either.counters.seed("most", beyond, "t"))

    asyncio.run(main())


@both
@pytest.mark.parametrize(
    ("kind", "total", "token"),
    [
        (TypeError, 1.0, "t"),
        (TypeError, True, "t"),
        (TypeError, "1", "t"),
        (TypeError, 1, 1),
        (TypeError, 1, None),
        (UsageError, 1, ""),
        (UsageError, 1, "t" * 1025),
    ],
)
def test_bad_arguments_send_nothing(any_server: RealServer, face: str, kind: Any, total: Any, token: Any) -> None:
    async def main() -> None:
        async with Either.on(face, any_server) as either:
            with pytest.raises(kind):
                await done(either.counters.seed("c", total, token))
            with pytest.raises(kind):
                await done(either.counters.seed_many({"fine": 1, "c": total}, token))

    asyncio.run(main())
    assert any_server.client().keys("*") == []


@both
def test_very_many_totals_are_told_in_parts(any_server: RealServer, face: str) -> None:
    """So that others get in between; and where one of them is refused, all others are there."""
    totals = {f"n{i}": i for i in range(2_500)}
    taken = KEYS.shard_key(b"n7", 0)[1]
    client = any_server.client()
    client.set(taken, "mine")

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            with pytest.raises(WrongType, match="'n7'"):
                await done(either.counters.seed_many(totals, "t"))
            client.delete(taken)
            found = await either.get_many(totals, max_age=0)
            assert found == {**totals, "n7": 0}
            await done(either.counters.seed_many(totals, "t"))
            assert await either.get("n7") == 7

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_eight_processes_start_at_once(any_server: RealServer) -> None:
    """Each finds the counters empty, and tells all totals."""
    totals = {f"post {i}": 10 * i for i in range(300)}

    def work() -> None:
        with redis.Redis(host=any_server.host, port=any_server.port) as client, Counters(client, shards=2) as counters:
            counters.seed_many(totals, "posts.likes")
            for name, total in list(totals.items())[:50]:
                counters.seed(name, total, "posts.likes")
                assert counters.get(name) == total

    ended_well(*(forked(work) for _ in range(8)))
    assert truth(any_server, totals) == {name.encode(): total for name, total in totals.items()}


@both
def test_a_plain_counter_is_adopted(any_server: RealServer, face: str) -> None:
    """As long as somebody still counts there, it may be adopted again; the key itself stays as it is."""
    client = any_server.client()
    client.incrby("old", 41)
    client.incrby("below", -3)

    async def main() -> None:
        async with Either.on(face, any_server) as one, Either.on(face, any_server) as other:
            assert await done(one.counters.adopt("old")) == 41
            assert await done(other.counters.adopt("old")) == 41
            one.incr("old")
            assert await one.get("old") == 42
            client.incr("old")
            assert await done(one.counters.adopt("old")) == 42
            assert await one.get("old") == 43
            client.decrby("old", 40)
            assert await done(one.counters.adopt("old")) == 2
            assert await one.get("old") == 43
            assert await done(one.counters.adopt(b"old", "new name")) == 2
            assert await one.get("new name") == 2
            assert await done(one.counters.adopt("below")) == -3
            client.incrby("below", 8)
            assert await done(one.counters.adopt("below")) == 5
            assert await one.get("below") == 5
            assert await done(one.counters.adopt("nothing")) == 0
            assert await one.get("nothing") == 0

    asyncio.run(main())
    assert client.get("old") == b"2"


@both
@pytest.mark.parametrize("value", ["text", "1.5", "", " 1", str(2**63), str(-(2**63) - 1), None])
def test_what_is_no_count_is_not_adopted(any_server: RealServer, face: str, value: str | None) -> None:
    client = any_server.client()
    if value is None:
        client.hset("old", "a", 1)
    else:
        client.set("old", value)

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            with pytest.raises(WrongType, match="key 'old'"):
                await done(either.counters.adopt("old"))

    asyncio.run(main())
    assert len(client.keys("*")) == 1


@both
def test_the_lowest_count_of_a_plain_key(any_server: RealServer, face: str) -> None:
    """It is a count of INCR, but beyond a total, as in `seed`: the error says that, and nothing is adopted."""
    client = any_server.client()
    client.set("old", -(2**63))
    client.set("above", -INT64_MAX)

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            with pytest.raises(Overflow, match="'old'"):
                await done(either.counters.adopt("old"))
            assert await done(either.counters.adopt("above")) == -INT64_MAX

    asyncio.run(main())
    assert truth(any_server, ["old", "above"]) == {b"old": 0, b"above": -INT64_MAX}


def test_housekeeping_leaves_seeds_alone(any_server: RealServer) -> None:
    """Nobody closes, folds or cleans them, though everybody has been silent for long; people are shown them."""
    client = any_server.client()
    with Counters(client, actor_ttl=1, reassert_window=0) as counters:
        counters.seed("c", 7, "t")
        counters.seed("d", -7, "t")
        counters.incr("c")
        counters.flush()
        for key in KEYS.registries:
            registry: Any = client.hgetall(key)
            for field, record in registry.items():
                parts = record.split(b" ")
                if field.count(b".") == 2:
                    client.hset(key, field, b" ".join([*parts[:2], b"1", *parts[3:]]))
        for _ in range(3):
            counters._runner.ask(one_pass(KEYS, upkeep_of(counters._core.settings), JanitorReport()))
        fields: Any = client.hgetall(KEYS.shard_key(b"c", 0)[1])
        seeds = [field for field in fields if field.startswith(b"s.")]
        assert len(seeds) == 1
        assert counters.get("c", max_age=0) == 8
        assert counters.get("d", max_age=0) == -7
        shown = counters.inspect("d")
        assert shown.value == -7
        assert [view.state for view in shown.actors.values()] == ["seed"]


@pytest.mark.slow("several commands")
def test_the_command_shows_a_seed(any_server: RealServer) -> None:
    with Counters(any_server.client()) as counters:
        counters.seed("c", 7, "t")
    ran = subprocess.run(
        [sys.executable, "-m", "redis_counters.cli", "inspect", "c", "--url", any_server.url],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "+7" in ran.stdout
    assert "seed" in ran.stdout
