"""A process reads its own writes at once, a value that only grows never falls, and reading creates nothing."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import Counters, CounterValue, Refused
from redis_counters.protocol.read.cache import MAX_AHEAD
from tests.faces.either import FACES, Either, commandstats, reset_stats
from tests.servers import RealServer


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("max_age", [None, 0, 100])
def test_own_writes_are_read_at_once(any_server: RealServer, face: str, max_age: float | None) -> None:
    """Whatever is buffered, on its way, acknowledged or folded by others: the value includes all of it."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=0.01) as counters:
            total = others = 0
            for i in range(1, 80):
                counters.incr("x", i)
                total += i
                if i % 7 == 0:
                    counters.decr("x", 3)
                    total -= 3
                assert total <= await counters.get("x", max_age=max_age) <= total + others
                if i % 5 == 0:
                    await counters.flush()
                    assert total <= await counters.get("x", max_age=max_age) <= total + others
                if i % 11 == 0:
                    async with Either.on(face, any_server) as other:
                        other.incr("x", 1000)
                        others += 1000
                    assert total <= await counters.get("x", max_age=max_age) <= total + others
            await counters.flush()
            assert await counters.get("x", max_age=0) == total + others

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_what_waits_in_the_buffer_is_in_values_from_memory(server: RealServer, face: str) -> None:
    """However it was counted, and whatever else waits between: texts, bytes, handles, more than is looked through."""

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60, max_age=60) as counters:
            names: dict[str, int] = dict.fromkeys(["x", "xx", "\N{SNOWMAN}", "?"], 0)
            handles = {name: counters.counter(name) for name in names}
            await counters.get_many(names)
            count: list[Callable[[str], None]] = [
                counters.incr,
                lambda name: counters.incr(name.encode()),
                lambda name: handles[name].incr(),
                lambda name: counters.incr(name, 1),
            ]
            reset_stats(server)
            for turn in range(1, 400):
                name = list(names)[turn % 4]
                for _ in range(3 * MAX_AHEAD if turn % 97 == 0 else turn % 5):
                    count[turn % 3](name)
                    names[name] += 1
                if turn % 89 == 0:
                    counters.decr(name, 7)
                    names[name] -= 7
                for other, expected in names.items():
                    value = await counters.get(other)
                    assert (value, value.pending) == (expected, expected)
            assert not {"evalsha", "hgetall"} & commandstats(server).keys()
            await counters.flush()
            assert await counters.get_many(names, max_age=0) == names

    asyncio.run(main())


def test_threads_read_what_they_have_counted_from_memory_while_it_is_sent(server: RealServer) -> None:
    """No value lacks an increment of the reader's own, or is more than all have begun, or less than the last one."""
    issued, wrong = [0] * 4, []
    with Counters.from_url(server.url, flush_interval=0.001, max_age=60) as counters:
        handle = counters.counter("x")
        handle.value()
        rounds = counters._runner.rounds.count

        def work(own: int) -> None:
            last = 0
            while (issued[own] < 3000 or counters._runner.rounds.count < rounds + 20) and issued[own] < 1_000_000:
                issued[own] += 1
                handle.incr()
                least = max(last, issued[own])
                last = handle.value()
                if not least <= last <= sum(issued):
                    wrong.append((least, last, sum(issued)))
                    return

        threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        counters.flush()
        assert counters.get("x", max_age=0) == sum(issued)
        assert counters._runner.rounds.count >= rounds + 20


