"""Where a fault happens: servers, links and client processes of one run, and what comes out of it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis_counters import Counters
from redis_counters.testing import LossyLink
from tests.faults.sides import NAME, OURS
from tests.protocol.cleaning import House
from tests.servers import Kind, RealServer
from tests.topologies import WATCHED, Cluster, Pair, Sentinels, Switch
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 90.0  # seconds that an order to a client may take: redis-py retries for some
LONGEST = 20.0  # seconds that others wait at most, on a busy machine, for what is there again after two,
LONGEST_IDLE = 90.0  # or within a minute, where processes are idle
Place = RealServer | Cluster


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way of counting made of one fault. ``struck``: how often the fault happened.

    Where counts were taken while the processes live: ``seconds`` after the fault all were there, if they ever were, and
    ``short``: by how much a process read less than it had counted itself, at most.
    """

    fault: str
    side: str
    issued: int
    raised: int
    counted: int
    struck: int
    seconds: float | None = None
    short: int = 0

    @property
    def error(self) -> int:
        """Above 0: counted too often; below: lost, and nobody was told."""
        return self.counted - (self.issued - self.raised)


class Client:
    """A process that counts, seen from its parent."""

    def __init__(self, side: str, address: str, options: dict[str, Any]) -> None:
        self.issued = self.raised = self.short = 0
        self.error = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.client", side, address, json.dumps(options)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def order(self, name: str, argument: int | str = 0) -> dict[str, Any]:
        """The order is carried out."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([name, argument]), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise AssertionError(f"{name}: no answer from the client within {PATIENCE:g} s")
        line = self._process.stdout.readline()
        assert line, f"{name}: the client ended, its exit code is {self._process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        self.issued, self.raised, self.short = answer["issued"], answer["raised"], answer["short"]
        self.error = answer["error"]
        return answer

    def count(self, batches: int) -> None:
        """That many times ten increments are issued."""
        self.order("count", batches)

    def count_until(self, enough: Callable[[], bool]) -> None:
        """Counting goes on until it is enough."""
        for _ in range(100_000):
            if enough():
                return
            self.count(5)
        raise AssertionError("it is never enough")

    def go(self) -> None:
        """The client counts from now on, also while others do something."""
        self.order("go")

    def reach(self, more: int) -> None:
        """While going: that many increments more have been issued."""
        goal = self.issued + more
        until(lambda: bool(self.order("tell")["issued"] >= goal), f"{more} increments more")

    def pause(self) -> None:
        """The client does not go on counting."""
        self.order("pause")

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """The process is gone at once (SIGKILL)."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """The process is gone, in order if it was closed. Idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


class World:
    """One run of one fault with one way of counting. ``size``: about how many increments it should take."""

    def __init__(self, side: str, kind: Kind, size: int, stack: ExitStack) -> None:
        self.side = side
        self.kind = kind
        self.size = size
        self.times = max(3, size // 300)  # how often a fault that is quickly done is to happen
        self.struck = 0
        self.issued = self.raised = self.short = 0  # beside what the clients tell
        self.lost_at: float | None = None  # when the fault happened, if counts are compared while clients live
        self.clients: list[Client] = []
        self.errors: list[str] = []
        self._stack = stack

    def server(self, *arguments: str) -> RealServer:
        server = RealServer.start(self.kind, *arguments)
        self._stack.callback(server.stop)
        return server

    def link(self, url: str) -> LossyLink:
        return self._stack.enter_context(LossyLink(url))

    def pair(self) -> Pair:
        pair = Pair(self.kind)
        self._stack.callback(pair.stop)
        return pair

    def sentinels(self, pair: Pair) -> tuple[Sentinels, str]:
        """Return Sentinels, and the address by which a client is told of them."""
        sentinels = Sentinels(pair)
        self._stack.callback(sentinels.stop)
        return sentinels, f"sentinel://{','.join(f'{host}:{port}' for host, port in sentinels.addresses)}/{WATCHED}"

    def cluster(self) -> Cluster:
        cluster = Cluster(self.kind, followers=1)
        self._stack.callback(cluster.stop)
        return cluster

    def switch(self, url: str) -> Switch:
        return self._stack.enter_context(Switch(url))

    def lost(self, *, silent: bool = False) -> None:
        """The fault has happened; from now on it is looked when others see everything again.

        ``silent``: the processes do nothing that could show them.
        """
        self.struck += 1
        self.lost_at, self.longest = time.monotonic(), LONGEST_IDLE if silent else LONGEST

    def directory(self) -> str:
        return self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rc-faults-"))

    def client(self, address: str, **options: Any) -> Client:
        """Start a process that counts; ``options`` are of redis-py's client, but for ``ours``."""
        client = Client(self.side, address, options)
        self._stack.callback(client.end)
        self.clients.append(client)
        return client

    def close(self, client: Client) -> None:
        """The client has said goodbye, and is not asked again."""
        client.order("close")
        if client.error:
            self.errors.append(client.error)
        self.leave(client)

    def leave(self, client: Client) -> None:
        """What the client issued counts; it is not asked again."""
        self.clients.remove(client)
        self.issued += client.issued
        self.raised += client.raised
        self.short = max(self.short, client.short)

    def reached(self) -> bool:
        """As much as wanted has been issued."""
        return self.issued + sum(client.issued for client in self.clients) >= self.size

    def outcome(self, fault: str, place: Place) -> Outcome:
        """Compare what the clients issued with what Redis has; after they are closed, or while they live."""
        seconds = counted = None
        if self.lost_at is not None:
            counted, seconds = self._while_they_live(place, self.lost_at)
        for client in list(self.clients):
            self.close(client)
        assert not self.errors, self.errors
        if counted is None:
            counted = self.value(place)
        return Outcome(fault, self.side, self.issued, self.raised, counted, self.struck, seconds, self.short)

    def _while_they_live(self, place: Place, since: float) -> tuple[int, float | None]:
        """Return what others read, and how long it took until that was all, if it ever was.

        Of INCR nobody tells anything again: there is nothing to wait for.
        """
        while True:
            for client in self.clients:
                client.order("tell")
            value, seconds = self.value(place), time.monotonic() - since
            if value == sum(client.issued - client.raised for client in self.clients):
                return value, round(seconds, 1)
            if self.side not in OURS or seconds > self.longest:
                return value, None
            time.sleep(0.05)

    def value(self, place: Place) -> int:
        """Return what somebody reads who has not counted."""
        client: Any = place.client()
        try:
            if self.side in OURS:
                with Counters(client) as counters:
                    return int(counters.get(NAME, max_age=0))
            return int(client.get(NAME) or 0)
        finally:
            client.close()

    def fold(self, server: RealServer) -> None:
        """As if hours had passed without a word from anybody: all actors are closed, and hours later folded."""
        if self.side not in OURS:
            return
        house = House(server.client(), buckets=16)
        for state in ("c", "f"):
            house.age(2 * 3600)
            command = [sys.executable, "-m", "redis_counters.cli", "fold", "--url", server.url]
            subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=60)
            assert set(house.states()) >= {state}, house.states()

    def delete(self, server: RealServer) -> None:
        """Somebody deletes the counter by hand."""
        client: Any = server.client()
        keys = [NAME] if self.side not in OURS else list(client.scan_iter(match=f"*:c:*:{NAME}", count=1000))
        assert client.delete(*keys) == len(keys) > 0
