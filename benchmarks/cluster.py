"""One hot name in a cluster of three primaries: commands per increment, and how they are shared among the primaries.

The nodes share the machine with those who count, so times say nothing here; what is counted are commands, by each node.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import redis

from benchmarks.harness import Row, Size, environment
from benchmarks.server import Server, free_ports, node
from redis_counters import Counters

PRIMARIES, SHARDS, PROCESSES, CLIENTS = 3, 16, 8, 12
HASH_SLOTS = 16_384
STARTED, TURN = 30.0, 1000

# Counts at full speed. All its clients have flushed, and so have an actor, when it says that it is ready.
WRITER = """
import sys, time
from redis_counters import Counters
url, shards, clients, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
every = [Counters.from_url(url) for _ in range(clients)]
handles = [counters.counter("hot", shards=shards) for counters in every]
for handle, counters in zip(handles, every):
    handle.incr()
    counters.flush()
print("ready", flush=True)
sys.stdin.readline()
issued, end = 0, time.monotonic() + seconds
while time.monotonic() < end:
    for handle in handles:
        for _ in range(1000):
            handle.incr()
    issued += 1000 * clients
for counters in every:
    counters.flush()
print(issued, flush=True)
sys.stdin.readline()
for counters in every:
    counters.close()
"""


class Cluster:
    """Primaries that share the hash slots, without followers."""

    def __init__(self, nodes: list[redis.Redis]) -> None:
        self.nodes: list[Any] = nodes  # redis-py leaves the answers to commands by name without types
        self.url = f"redis+cluster://{','.join(map(self._address, nodes))}"

    def _address(self, primary: redis.Redis) -> str:
        where = primary.connection_pool.connection_kwargs
        return f"{where['host']}:{where['port']}"

    def join(self) -> None:
        """All know each other, and each has its hash slots."""
        for number, primary in enumerate(self.nodes):
            first, last = (HASH_SLOTS * n // PRIMARIES for n in (number, number + 1))
            primary.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
            primary.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for primary in self.nodes[1:]:
            host, _, port = self._address(primary).partition(":")
            self.nodes[0].execute_command("CLUSTER", "MEET", host, port)
        end = time.monotonic() + STARTED
        while not all(map(self._fit, self.nodes)):
            if time.monotonic() > end:
                raise TimeoutError("the nodes of the cluster do not agree")
            time.sleep(0.05)

    def _fit(self, primary: Any) -> bool:
        info: bytes = primary.execute_command("CLUSTER", "INFO")
        return b"cluster_state:ok" in info and b"cluster_known_nodes:%d\r" % PRIMARIES in info

    def forget_commands(self) -> None:
        for primary in self.nodes:
            primary.config_resetstat()

    def commands(self) -> list[tuple[int, int]]:
        """Return, per node: scripts since `forget_commands`, and all commands, with those that scripts call."""
        found = []
        for primary in self.nodes:
            calls = {name: stat["calls"] for name, stat in primary.info("commandstats").items()}
            ours = {"cmdstat_config|resetstat", "cmdstat_config", "cmdstat_info"}
            found.append((calls.get("cmdstat_evalsha", 0), sum(n for name, n in calls.items() if name not in ours)))
        return found

    def flushall(self) -> None:
        for primary in self.nodes:
            primary.flushall()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A fresh cluster, gone at the end."""
    with ExitStack() as stack:
        # The nodes speak to each other at their port and 10,000.
        nodes = [
            stack.enter_context(node(port, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"))
            for port in free_ports(PRIMARIES, and_above=10_000)
        ]
        started = Cluster([server.client for server in nodes])
        started.join()
        yield started


def rows(_: Server, size: Size) -> list[Row]:
    with cluster() as three:
        few = _run(three, 1, size.cluster_seconds)
        many = _run(three, CLIENTS, size.cluster_seconds)
    what = f"hot name, {PROCESSES} processes, {SHARDS} shards, {PRIMARIES} primaries"
    more, share = f"{what}, {CLIENTS} clients in each process", "farthest primary's share of scripts from a third"
    of = f"of {few.issued + many.issued:,}"
    return [
        Row(f"{what}: counts lost or too many", few.wrong + many.wrong, unit="", at_most=0, note=of),
        Row(f"{what}: increments per command", few.issued / few.commands, unit="", at_least=10_000, note=few.told),
        Row(f"{what}: {share}", few.apart, unit="%", at_most=20, note=few.shares),
        Row(f"{more}: increments per command", many.issued / many.commands, unit="", note=many.told),
        Row(f"{more}: {share}", many.apart, unit="%", note=many.shares),
    ]


class Counted:
    """What a run came to: increments, and what each node says of its commands."""

    def __init__(self, issued: int, found: int, nodes: list[tuple[int, int]]) -> None:
        self.issued = issued
        self.wrong = abs(found - issued)
        scripts = [scripts for scripts, _ in nodes]
        self.commands = sum(every for _, every in nodes)
        self.told = f"{self.commands:,} commands, {sum(scripts):,} of them scripts, the others theirs"
        self.shares = " : ".join(f"{n:,}" for n in scripts)
        self.apart = max(abs(n * PRIMARIES / sum(scripts) - 1) for n in scripts) * 100


def _run(three: Cluster, clients: int, seconds: float) -> Counted:
    three.flushall()
    command = [sys.executable, "-c", WRITER, three.url, str(SHARDS), str(clients), str(seconds)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    with ExitStack() as stack:
        writers = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(PROCESSES)]
        try:
            said = [_line(writer) for writer in writers]
            if said != ["ready\n"] * PROCESSES:
                raise AssertionError(f"not all writers are ready: {said}")
            three.forget_commands()
            _go_on(writers)
            issued = sum(int(_line(writer)) for writer in writers)
            counted = three.commands()
            with Counters.from_url(three.url) as reader:
                found = reader.get("hot", max_age=0) - PROCESSES * clients
            _go_on(writers)
            for writer in writers:
                writer.wait(timeout=60)
        finally:
            for writer in writers:
                writer.kill()
    return Counted(issued, found, counted)


def _go_on(writers: list[subprocess.Popen[str]]) -> None:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()


def _line(writer: subprocess.Popen[str]) -> str:
    assert writer.stdout is not None
    return writer.stdout.readline()
