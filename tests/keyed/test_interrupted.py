"""An exception out of a signal handler (Ctrl-C) comes up at any point of a keyed call: nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

import tests.waiting as waits
from redis_counters import Counters
from redis_counters.drivers.threads import keyed as keyed_threads
from redis_counters.drivers.threads.background import AutoResetEvent
from redis_counters.drivers.threads.keyed import LOOK_S, _Group
from tests.faces.either import truth
from tests.keyed.support import users
from tests.lifecycle.test_interrupted import at_every_point
from tests.servers import RealServer

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def in_thread(work: Callable[[], None]) -> None:
    """The work is done, in a thread that is not the main one. Raises what it raised."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive()
    for error in raised:
        raise error


@pytest.mark.parametrize("busy", [0, 3], ids=["alone", "beside others"])
def test_at_every_point_of_a_call(any_server: RealServer, busy: int) -> None:
    """What was interrupted is repeated with its key, and counts once; threads that call meanwhile get their answers."""
    interrupt_calls(any_server, busy)


@pytest.mark.slow("hundreds of interruptions")
def test_at_every_point_of_a_call_that_wakes_others(any_server: RealServer) -> None:
    """The same in a thread that is not the main one, as PyThreadState_SetAsyncExc does it."""
    in_thread(lambda: interrupt_calls(any_server, 3))


def interrupt_calls(any_server: RealServer, busy: int) -> None:
    with redis.Redis(port=any_server.port) as client, Counters(client, shards=2) as counters:
        likes = counters.likes("l")
        keys = 0
        stop = threading.Event()
        others = [0] * busy

        def work(number: int) -> None:
            while not stop.is_set():
                counters.incr_once("others", f"{number} {others[number]}")
                others[number] += 1

        def call() -> None:
            counters.incr_once("c", f"{keys}", 3)
            likes.like(keys)
            counters.seed("s", keys, "t")

        def each(_interrupted: bool) -> None:
            nonlocal keys
            call()
            assert counters.incr_once("c", f"{keys}", 3) is False
            assert likes.has(keys) is True
            keys += 1

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(busy)]
        for thread in threads:
            thread.start()
        call()
        points = at_every_point(call, each)
        assert points > 100
        stop.set()
        for thread in threads:
            thread.join(waits.PATIENCE)
            assert not thread.is_alive(), "another thread waits for ever"
        keyed = counters._runner.keyed_calls()
        assert keyed._led_by() is None
        assert [group for group in keyed.queue if not group.over] == []
    found = truth(any_server, ["c", "l", "s", "others"])
    assert found == {b"c": 3 * keys, b"l": keys, b"s": keys - 1, b"others": sum(others)}
    assert len(users(any_server, b"l", 2)) == keys


def test_a_leader_that_is_gone_has_a_successor(any_server: RealServer) -> None:
    """C code may end a thread without a word: whoever waits for it finds out, and leads."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        keyed = counters._runner.keyed_calls()
        gone = threading.Thread(target=lambda: None)
        gone.start()
        gone.join()
        keyed.leader = _Group(())
        keyed.leader.thread = gone
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda i=i: answers.append(counters.incr_once("c", f"{i}")), daemon=True)
            for i in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20 * LOOK_S)
        assert answers == [True] * 5
        assert keyed.leader is None


def test_a_handler_of_signals_that_calls_while_its_thread_waits(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread becomes the leader meanwhile, and cannot lead under its own handler: the handler's call does."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        counters.incr_once("c", "warm")
        keyed = counters._runner.keyed_calls()
        ask, sending, waiting = keyed.runner.ask, threading.Event(), threading.Event()
        answers: dict[str, bool] = {}

        def patient(asks: Any, deadline: Any = None) -> Any:
            if not sending.is_set():
                sending.set()
                waiting.wait(waits.PATIENCE)
            return ask(asks, deadline)

        class Interrupted(AutoResetEvent):
            """Its first wait is where the handler comes up; in the handler's own wait the leader ends."""

            def wait(self, seconds: float) -> bool:
                if "handler" not in answers:
                    answers["handler"] = False
                    answers["handler"] = counters.incr_once("c", "handler")
                waiting.set()
                return super().wait(seconds)

        def call(key: str) -> None:
            answers[key] = counters.incr_once("c", key)

        monkeypatch.setattr(keyed_threads, "AutoResetEvent", Interrupted)
        keyed.runner.ask = patient  # type: ignore[method-assign] # of this one runner
        threads = [threading.Thread(target=call, args=(key,), daemon=True) for key in ("leader", "interrupted")]
        for thread in threads:
            thread.start()
            assert sending.wait(waits.PATIENCE)
        for thread in threads:
            thread.join(waits.PATIENCE)
        assert answers == {"leader": True, "handler": True, "interrupted": True}
        assert keyed.leader is None
        assert counters.get("c") == 4
