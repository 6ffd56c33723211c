"""Threads that count without pause, that wait, that cannot be started: nobody is held up for ever, nothing piles up."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from redis_counters import Counters, Unavailable, UsageError, WrongType
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.servers import RealServer
from tests.waiting import until

COUNTING = 4  # threads
THREADS = ["redis-counters", "redis-counters-buffer"]  # of a client
LIMIT = 30.0  # seconds; each call takes some milliseconds


def test_callers_are_not_held_up_by_threads_that_count(any_server: RealServer) -> None:
    """Four threads count without pause: reads, figures and flushes of a fifth come to an end, and nothing is lost."""
    over = threading.Event()
    counted = [0] * COUNTING
    calls: list[str] = []
    errors: list[BaseException] = []
    with any_server.client() as client, Counters(client, flush_interval=0.1) as counters:

        def count(number: int) -> None:
            own, both = counters.counter(f"n{number}"), counters.counter("all")
            while not over.is_set():
                own.incr()
                both.incr()
                counted[number] += 1

        def call() -> None:
            try:
                counters.incr("mine", 5)
                assert counters.get("mine", max_age=0) == 5
                calls.append("get")
                assert counters.stats().accepted > 0
                calls.append("stats")
                counters.flush(LIMIT)
                calls.append("flush")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=count, args=(n,), daemon=True) for n in range(COUNTING)]
        caller = threading.Thread(target=call, daemon=True)
        try:
            for thread in threads:
                thread.start()
            until(lambda: all(counted), "all of them count")
            caller.start()
            caller.join(LIMIT)
        finally:
            over.set()
            for thread in threads:
                thread.join(LIMIT)
        caller.join(LIMIT)
        assert errors == []
        assert calls == ["get", "stats", "flush"]
        counters.flush()
        assert counters.get("all", max_age=0) == sum(counted)
    expected = {b"all": sum(counted), b"mine": 5, **{b"n%d" % n: counted[n] for n in range(COUNTING)}}
    assert truth(any_server, expected) == expected


def test_a_caller_who_waits_for_room_is_told_of_the_end(private_server: RealServer) -> None:
    """With on_full="block" and Redis away somebody waits to count; when the client is closed he is told so."""
    private_server.kill()
    told: list[str] = []
    with client_of("blocking", private_server, retry=once("blocking")) as client:
        counters = Counters(client, max_pending=1, on_full="block", flush_interval=0.01)
        counters.incr("a")
        until(lambda: not counters._core.buffer and counters._core.writer.full, "the buffer is found full")

        def late(name: str) -> None:
            try:
                counters.incr(name)
            except UsageError as error:
                told.append(str(error))

        threads = [threading.Thread(target=late, args=(f"late{i}",), daemon=True) for i in range(3)]
        for thread in threads:
            thread.start()
        threads[0].join(0.1)
        assert all(thread.is_alive() for thread in threads)
        with pytest.raises(Unavailable) as caught:
            counters.close(0.1)
        for thread in threads:
            thread.join(5)
        assert not any(thread.is_alive() for thread in threads)
    assert caught.value.pending == {"a": 1}
    assert len(told) == 3
    assert all("closed" in text and "not counted" in text for text in told)


@pytest.mark.parametrize("refused", [THREADS[:1], THREADS[1:], THREADS], ids=["flusher", "helper", "both"])
def test_threads_that_cannot_be_started_do_not_pile_up(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, refused: list[str]
) -> None:
    """One or both of the client's threads are refused, at every increment: no more than one of a kind ever runs."""
    before = set(threading.enumerate())
    start = threading.Thread.start
    attempts = 0

    def refuse(thread: threading.Thread) -> None:
        nonlocal attempts
        if thread.name in refused:
            attempts += 1
            raise RuntimeError("can't start new thread")
        start(thread)

    with any_server.client() as client, Counters(client, flush_interval=0.01) as counters:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for i in range(1, 11):
            counters.incr("x")  # the buffer is empty, so this looks for the threads
            counters.flush(10)
            names = [thread.name for thread in set(threading.enumerate()) - before]
            assert all(names.count(name) <= 1 for name in THREADS)
            assert truth(any_server, ["x"]) == {b"x": i}
        monkeypatch.undo()
        assert attempts >= 1
        counters.incr("x")
    assert [thread for thread in set(threading.enumerate()) - before if thread.name in THREADS] == []
    assert truth(any_server, ["x"]) == {b"x": 11}


@pytest.mark.parametrize("face", FACES)
def test_what_is_refused_is_logged_once(any_server: RealServer, face: str, caplog: pytest.LogCaptureFixture) -> None:
    """Twenty counters are refused, a line each; while another one is flushed again and again nothing is added."""
    client: Any = any_server.client()
    for i in range(20):
        client.set(b"{rc:0}:c:0:bad%d" % i, "text")

    async def main() -> None:
        counters = Either.on(face, any_server, buckets=1, flush_interval=0.01)
        for i in range(20):
            counters.incr(f"bad{i}")
        for _ in range(10):
            flushes = counters.stats().flushes
            counters.incr("good")
            for _ in range(1000):
                stats = counters.stats()
                if stats.flushes > flushes and stats.pending == 20:
                    break
                await asyncio.sleep(0.005)
            else:
                raise AssertionError("no flush")
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(lines) == 20
        for i in range(20):
            assert sum(f"'bad{i}'" in line for line in lines) == 1
        with pytest.raises(WrongType):
            await counters.close()
        await closed(counters._client)

    with caplog.at_level(logging.ERROR, logger="redis_counters"):
        asyncio.run(main())
    assert truth(any_server, ["good"]) == {b"good": 10}
