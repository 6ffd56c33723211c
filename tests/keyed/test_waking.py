"""Those who were sent together wake one another: who is interrupted, or is busy, keeps nobody waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redis_counters import Counters
from redis_counters.drivers.threads import keyed as keyed_threads
from redis_counters.drivers.threads.background import AutoResetEvent
from redis_counters.drivers.threads.keyed import KeyedThreads, _Group
from redis_counters.protocol.keyed.calls import Like
from tests.servers import RealServer
from tests.waiting import PATIENCE, until

LONG = 3600.0  # seconds of patience: whoever waits for its end fails
KEYS = ["1", "2", "3", "4", "5"]  # "1" leads the others, "5" leads after it


class Callers:
    """Threads that use a key each. The first one's script is held back until `send`: those who call meanwhile gather.

    ``sent`` is called when what has gathered is about to go to Redis.
    """

    def __init__(self, counters: Counters, sent: Callable[[], None] = lambda: None) -> None:
        counters.incr_once("c", "warm")
        self.counters = counters
        self.keyed = counters._runner.keyed_calls()
        self.answers: dict[str, object] = {}
        self.threads: list[threading.Thread] = []
        self._ask, self._sent = self.keyed.runner.ask, sent
        self._first, self._gathered = threading.Event(), threading.Event()
        self.keyed.runner.ask = self._patient  # type: ignore[method-assign] # of this one runner
        self.call("first")
        assert self._first.wait(PATIENCE)

    def _patient(self, asks: Any, deadline: Any = None) -> Any:
        if self._first.is_set():
            self._sent()
        else:
            self._first.set()
            assert self._gathered.wait(PATIENCE)
        return self._ask(asks, deadline)

    def call(self, key: str) -> None:
        """A thread of this name has called, and is in the queue."""
        before = len(self.keyed.queue)
        thread = threading.Thread(target=self._work, args=(key,), name=key, daemon=True)
        self.threads.append(thread)
        thread.start()
        until(lambda: len(self.keyed.queue) > before, f"{key} is in the queue", every=0.001)

    def _work(self, key: str) -> None:
        try:
            self.answers[key] = self.counters.incr_once("c", key)
        except BaseException as error:
            self.answers[key] = error

    def send(self) -> None:
        self._gathered.set()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} waits for ever"
        assert self.keyed.leader is None


class BrokenOff(BaseException):
    """Comes up while a thread waits."""


@pytest.mark.parametrize("when", ["before it is sent", "while it is sent", "as it is woken"])
@pytest.mark.parametrize("broken", [("2",), ("3",), ("5",), ("2", "4"), ("2", "3", "4", "5")], ids="+".join)
def test_who_is_interrupted_leaves_nobody_asleep(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...], when: str
) -> None:
    """The first to be woken, the last, or who would lead next: all others have their answers, without any patience."""
    cut = threading.Event()

    class Breaking(AutoResetEvent):
        def wait(self, seconds: float) -> bool:
            if threading.current_thread().name not in broken:
                return super().wait(seconds)
            until(lambda: cut.is_set() or self.is_set(), "it is time to break off", every=0.001)
            raise BrokenOff

    def cut_off() -> None:
        cut.set()
        until(
            lambda: sum(isinstance(answer, BrokenOff) for answer in callers.answers.values()) == len(broken),
            "they have broken off",
            every=0.001,
        )

    monkeypatch.setattr(keyed_threads, "LOOK_S", LONG)
    monkeypatch.setattr(keyed_threads, "AutoResetEvent", Breaking)
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        callers = Callers(counters, cut_off if when == "while it is sent" else lambda: None)
        for key in KEYS:
            callers.call(key)
        if when == "before it is sent":
            cut_off()
        callers.send()
        callers.join()
        others = {"first", *KEYS} - {*broken}
        assert {key for key, answer in callers.answers.items() if answer is True} == others
        assert all(isinstance(callers.answers[key], BrokenOff) for key in broken)
        again = [counters.incr_once("c", key) for key in broken]
        assert again == [when == "before it is sent"] * len(broken)
        assert counters.get("c") == 7


def test_nobody_waits_for_a_handler_of_signals(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread is in the middle of those who were sent, and is busy until all others have their answers."""

    class Busy(AutoResetEvent):
        def wait(self, seconds: float) -> bool:
            if threading.current_thread() is threading.main_thread():
                for key in KEYS[2:]:
                    callers.call(key)
                callers.send()
                until(lambda: len(callers.answers) == 1 + len(KEYS), "all others have their answers", every=0.001)
            return super().wait(seconds)

    monkeypatch.setattr(keyed_threads, "LOOK_S", LONG)
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        callers = Callers(counters)
        for key in KEYS[:2]:
            callers.call(key)
        monkeypatch.setattr(keyed_threads, "AutoResetEvent", Busy)
        assert counters.incr_once("c", "main") is True
        callers.join()
        assert callers.answers == dict.fromkeys(["first", *KEYS], True)
        assert counters.get("c") == 8


def test_a_leader_is_through_with_its_own_calls(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took over from somewhere in the queue, behind more than go together: it goes with the first of them."""
    monkeypatch.setattr(keyed_threads, "MAX_CALLS", 3)
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        keyed = KeyedThreads(counters._runner)
        groups = [_Group([Like(b"l", user, b"+")]) for user in range(6)]
        keyed.queue.extend(groups)
        keyed.leader = groups[4]
        keyed._lead(groups[4])
        assert [group.done for group in groups] == [True, True, False, False, True, False]
        assert [group.calls[0].answer is not None for group in groups] == [group.done for group in groups]
        assert counters.likes("l").value() == 3
