"""incr_once in both faces: a key counts once, for its time, in its counter; and this process reads it at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from redis_counters import KeyConflict, Overflow, UsageError, WrongType
from redis_counters.crdt.shard_fields import INT64_MAX
from tests.faces.either import FACES, Either, truth
from tests.keyed.support import KEYS, age_records, done, records
from tests.servers import RealServer

both = pytest.mark.parametrize("face", FACES)


@both
def test_a_key_counts_once(server: RealServer, face: str) -> None:
    """From two clients, in any order; amounts by key; reads include it."""

    async def main() -> None:
        async with Either.on(face, server) as one, Either.on(face, server) as other:
            assert await done(one.counters.incr_once("c", "k")) is True
            assert await done(one.counters.incr_once("c", "k")) is False
            assert await done(other.counters.incr_once("c", b"k")) is False
            assert await done(other.counters.incr_once("c", "l", 41)) is True
            assert await done(one.counters.incr_once("c", "zero", 0)) is True
            assert await done(one.counters.incr_once("c", "zero", 0)) is False
            assert await other.get("c") == 42
            assert await one.get("c", max_age=0) == 42

    asyncio.run(main())
    assert truth(server, ["c"]) == {b"c": 42}


@both
def test_keyed_and_plain_counting_go_together(any_server: RealServer, face: str) -> None:
    """With any number of shards, asked for before or after; a fresh client finds all of it."""

    async def main() -> None:
        async with Either.on(face, any_server) as few, Either.on(face, any_server, shards=8) as many:
            for i in range(40):
                few.incr("few first")
                many.incr("many first")
                await done(few.counters.incr_once("few first", f"{i}"))
                await done(many.counters.incr_once("many first", f"{i}"))
                assert await done(many.counters.incr_once("few first", f"{i}")) is False
                assert await done(few.counters.incr_once("many first", f"{i}")) is False
                many.incr("few first")
                few.incr("many first")
            assert await few.get("few first") >= 80
            await few.flush()
            await many.flush()
            for reader in (few, many):
                assert await reader.get_many(["few first", "many first"], max_age=0) == {
                    "few first": 120,
                    "many first": 120,
                }
            assert (await few.inspect("many first")).shards == 8

    asyncio.run(main())
    assert truth(any_server, ["few first", "many first"]) == {b"few first": 120, b"many first": 120}


@both
def test_another_amount_is_a_conflict(any_server: RealServer, face: str) -> None:
    """It names what was counted, and counts nothing; the others of its batch are not concerned."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            await done(either.counters.incr_once("c", "k", 5))
            with pytest.raises(KeyConflict, match="'c'") as caught:
                await done(either.counters.incr_once("c", "k", 6))
            assert caught.value.counted == 5
            assert caught.value.counter == b"c"
            assert await done(either.counters.incr_once("c", "k", 5)) is False
            assert await either.get("c") == 5

    asyncio.run(main())