@pytest.mark.parametrize("face", FACES)
def test_what_does_not_fit_into_the_slot_is_in_no_value(server: RealServer, face: str) -> None:
    """Near the end of a slot a value from memory does not promise what will be refused."""

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60, max_age=60) as counters:
            counters.incr("x", 2**63 - 3)
            assert await counters.get("x") == 2**63 - 3
            for left in (2, 1, 0):
                assert await counters.get("x") == 2**63 - 1 - left
                counters.incr("x")
            assert await counters.get("x") == 2**63 - 1
            with pytest.raises(Refused):
                await counters.flush()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_own_writes_on_top_of_a_base(any_server: RealServer, face: str) -> None:
    """A new client's first counts add to what folded clients left, before its first flush and after."""

    async def main() -> None:
        async with Either.on(face, any_server) as first:
            first.incr("x", 100)
            first.decr("x", 50)
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.incr("x", 8)
            counters.decr("x", 3)
            assert await counters.get("x", max_age=0) == 55
            assert await counters.get_many(["x"], max_age=0) == {"x": 55}
            await counters.flush()
            assert await counters.get("x", max_age=0) == 55

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_pending_is_what_is_not_acknowledged(any_server: RealServer, face: str) -> None:
    """`pending` is part of the value, and 0 after a flush; `as_of` is when Redis was asked, by the wall clock."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.incr("x", 5)
            counters.decr("x", 2)
            before = time.time()
            value = await counters.get("x", max_age=0)
            after = time.time()
            assert (value, value.pending) == (3, 3)
            assert before <= value.as_of <= after
            await counters.flush()
            flushed = await counters.get("x")
            assert (flushed, flushed.pending, flushed.as_of) == (3, 0, value.as_of)
            counters.decr("x", 10)
            again = await counters.get("x")
            assert (again, again.pending, again.as_of) == (-7, -10, value.as_of)
            fresh = await counters.get("x", max_age=0)
            assert (fresh, fresh.pending) == (-7, -10)
            assert fresh.as_of >= after
            page = await counters.get_many(["x", "y"], max_age=0)
            assert fresh.as_of <= page["x"].as_of <= page["y"].as_of <= time.time()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_the_cache_asks_once_and_max_age_0_always(any_server: RealServer, face: str) -> None:
    """Within `max_age` no command is sent; with 0 each read is one command; infinity asks only for what is unknown."""

    async def main() -> None:
        async with Either.on(face, any_server, max_age=60, flush_interval=60) as counters:
            counters.incr("x")
            await counters.flush()
            await counters.get("x", max_age=0)
            reset_stats(any_server)
            for _ in range(100):
                assert await counters.get("x") == 1
                assert await counters.get("x", max_age=30) == 1
                assert await counters.get("x", max_age=float("inf")) == 1
                assert await counters.get_many(["x", b"x"]) == {"x": 1, b"x": 1}
            assert commandstats(any_server).get("hgetall", 0) == 0
            for _ in range(20):
                assert await counters.get("x", max_age=0) == 1
            assert commandstats(any_server)["hgetall"] == 20
            await asyncio.sleep(0.03)
            assert await counters.get("x", max_age=0.02) == 1
            assert commandstats(any_server)["hgetall"] == 21
            assert await counters.get("new", max_age=float("inf")) == 0
            assert commandstats(any_server)["hgetall"] == 22
            assert commandstats(any_server).get("evalsha", 0) == 0

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_another_clients_counts_show_once_the_cache_has_aged(any_server: RealServer, face: str) -> None:
    """A cached value may be as old as `max_age` and no older."""

    async def main() -> None:
        async with Either.on(face, any_server, max_age=60) as reader, Either.on(face, any_server) as writer:
            assert await reader.get("x") == 0
            writer.incr("x", 7)
            await writer.flush()
            assert await reader.get("x") == 0
            assert await reader.get("x", max_age=0) == 7
            writer.incr("x")
            await writer.flush()
            await asyncio.sleep(0.03)
            assert await reader.get("x", max_age=10) == 7
            assert await reader.get("x", max_age=0.02) == 8
            assert await reader.get_many(["x"], max_age=10) == {"x": 8}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_page_is_one_round_trip(server: RealServer, face: str) -> None:
    """`get_many` asks for hundreds of counters at once, for none that is cached; duplicates cost nothing."""

    async def main() -> None:
        async with Either.on(face, server, max_age=60) as counters:
            names: list[str | bytes] = [f"n{i}" for i in range(200)] + [b"\xff%d" % i for i in range(100)]
            for i, name in enumerate(names):
                counters.incr(name, i + 1)
            await counters.flush()
            await counters.get_many(["warm", "up"])
            reset_stats(server)
            page = await counters.get_many([*names, *names, b"n0", "none"], max_age=0)
            stats = commandstats(server)
            assert stats["hgetall"] == len(names) + 1
            assert stats.get("evalsha", 0) == (face == "asyncio")  # else a row of commands, which are sent together
            assert list(page) == [*names, b"n0", "none"]
            assert page == {**{n: i + 1 for i, n in enumerate(names)}, b"n0": 1, "none": 0}
            reset_stats(server)
            assert await counters.get_many(iter(names)) == {n: i + 1 for i, n in enumerate(names)}
            assert await counters.get_many([]) == {}
            assert await counters.get_many(()) == {}
            stats = commandstats(server)
            assert "evalsha" not in stats
            assert "hgetall" not in stats
            await counters.get_many([*names[:5], "another"])
            assert commandstats(server)["hgetall"] == 1

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_reading_creates_no_keys(any_server: RealServer, face: str) -> None:
    """Unknown names read as 0; nothing but the namespace's own record appears in Redis, however many they are."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            for i in range(50):
                assert await counters.get(f"unknown{i}") == 0
            assert set((await counters.get_many([f"u{i}" for i in range(1200)])).values()) == {0}
            assert (await counters.inspect("unknown")).value == 0
            assert counters.stats().slots == 0

    asyncio.run(main())
    assert any_server.client().keys() in ([], [b"rc:meta"])


def test_a_value_is_an_int() -> None:
    """It computes, formats, hashes, orders, pickles, copies and serialises as the int it is; copies keep its facts."""
    value = CounterValue(2**70 + 1, 123.5, -4)
    assert value == 2**70 + 1
    assert isinstance(value, int)
    assert hash(value) == hash(2**70 + 1)
    assert value in {2**70 + 1: None}
    assert (value + 1, value // 2, -value) == (2**70 + 2, 2**69, -(2**70) - 1)
    assert value > 5
    assert not CounterValue(0)
    assert f"{value}" == str(value) == repr(int(value)) == "1180591620717411303425"
    assert f"{CounterValue(1234567):,}" == "1,234,567"
    assert json.loads(json.dumps({"v": value})) == {"v": 2**70 + 1}
    assert "abc"[CounterValue(1)] == "b"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again: Any = pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - made here
        assert (type(again), again, again.as_of, again.pending) == (CounterValue, value, 123.5, -4)
    for again in (copy.copy(value), copy.deepcopy(value)):
        assert (type(again), again, again.as_of, again.pending) == (CounterValue, value, 123.5, -4)
