"""Two regions: what it takes to bring changed counters from one to the other, how soon, and what counting costs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from benchmarks.harness import Row, Size, expect, ratio, take_turns
from benchmarks.server import Server, free_ports, node
from redis_counters import Counters, Exchange

INTERVAL = 0.2
PER_SECOND, HOT = 1_000, 100  # increments, and the counters that they go to
NAME = "likes:%d"
ROUNDS = 5  # of flushing
UNREAD = 4  # flushes of new counters that nobody asks for: of 100,000 in 16 buckets, more than are noted


class Flushing(NamedTuple):
    """How much longer a flush takes in a region, and how long either takes.

    Of new counters, of the same again, and of new ones where nobody has asked for changes for long.
    """

    new: tuple[float, str]
    known: tuple[float, str]
    unread: tuple[float, str]


@contextmanager
def two() -> Iterator[list[Server]]:
    """Two fresh servers, gone at the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(node(port)) for port in free_ports(2)]


def rows(_: Server, size: Size) -> list[Row]:
    with two() as servers:
        exchanged = _exchanged(servers, size.distinct)
    with two() as servers:
        lags = _lags(servers, size.cluster_seconds * 3)
    with two() as servers:
        flushing = _flushing(servers, size.distinct)
    return [
        *exchanged,
        Row(
            f"{PER_SECOND:,} increments/s on {HOT} counters, interval {INTERVAL:g} s: seconds until the other region "
            "reads them, 99 of 100",
            lags[len(lags) * 99 // 100],
            unit="s",
            at_most=2 * INTERVAL,
            note=f"half of them within {lags[len(lags) // 2]:.2f} s, all within {lags[-1]:.2f} s; with the writer's "
            "flush_interval of 0.1 s",
        ),
        Row(
            f"flush of {size.distinct:,} new counters: in a region, over alone",
            flushing.new[0],
            at_most=1.3,
            note=flushing.new[1],
        ),
        Row(
            f"flush of {size.distinct:,} counters that are there: in a region, over alone",
            flushing.known[0],
            at_most=1.3,
            note=flushing.known[1],
        ),
        Row(
            f"flush of {size.distinct:,} new counters: in a region, where nobody has asked for changes for long, over "
            "alone",
            flushing.unread[0],
            note=flushing.unread[1],
        ),
    ]


def _network(servers: list[Server]) -> list[int]:
    """Return the bytes that each server has received and sent so far."""
    told = [server.client.info("stats") for server in servers]
    return [int(each["total_net_input_bytes"]) + int(each["total_net_output_bytes"]) for each in told]


def _count(url: str, names: range) -> None:
    with Counters.from_url(url) as counters:
        for n in names:
            counters.incr(NAME % n)
        counters.flush(120)


def _exchanged(servers: list[Server], counters: int) -> list[Row]:
    regions = {"eu": servers[0].url, "us": servers[1].url}
    links = [("eu", "us")]
    few = max(counters // 100, 1)

    def brought(changed: int) -> tuple[float, list[int]]:
        """Return how long an exchange takes for so many changed counters, from its start, and bytes at each server."""
        _count(regions["eu"], range(changed))
        before, begin = _network(servers), time.perf_counter()
        with Exchange(regions, links=links) as exchange:
            while exchange.stats().entries < changed:
                time.sleep(0.005)
            took = time.perf_counter() - begin
        return took, [after - earlier for after, earlier in zip(_network(servers), before, strict=True)]

    _count(regions["eu"], range(counters))
    with Exchange(regions, links=links) as exchange:
        exchange.run_once()
    runs = [brought(counters) for _ in range(3)]
    rates = [counters / took for took, _ in runs]
    _, every = runs[-1]
    _, some = brought(few)
    with Counters.from_url(regions["us"]) as there:
        expect(sum(there.get_many([NAME % n for n in range(counters)]).values()), 4 * counters + few)
    source, destination = (each / counters for each in every)
    return [
        Row(
            f"{counters:,} changed counters: brought to another region a second, by one process",
            statistics.median(rates),
            unit="/s",
            at_least=100_000,
            note=f"with its start, three times: {', '.join(f'{rate:,.0f}' for rate in rates)}",
        ),
        Row(
            f"{counters:,} changed counters: bytes on the wire per changed counter between the regions",
            max(source, destination),
            unit="B",
            at_most=100,
            note=f"{source:.0f} between exchange and source, {destination:.0f} between exchange and destination: one "
            "of them stays at home where the exchange runs in one of the two",
        ),
        Row(
            f"{counters:,} counters, bytes on the wire: all changed / {few:,} changed",
            sum(every) / sum(some),
            note=f"{sum(every):,} B, {sum(some):,} B, with what an exchange says when it begins",
        ),
    ]


def _lags(servers: list[Server], seconds: float) -> list[float]:
    """Return after how long each increment was read in the other region, the shortest first."""
    issued: list[float] = []
    names = [NAME % n for n in range(HOT)]
    done = threading.Event()
    lags: list[float] = []

    def write(counters: Counters) -> None:
        handles = [counters.counter(name) for name in names]
        begin = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            while len(issued) < (now - begin) * PER_SECOND:
                issued.append(time.monotonic())
                handles[len(issued) % HOT].incr()
            time.sleep(0.001)
        done.set()

    regions = {"eu": servers[0].url, "us": servers[1].url}
    with (
        Counters.from_url(regions["eu"]) as here,
        Counters.from_url(regions["us"]) as there,
        Exchange(regions, interval=INTERVAL) as exchange,
    ):
        for name in names:
            here.incr(name)
        while there.get_many(names, max_age=0) != dict.fromkeys(names, 1):
            time.sleep(0.01)
        writer = threading.Thread(target=write, args=(here,))
        writer.start()
        while len(lags) < len(issued) or not done.is_set():
            seen = sum(there.get_many(names, max_age=0).values()) - HOT
            now = time.monotonic()
            lags += [now - moment for moment in issued[len(lags) : seen]]
            time.sleep(0.01)
        writer.join()
        expect(exchange.stats().failures, 0)
    return sorted(lags)


def _flushing(servers: list[Server], counters: int) -> Flushing:
    """Return how much longer a flush takes in a region, and how long either takes."""
    regions = {"eu": servers[0].url, "us": servers[1].url}
    exchanges = {namespace: Exchange(regions, namespace=namespace) for namespace in ("joined", "unread")}
    done = dict.fromkeys(("single", *exchanges), 0)  # names of one length: they are in every key
    known: dict[str, list[float]] = {namespace: [] for namespace in done}

    def flush(namespace: str) -> float:
        times = []
        with Counters.from_url(servers[0].url, namespace=namespace, flush_interval=60) as own:
            done[namespace] += 1
            for _ in range(2):
                for n in range(counters):
                    own.incr(f"{done[namespace]}:{n}")
                begin = time.perf_counter()
                own.flush(120)
                times.append(time.perf_counter() - begin)
                if namespace == "joined":
                    exchanges[namespace].run_once()
        known[namespace].append(times[1])
        return times[0]

    for exchange in exchanges.values():
        exchange.run_once()
    exchanges["unread"].close()
    for _ in range(UNREAD):
        flush("unread")
    sides: list[Callable[[], float]] = [partial(flush, "joined"), partial(flush, "single"), partial(flush, "unread")]
    with servers[0].apart():
        joined, alone, unread = take_turns(ROUNDS, *sides)
    exchanges["joined"].close()
    return Flushing(
        _compared(joined, alone, counters),
        _compared(known["joined"], known["single"], counters),
        _compared(unread, alone, counters),
    )


def _compared(joined: list[float], alone: list[float], counters: int) -> tuple[float, str]:
    told = f"{min(joined) / counters * 1e6:.1f} and {min(alone) / counters * 1e6:.1f} µs per counter at best"
    return ratio(joined, alone), told
