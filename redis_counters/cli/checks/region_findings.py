"""The findings of ``doctor`` about clocks, and about the exchange between regions, by its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import redis

from redis_counters.cli.checks.findings import OK, WARNING, Finding, cut
from redis_counters.drivers.transport import Transport
from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.heartbeats import Beat, beats_in
from redis_counters.protocol.exchange.members import MEMBER
from redis_counters.protocol.wire.commands import hgetall
from redis_counters.protocol.wire.keys import KeySpace, meta_key
from redis_counters.protocol.wire.registry import milliseconds_of
from redis_counters.protocol.wire.registry import time as time_of_server
from redis_counters.protocol.wire.shard_fields import pairs_of

_APART = 2.0  # seconds from which on clocks do not agree


def clocks_and_exchange(
    servers: Mapping[str, redis.Redis], deployment: Transport, looked_up: KeySpace | CounterError | None
) -> list[Finding]:
    """Return findings of clocks, and, in a namespace that regions exchange, of its exchanges.

    None where a server may not be asked: there is another finding of that.
    """
    ahead = {address: by for address, one in servers.items() if (by := _ahead(one)) is not None}
    if not isinstance(looked_up, KeySpace):
        return [clock(ahead, {})] if ahead else []
    try:
        meta, marks, at = deployment.ask(
            [hgetall(meta_key(looked_up.namespace)), hgetall(looked_up.marks(0)), time_of_server(looked_up.marks(0))]
        )
        members, now = dict(pairs_of(meta, b"")), milliseconds_of(at)
        beats = beats_in(dict(pairs_of(marks, b"")))
    except CounterError:  # a permission, of which there is a line
        return [clock(ahead, {})] if ahead else []
    if b"id" not in members:
        return [clock(ahead, {})]
    own = b"m:" + members.get(b"region", b"")
    states = {f: raw.partition(b" ")[2] for f, raw in members.items() if f.startswith(b"m:") and f != own}
    peers = [_shown(field[2:]) for field, state in states.items() if state == MEMBER]
    latest = {_shown(beat.source): beat.skew for beat in reversed(beats)}
    skews = {name: latest[name] for name in peers if name in latest}
    return [clock(ahead, skews), *([exchange(peers, beats, now)] if peers else [])]


def _ahead(server: redis.Redis) -> float | None:
    """Return by how many seconds a server's clock is ahead of this machine's; None if it may not be asked."""
    began = time.time()
    try:
        seconds, micros = server.time()
    except redis.ResponseError:
        return None
    return float(seconds + micros / 1e6 - (began + time.time()) / 2)


def clock(ahead: Mapping[str, float], peers: Mapping[str, float]) -> Finding:
    """Return whether the servers' clocks agree with this machine's, and those of other regions with this one's.

    Both: the seconds by which that clock is ahead, by address or name.
    """
    texts = [_apart(f"the server's{' at ' + at if at else ''}", by, "this machine's") for at, by in ahead.items()]
    texts += [_apart(f"that of region {name}", by, "this region's") for name, by in peers.items()]
    apart = [text for text in texts if text]
    if apart:
        advice = "Set clocks by NTP: a counter with expire_at expires by its server's clock, each region's by its own."
        return Finding("clock", WARNING, cut("; ".join(apart)), advice)
    regions = f", and so do those of {', '.join(peers)}" if peers else ""
    return Finding("clock", OK, f"agrees with this machine's within {_APART:.0f} s{regions}")


def _apart(whose: str, by: float, other: str) -> str:
    if abs(by) < _APART:
        return ""
    return f"{whose} is {abs(by):,.0f} s {'ahead of' if by > 0 else 'behind'} {other}"


def exchange(peers: Iterable[str], beats: Iterable[Beat], now: int) -> Finding:
    """Return whether exchanges bring this region what its peers count. ``now``: of its server, epoch milliseconds."""
    last: dict[str, Beat] = {}
    for beat in beats:
        last.setdefault(_shown(beat.source), beat)
    missing = []
    for name in peers:
        if name not in last:
            missing.append(f"of {name}: none was ever heard of")
        elif last[name].late(now):
            ago, by = (now - last[name].at) / 1000, _shown(last[name].by)
            missing.append(f"of {name}: last heard of {ago:,.0f} s ago, from {by}")
    if missing:
        advice = "Start redis-counters exchange with all regions; if one runs, see what it says."
        return Finding("exchange", WARNING, cut("no exchange brings what is counted; " + "; ".join(missing)), advice)
    names = {_shown(beat.by) for beat in last.values()}
    oldest = max(((now - beat.at) / 1000 for name, beat in last.items() if name in set(peers)), default=0.0)
    return Finding("exchange", OK, f"heard of {oldest:,.0f} s ago at most, from {', '.join(sorted(names))}")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")
