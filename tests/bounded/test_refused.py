"""What is refused, in either face: bounds, arguments, what somebody spoilt, missing rights; and Redis that is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters import (
    NotPermitted,
    Outcome,
    Unavailable,
    UsageError,
    WrongType,
)
from redis_counters.drivers.breaker import FAILURES
from tests.bounded.support import fields, key_of
from tests.faces.either import FACES, Either, client_of, closed
from tests.keyed.support import done, records
from tests.servers import NOWHERE, RealServer

both = pytest.mark.parametrize("face", FACES)

BOUNDS: list[tuple[type[Exception], dict[str, Any], str]] = [
    (UsageError, {}, "a floor, a cap or both"),
    (UsageError, {"floor": 2, "cap": 1}, "the floor 2 is above the cap 1"),
    (UsageError, {"floor": 1, "cap": 1}, "nothing could be added"),
    (UsageError, {"floor": 2**63}, "beyond int64"),
    (UsageError, {"cap": -(2**63)}, "beyond int64"),
    (UsageError, {"floor": -(2**62), "cap": 2**62}, "beyond int64"),
    (TypeError, {"floor": True}, "int"),
    (TypeError, {"floor": 0.0}, "int"),
    (TypeError, {"cap": "5"}, "int"),
]


@both
@pytest.mark.parametrize(("kind", "bounds", "told"), BOUNDS, ids=str)
def test_bounds_that_make_no_sense(face: str, kind: Any, bounds: dict[str, Any], told: str) -> None:
    async def main() -> None:
        async with Either.url(face, f"redis://localhost:{NOWHERE}") as either:
            with pytest.raises(kind, match=told):
                either.counters.bounded("x", **bounds)
            with pytest.raises(TypeError, match="name"):
                either.counters.bounded(1, floor=0)

    asyncio.run(main())


WRONG: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"amount": True}),
    (TypeError, {"amount": 1.0}),
    (TypeError, {"amount": "1"}),
    (TypeError, {"amount": None}),
    (UsageError, {"amount": 0}),
    (UsageError, {"amount": -1}),
    (TypeError, {"key": 1}),
    (UsageError, {"key": ""}),
    (UsageError, {"key": "k" * 1025}),
    (UsageError, {"key": "\ud800"}),
]


@both
@pytest.mark.parametrize(("kind", "wrong"), WRONG, ids=lambda value: str(value)[:30])
def test_bad_arguments_send_nothing(any_server: RealServer, face: str, kind: Any, wrong: dict[str, Any]) -> None:
    (argument,) = wrong

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            calls = [getattr(stock, call) for call in ("add", "try_add", "spend", "try_spend")]
            for call in calls:
                with pytest.raises(kind, match=argument) as caught:
                    await done(call(**{"amount": 1, **wrong}))
                assert getattr(caught.value, "argument", argument) == argument
            for wrong_key in (None, *([wrong["key"]] if argument == "key" else [])):
                with pytest.raises((TypeError, UsageError), match="key"):
                    await done(stock.give_back(wrong_key))

    asyncio.run(main())
    assert any_server.client().keys("*") == []


@both
def test_other_bounds_are_refused(any_server: RealServer, face: str) -> None:
    """By every call, with both in words: the first change has recorded them; looking records nothing."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            await done(either.counters.bounded("x", cap=1).value())
            await done(either.counters.bounded("x", cap=1).try_add(2))
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(5, key="a"))
            other = either.counters.bounded("x", floor=-1, cap=9)
            calls = [other.value, other.available, other.rights]
            calls += [lambda n=n: getattr(other, n)(1) for n in ("add", "try_add", "spend", "try_spend")]
            calls += [lambda: other.give_back("a"), lambda: other.add(5, key="a")]
            for call in calls:
                with pytest.raises(UsageError) as caught:
                    await done(call())
                told = "counter 'x' has floor 0 and no cap, not floor -1 and cap 9; nothing was changed"
                assert str(caught.value) == told
                assert caught.value.outcome is Outcome.NOT_APPLIED
            assert await done(stock.value()) == 5

    asyncio.run(main())


