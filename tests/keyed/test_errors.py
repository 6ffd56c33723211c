"""An error of a keyed call says which counter it concerns, whether it was applied, and whether to repeat it."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import nullcontext
from typing import Any

import pytest

from redis_counters import CounterError, KeyConflict, Outcome, Unavailable
from redis_counters.drivers.breaker import FAILURES
from redis_counters.errors import not_applied
from redis_counters.protocol.keyed.calls import Has, Like, Once, Plain, Seed
from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.servers import NOWHERE, RealServer

AGAIN = "it may have been applied, and may be repeated"
CALLS: dict[str, Any] = {
    "incr_once": lambda c: c.incr_once("x", "a"),
    "like": lambda c: c.likes("x").like("ann"),
    "unlike": lambda c: c.likes("x").unlike("ann"),
    "seed": lambda c: c.seed("x", 5, "archive"),
    "seed_many": lambda c: c.seed_many({"x": 5}, "archive"),
}
READS: dict[str, Any] = {
    "has": lambda c: c.likes("x").has("ann"),
    "has_many": lambda c: c.likes("x").has_many(["ann"]),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("call", [*CALLS, *READS])
def test_redis_is_away(face: str, call: str) -> None:
    """The counter is named, and what has become of the call; also where Redis is not asked any more."""

    async def main() -> None:
        counters = Either.url(face, f"redis://localhost:{NOWHERE}")
        for _ in range(FAILURES + 2):
            with pytest.raises(Unavailable) as caught:
                await done((CALLS | READS)[call](counters.counters))
            told = str(caught.value)
            assert told.startswith("counter 'x': ")
            assert told.count("repeated") == (call in CALLS), told
            assert told.endswith(AGAIN) == (call in CALLS), told
            assert caught.value.outcome is (Outcome.UNKNOWN if call in CALLS else Outcome.NOT_APPLIED)
        assert "is not asked" in told
        await counters.close()

    asyncio.run(main())


def test_calls_that_went_together() -> None:
    """They have one error in common, and each tells of its own call: one that only read spoils no other's outcome."""
    shared = Unavailable("Redis is not reachable")
    calls = [Once("a", "key", 1, 60), Has(b"b", "ann"), Like(b"c", "ann", b"+"), Seed("d", 1, "t"), Plain(b"GET", b"e")]
    raised: list[CounterError] = []
    for call in calls:
        call.error = shared
    for call in calls:
        with pytest.raises(Unavailable) as caught, not_applied if isinstance(call, Has) else nullcontext():
            call.checked()
        raised.append(caught.value)
    assert [error.outcome.name for error in raised] == ["UNKNOWN", "NOT_APPLIED", "UNKNOWN", "UNKNOWN", "UNKNOWN"]
    places = ["counter 'a'", "counter 'b'", "counter 'c'", "counter 'd'", "key 'e'"]
    assert [str(error).partition(":")[0] for error in raised] == places


def test_a_task_that_only_reads_beside_one_that_counts() -> None:
    """Each of them knows what has become of its own call, though one failure was of both."""

    async def main() -> None:
        counters = Either.url("asyncio", f"redis://localhost:{NOWHERE}")
        for _ in range(3):
            calls = [READS["has"](counters.counters), CALLS["like"](counters.counters), READS["has"](counters.counters)]
            assert all(inspect.isawaitable(call) for call in calls)
            errors: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
            assert [error.outcome for error in errors] == [Outcome.NOT_APPLIED, Outcome.UNKNOWN, Outcome.NOT_APPLIED]
        await counters.close()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_conflict_has_both_amounts(any_server: RealServer, face: str) -> None:
    """What the key has counted, and what it was to count now."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            await done(counters.counters.incr_once("x", "a", 3))
            with pytest.raises(KeyConflict) as caught:
                await done(counters.counters.incr_once("x", "a", 4))
            assert (
                str(caught.value)
                == "counter 'x': this key has counted 3 already, and does not count 4 as well; nothing was counted"
            )

    asyncio.run(main())