@both
def test_a_key_belongs_to_its_counter_and_ttl(any_server: RealServer, face: str) -> None:
    """The same key in another counter, or with another ttl, is another key; no two pairs run together."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            pairs = [
                ("a", "bc"),
                ("ab", "c"),
                ("abc", "d"),
                ("1:a", "b"),
                ("", "k"),
                ("k", "k"),
                (b"\xff", b"\x00\xfe"),
            ]
            for name, key in pairs:
                assert await done(either.counters.incr_once(name, key)) is True, (name, key)
            for name, key in pairs:
                assert await done(either.counters.incr_once(name, key)) is False, (name, key)
            assert await done(either.counters.incr_once("a", "bc", ttl=3600)) is True
            assert await done(either.counters.incr_once("a", "bc", ttl=timedelta(hours=1))) is False
            assert await done(either.counters.incr_once("a", "bc", ttl=86400.0)) is False
            assert await either.get("a") == 2
            assert await either.get(b"\xff") == 1

    asyncio.run(main())


@both
def test_names_and_keys_are_any_bytes(any_server: RealServer, face: str) -> None:
    names: list[str | bytes] = ["", "ü:{x}*\n\0", "{", b"\xff\x80", b"\r\n$3\r\n", "☃" * 40, "x" * 10_000]
    keys: list[str | bytes] = [b"\0", " ", "☃", b"\xff" * 1024, "k" * 1024, b"\r\n", "1"]

    async def main() -> None:
        async with Either.on(face, any_server, shards=3) as either:
            for expected in (True, False):
                for name in names:
                    for key in keys:
                        assert await done(either.counters.incr_once(name, key)) is expected
            assert set((await either.get_many(names)).values()) == {len(keys)}

    asyncio.run(main())


@both
@pytest.mark.parametrize("ttl", [1, 86_400, timedelta(seconds=90, microseconds=1)])
def test_a_key_holds_for_its_ttl(any_server: RealServer, face: str, ttl: Any) -> None:
    """At half of it a repetition is not counted, nor shortly before its end; after it, it counts once more, once."""
    whole = 1000 * int(ttl.total_seconds() if isinstance(ttl, timedelta) else ttl)

    async def main() -> None:
        async with Either.on(face, any_server) as either:

            async def again() -> bool:
                counted: bool = await done(either.counters.incr_once("c", "k", ttl=ttl))
                return counted

            assert await again() is True
            if whole > 60_000:  # else the test itself may take as long
                age_records(any_server, whole // 2)
                assert await again() is False
                age_records(any_server, whole // 2 - 30_000)
                assert await again() is False
                age_records(any_server, 31_000)
            else:
                age_records(any_server, whole)
            assert await again() is True
            assert await again() is False or whole < 60_000
            assert await either.get("c") >= 2

    asyncio.run(main())


@both
def test_a_short_ttl_by_the_servers_clock(any_server: RealServer, face: str) -> None:
    """A key is repeated until it counts once more: that is when the server's clock says so, and not earlier."""
    client = any_server.client()

    def now() -> float:
        seconds, micros = client.time()
        return float(seconds + micros / 1e6)

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            assert await done(either.counters.incr_once("c", "k", ttl=0.3)) is True
            after, tries = now(), 0
            while True:
                before = now()
                if await done(either.counters.incr_once("c", "k", ttl=0.3)):
                    break
                assert before < after + 0.3
                tries += 1
            assert now() >= after + 0.3 - 0.1  # it was written before `after`: at most the time of a call
            assert tries > 3
            assert await either.get("c") == 2

    asyncio.run(main())


def test_every_record_expires(any_server: RealServer) -> None:
    """No slice is there without its time, at the latest two slices and a ttl away."""

    async def main() -> None:
        async with Either.on("asyncio", any_server, shards=4) as either:
            calls = [
                either.counters.incr_once("c", f"{i}", ttl=ttl)
                for i in range(50)
                for ttl in (0.001, 1, 60, 86_400, 10**9)
            ]
            await asyncio.gather(*calls)

    asyncio.run(main())
    client = any_server.client()
    found = records(any_server)
    assert len(found) >= 10
    for key in found:
        ttl = int(key.split(b":")[-2])
        left = client.pttl(key)
        assert ttl <= left + 1000
        assert left <= 2 * max(ttl, 20_000)