FOREIGN: dict[str, dict[Any, Any]] = {
    "no bounds": {"+": 5},
    "rights that are no number": {"f": 0, "a": "many", "+": 5},
    "rights that are negative": {"f": 0, "a": -1, "+": 5},
    "no rights": {"f": 0, "+": 5},
    "room without a cap": {"f": 0, "a": 5, "h": 5},
    "a total that is no number": {"f": 0, "a": 5, "+": "5.0", "-": 0},
}


@both
@pytest.mark.parametrize("how", [*FOREIGN, "another type"])
def test_a_counter_that_somebody_spoilt_fails_alone(any_server: RealServer, face: str, how: str) -> None:
    """Counter and key are named; the others of its batch go on; when it is put right, the same call is applied."""
    client = any_server.client()
    if how in FOREIGN:
        client.hset(key_of("b"), mapping=FOREIGN[how])
    else:
        client.set(key_of("b"), "mine")

    async def main() -> None:
        async with Either.on(face, any_server, buckets=16) as either:
            spoilt, good = (either.counters.bounded(name, floor=0) for name in ("b", "a"))
            await done(good.add(5))
            for call in (lambda: spoilt.add(1, key="k"), spoilt.value, spoilt.available, spoilt.rights):
                with pytest.raises(WrongType) as caught:
                    await done(call())
                assert "counter 'b': " in str(caught.value)
                assert key_of("b").decode() in str(caught.value)
                assert caught.value.keys == (key_of("b"),)
                assert caught.value.counter == b"b"
                assert caught.value.outcome is Outcome.NOT_APPLIED
            assert await done(good.try_spend(5)) is True
            client.delete(key_of("b"))
            await done(spoilt.add(1, key="k"))
            assert await done(spoilt.value()) == 1

    asyncio.run(main())


@both
def test_redis_is_away(face: str) -> None:
    """The counter is named, and what has become of the call; without a key nothing protects a repetition."""

    async def main() -> None:
        counters = Either.url(face, f"redis://localhost:{NOWHERE}")
        stock = counters.counters.bounded("x", floor=0)
        again = "it may have been applied, and may be repeated"
        alone = "it may have been applied, and nothing protects a repetition: that takes a key"
        for _ in range(FAILURES + 2):
            for call, end in [
                (lambda: stock.try_spend(1, key="k"), again),
                (lambda: stock.give_back("k"), again),
                (lambda: stock.add(1), alone),
                (stock.value, ""),
            ]:
                with pytest.raises(Unavailable, match="counter 'x': ") as caught:
                    await done(call())
                assert str(caught.value).endswith(end)
                assert caught.value.outcome is (Outcome.UNKNOWN if end else Outcome.NOT_APPLIED)
        await counters.close()
        with pytest.raises(UsageError, match="closed"):
            await done(stock.try_spend(1))

    asyncio.run(main())


@both
@pytest.mark.parametrize("missing", ["HMGET", "HSET", "HGET", "EXISTS", "HINCRBY", "PEXPIREAT", "TIME", "HGETALL"])
def test_a_right_that_is_missing_is_named(server: RealServer, face: str, missing: str) -> None:
    """Nothing is half done: what is added or spent is what is recorded."""
    admin: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(5, key="a"))
            await done(stock.spend(1, key="s"))
        admin.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", f"-{missing.lower()}")
        client = client_of(face, server, username="poor", password="any")  # noqa: S106 - of this test's user
        async with Either(face, client) as either:
            stock = either.counters.bounded("x", floor=0)
            calls = [lambda: stock.spend(1, key="t"), lambda: stock.give_back("s"), lambda: stock.add(1, key="b")]
            for call in [stock.value] if missing == "HGETALL" else calls:
                with pytest.raises(NotPermitted) as caught:
                    await done(call())
                assert missing in str(caught.value).upper()
        await closed(client)

    try:
        asyncio.run(main())
    finally:
        admin.execute_command("ACL", "DELUSER", "poor")
    assert fields(server, "x") == {b"f": b"0", b"a": b"4", b"+": b"5", b"-": b"1"}
    assert sum(len(part) for part in records(server).values()) == 2
