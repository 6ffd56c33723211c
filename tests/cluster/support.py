"""Writers on a cluster while something happens to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from redis_counters import Counters, Unavailable
from redis_counters.protocol.wire.keys import KeySpace, meta_key
from tests.faces.either import Either
from tests.topologies.clusters import Cluster, slot_of
from tests.topologies.nodes import Node
from tests.waiting import PATIENCE, until

KEYS = KeySpace(b"rc", 64)
NAMES = [f"n{i}" for i in range(200)]


class Writers:
    """Threads, each with counters of its own, that count all names again and again until told to stop."""

    def __init__(self, url: str, number: int, shards: int) -> None:
        self._over = threading.Event()
        self.counted = [0] * number  # rounds over all names, and twice as many of "hot"
        self._counters = [
            Counters.from_url(url, flush_interval=0.01, shards=shards, max_batch=50) for _ in range(number)
        ]
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(number)]
        for thread in self._threads:
            thread.start()

    def _work(self, n: int) -> None:
        counters = self._counters[n]
        while not self._over.wait(0.002):
            for name in NAMES:
                counters.incr(name)
            counters.incr("hot", 2)
            self.counted[n] += 1

    def flushes(self) -> list[int]:
        return [counters.stats().flushes for counters in self._counters]

    def go_on(self, flushes: int) -> None:
        """Each has sent so many flushes more, and Redis has confirmed them."""
        goals = [done + flushes for done in self.flushes()]
        until(
            lambda: all(done >= goal for done, goal in zip(self.flushes(), goals, strict=True)),
            f"{flushes} flushes more by each writer",
        )

    def stop(self, *, close: Callable[[Counters], None] = Counters.close) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        for counters in self._counters:
            close(counters)


@contextmanager
def writing(cluster: Cluster, number: int = 4, shards: int = 4) -> Iterator[Writers]:
    """Writers count meanwhile; in the end everything that they counted is there, and nothing else."""
    writers = Writers(cluster.url, number, shards)
    try:
        yield writers
    except BaseException:
        writers.stop(close=lambda counters: None)
        raise
    writers.stop(close=lambda counters: counters.flush(60))
    check(cluster, {**dict.fromkeys(NAMES, sum(writers.counted)), "hot": 2 * sum(writers.counted)})
    writers.stop()
    check(cluster, {**dict.fromkeys(NAMES, sum(writers.counted)), "hot": 2 * sum(writers.counted)})


def check(cluster: Cluster, expected: dict[str, int]) -> None:
    """A client that has counted nothing reads these values."""
    with Counters.from_url(cluster.url) as reader:
        assert reader.get_many(expected, max_age=0) == expected


def at(cluster: Cluster, primary: Node, names: Collection[str], keys: KeySpace = KEYS) -> list[str]:
    """Return which of these names lie on this primary."""
    return [n for n in names if cluster.node_of(slot_of(keys.shard_key(n.encode(), 0)[1])) is primary]


def lose_one(cluster: Cluster, names: Collection[str], *, record: bool = False) -> tuple[list[str], list[str]]:
    """A primary is gone for good, and the others go on; returns which names it had, and all others.

    It is that of the namespace's record, or another one.
    """
    of_record = cluster.node_of(meta_key(b"rc"))
    primary = next(node for node in cluster.primaries() if (node is of_record) is record)
    gone = at(cluster, primary, names)
    for node in cluster.running():
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    for node in (*cluster.followers_of(primary), primary):
        node.kill()
    return gone, [name for name in names if name not in gone]


async def held_up(counters: Either, names: Collection[str]) -> Unavailable:
    """Of what was counted just these names wait, and all else is flushed, sooner or later; return what flush says."""
    end = time.monotonic() + PATIENCE
    while True:
        with pytest.raises(Unavailable) as raised:
            await counters.flush(1)
        if raised.value.pending.keys() == set(names):
            return raised.value
        assert time.monotonic() < end, f"{sorted(raised.value.pending)} wait, and not {sorted(names)}"


def connections(cluster: Cluster) -> list[int]:
    """Return how many clients are connected to each node that runs; redis-py's own among them."""
    return [node.ask("CLIENT", "LIST", "TYPE", "normal").count(b" addr=") for node in cluster.running()]


def no_more_connections(cluster: Cluster, before: Sequence[int], more: int = 0) -> bool:
    """No node has more clients than it had (they may be fewer: earlier ones end late), or so many more."""
    return all(now <= then + more for now, then in zip(connections(cluster), before, strict=True))


def keyed_of(counters: Either) -> Any:
    """Return what sends keyed calls; its ``do`` sends several in one batch."""
    return counters.counters._runner.keyed_calls()
