"""A server of the benchmarks' own, on a loopback TCP port: where the usual client meets the usual server."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import redis

from redis_counters.drivers.embedded import EmbeddedServer

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Server:
    """``url`` leads there; ``client`` is a client for questions, not for measuring."""

    url: str
    client: redis.Redis

    def cpu(self) -> float:
        """Seconds of CPU that the server has used so far."""
        info = self.client.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def memory(self) -> int:
        """Bytes that the server's data takes."""
        return int(self.client.info("memory")["used_memory"])

    def version(self) -> str:
        info = self.client.info("server")
        return f"valkey {info['valkey_version']}" if "valkey_version" in info else f"redis {info['redis_version']}"

    def clear(self) -> None:
        self.client.flushall()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """The server has a core, this process the others, as if it were another machine.

        Where the two share a core, a round trip wakes nobody up: it takes 27 microseconds instead of 70, and which of
        the two a run gets is the scheduler's whim. Does nothing where there is but one core, or no such call.
        """
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(cores) < 2:
            yield
            return
        pid = int(self.client.info("server")["process_id"])
        threads = [int(thread) for thread in os.listdir(f"/proc/{pid}/task")]
        try:
            for thread in threads:
                os.sched_setaffinity(thread, cores[-1:])
            os.sched_setaffinity(0, cores[:-1])
            yield
        finally:
            for thread in [*threads, 0]:
                os.sched_setaffinity(thread, cores)


@contextmanager
def server() -> Iterator[Server]:
    """A fresh server, gone at the end."""
    (port,) = free_ports(1)
    with node(port) as fresh:
        yield fresh


@contextmanager
def node(port: int, *arguments: str) -> Iterator[Server]:
    """A fresh server at this port, gone at the end."""
    embedded = EmbeddedServer.start(None, "--bind", HOST, "--port", str(port), *arguments)
    url = f"redis://{HOST}:{port}/0"
    with embedded, redis.Redis.from_url(url) as client:
        if int(client.info("server")["process_id"]) != embedded.pid:
            raise RuntimeError(f"another server answers at port {port}")
        yield Server(url, client)


def free_ports(count: int, and_above: int = 0) -> list[int]:
    """Return ports that were free a moment ago, and so were those so far above them."""
    with ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(range(12_000, 22_000), 1000):  # below those that systems give to outgoing connections
            with suppress(OSError):
                for number in {port, port + and_above}:
                    held.enter_context(socket.socket()).bind((HOST, number))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise RuntimeError("no ports are free")