@both
def test_int64_is_the_edge(any_server: RealServer, face: str) -> None:
    """Amounts up to it count, exactly, however often; beyond it is refused at the call."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            for i in range(3):
                assert await done(either.counters.incr_once("c", f"{i}", INT64_MAX)) is True
            assert await done(either.counters.incr_once("c", "2^53", 2**53 + 1)) is True
            with pytest.raises(KeyConflict):
                await done(either.counters.incr_once("c", "2^53", 2**53))
            assert await either.get("c") == 3 * INT64_MAX + 2**53 + 1
            with pytest.raises(Overflow):
                await done(either.counters.incr_once("c", "too much", INT64_MAX + 1))
            assert await either.get("c", max_age=0) == 3 * INT64_MAX + 2**53 + 1

    asyncio.run(main())


WRONG: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"name": 1}),
    (TypeError, {"key": 1}),
    (TypeError, {"key": None}),
    (UsageError, {"key": ""}),
    (UsageError, {"key": b""}),
    (UsageError, {"key": "k" * 1025}),
    (UsageError, {"key": "☃" * 342}),
    (UsageError, {"key": "\ud800"}),
    (TypeError, {"amount": True}),
    (TypeError, {"amount": 1.0}),
    (TypeError, {"amount": "1"}),
    (UsageError, {"amount": -1}),
    (TypeError, {"ttl": "1"}),
    (TypeError, {"ttl": True}),
    (TypeError, {"ttl": None}),
    (UsageError, {"ttl": 0}),
    (UsageError, {"ttl": -1}),
    (UsageError, {"ttl": timedelta(0)}),
    (UsageError, {"ttl": timedelta(seconds=-1)}),
    (UsageError, {"ttl": float("nan")}),
    (UsageError, {"ttl": float("inf")}),
    (UsageError, {"ttl": 101 * 366 * 86_400}),
]


@both
@pytest.mark.parametrize(("kind", "wrong"), WRONG, ids=lambda value: str(value)[:30])
def test_bad_arguments_send_nothing(any_server: RealServer, face: str, kind: Any, wrong: dict[str, Any]) -> None:
    async def main() -> None:
        async with Either.on(face, any_server) as either:
            arguments = {"name": "c", "key": "k", "amount": 1, "ttl": 60, **wrong}
            with pytest.raises(kind, match=next(iter(wrong))) as caught:
                await done(either.counters.incr_once(**arguments))
            assert getattr(caught.value, "argument", next(iter(wrong))) == next(iter(wrong))

    asyncio.run(main())
    assert any_server.client().keys("*") == []


@both
def test_one_counter_of_a_batch_is_refused_alone(any_server: RealServer, face: str) -> None:
    """All in one bucket and one batch: the others count, and so does the refused one once its key is free."""
    names = [name for name in (f"n{i}" for i in range(400)) if KEYS.bucket(name.encode(), 0) == 3][:20]
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            client.set(KEYS.shard_key(names[7].encode(), 0)[1], "mine")
            calls = (either.background("incr_once", name, "k") for name in names)
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [n for n, result in enumerate(results) if result is not True] == [7]
            assert isinstance(results[7], WrongType)
            assert results[7].counter == names[7].encode()
            client.delete(KEYS.shard_key(names[7].encode(), 0)[1])
            assert await done(either.counters.incr_once(names[7], "k")) is True
            assert set((await either.get_many(names, max_age=0)).values()) == {1}

    asyncio.run(main())


@both
def test_a_counter_whose_key_is_taken_later_is_refused(any_server: RealServer, face: str) -> None:
    """The home is known by then, so the script of the effect finds it out."""
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            await done(either.counters.incr_once("c", "k"))
            client.set(KEYS.shard_key(b"c", 0)[1], "mine")
            with pytest.raises(WrongType):
                await done(either.counters.incr_once("c", "l"))
            client.delete(KEYS.shard_key(b"c", 0)[1])
            assert await done(either.counters.incr_once("c", "l")) is True
            assert await either.get("c") == 1

    asyncio.run(main())


@both
def test_a_closed_client_says_so(any_server: RealServer, face: str) -> None:
    async def main() -> None:
        either = Either.on(face, any_server)
        async with either:
            await done(either.counters.incr_once("c", "k"))
        with pytest.raises(UsageError, match="closed"):
            await done(either.counters.incr_once("c", "l"))

    asyncio.run(main())
    assert truth(any_server, ["c"]) == {b"c": 1}
