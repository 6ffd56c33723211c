"""The figures of ``regions list``: what each region has of each of its peers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from redis.exceptions import RedisError

from redis_counters.cli.client import driven
from redis_counters.cli.regional.facts import Facts, check_alike, facts_of
from redis_counters.cli.regional.traffic import Traffic, behind, traffic, versions
from redis_counters.drivers.transport import Transport
from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.members import MEMBER
from redis_counters.protocol.wire.registry import milliseconds_of
from redis_counters.protocol.wire.registry import time as server_time

_LOOK = 1.0  # seconds in which entries that change are counted


class Pair(NamedTuple):
    """A region and one of its peers. ``lag``: seconds. ``behind``: changed entries of the peer that it lacks.

    ``heartbeat``: seconds since an exchange last reported that it had brought all; ``exchange``: which one.
    ``clock_skew``: seconds by which the peer's clock is ahead. None: not known.
    """

    region: str
    peer: str
    state: str
    lag: float | None
    behind: int | None
    heartbeat: float | None
    exchange: str | None
    clock_skew: float | None
    bytes_per_entry: float | None
    entries_per_second: float | None


class Collector:
    """Asks regions, one by one. ``errors``: by region; an error of one does not stop the others."""

    def __init__(self, servers: Mapping[str, Transport], namespace: str) -> None:
        self._servers = servers
        self.errors: dict[str, str] = {}
        self.facts: dict[str, Facts] = {}
        for name, server in servers.items():
            with self.noting(name):
                self.facts[name] = driven(server, facts_of(name, namespace))

    @contextmanager
    def noting(self, region: str) -> Iterator[None]:
        """Note an error as one of this region, instead of raising it."""
        try:
            yield
        except (CounterError, RedisError) as error:
            self.errors.setdefault(region, str(error))

    def pairs(self) -> list[Pair]:
        """Return the figures of all pairs. Looks twice, a second apart, to see how much changes."""
        ahead = self._clocks()
        seen = self._traffic()
        return [
            self._pair(name, peer, seen, ahead)
            for name, facts in self.facts.items()
            for peer in sorted({*facts.members, *self.facts} - {name})
        ]

    def _clocks(self) -> dict[str, float]:
        """Return by how many seconds the clock of each region's server is ahead of this machine's."""
        found = {}
        for name, facts in self.facts.items():
            with self.noting(name):
                if facts.keys is not None:
                    began = time.time()
                    (raw,) = self._servers[name].ask([server_time(facts.keys.registries[0])])
                    found[name] = milliseconds_of(raw) / 1000 - (began + time.time()) / 2
        return found

    def _traffic(self) -> dict[str, Traffic]:
        used = {name: facts.keys for name, facts in self.facts.items() if facts.keys is not None}
        before: dict[str, tuple[float, list[int]]] = {}
        for name, keys in used.items():
            with self.noting(name):
                before[name] = time.monotonic(), versions(keys, self._servers[name])
        if before:
            time.sleep(_LOOK)
        seen: dict[str, Traffic] = {}
        for name, (at, since) in before.items():
            with self.noting(name):
                seen[name] = traffic(used[name], self._servers[name], name, since, time.monotonic() - at)
        return seen

    def _pair(self, name: str, peer: str, seen: Mapping[str, Traffic], ahead: Mapping[str, float]) -> Pair:
        facts = self.facts[name]
        state = facts.members.get(peer, "unknown")
        lacks: list[int] | None = None
        with self.noting(peer):
            check_alike({each: self.facts[each] for each in (name, peer) if each in self.facts})
            if peer in seen and state == MEMBER.decode():
                lacks = behind(self.facts[peer], self._servers[peer], name, facts)
        found = seen.get(peer, Traffic())
        beat = facts.heartbeat(peer)
        return Pair(
            region=name,
            peer=peer,
            state=state,
            lag=facts.lag(peer, self.facts.get(peer), lacks or ()),
            behind=None if lacks is None else sum(lacks),
            heartbeat=None if beat is None else max(0, facts.now - beat.at) / 1000,
            exchange=None if beat is None else beat.by.decode("utf-8", "replace"),
            clock_skew=round(ahead[peer] - ahead[name], 3) if {name, peer} <= ahead.keys() else None,
            bytes_per_entry=found.bytes,
            entries_per_second=found.per_second,
        )
