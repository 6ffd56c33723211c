"""``regions``: who takes part in an exchange, how far each is behind, and who is to take part or no more."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, NamedTuple

import typer
from redis.exceptions import RedisError

from redis_counters import Exchange, RegionStatus
from redis_counters.cli import options, output
from redis_counters.cli.actors import driven
from redis_counters.cli.client import opened
from redis_counters.cli.regional.facts import Facts, check_alike, facts_of
from redis_counters.cli.regional.traffic import Traffic, behind, traffic, versions
from redis_counters.cli.regional.urls import Regions, of_region, transports, urls_by_region
from redis_counters.drivers.identity import mint
from redis_counters.drivers.transport import Transport
from redis_counters.errors import CounterError, UsageError
from redis_counters.protocol.exchange.joining import renew
from redis_counters.protocol.exchange.members import MEMBER
from redis_counters.protocol.wire.registry import milliseconds_of
from redis_counters.protocol.wire.registry import time as server_time

COLUMNS = ["region", "peer", "state", "lag", "behind", "heartbeat", "clock", "bytes per entry", "entries per second"]
_NUMBERS = COLUMNS[3:]
_LOOK = 1.0  # seconds in which entries that change are counted


class Action(str, Enum):
    """What to do."""

    LIST = "list"
    ADD = "add"
    EVICT = "evict"
    RENEW = "renew"


class Row(NamedTuple):
    """What a region has of a peer. ``behind``: entries that changed there and are not here yet; None: not known.

    ``heartbeat``: how many seconds ago an exchange said last that it has brought all; ``exchange``: which one.
    ``clock_skew``: seconds by which the peer's clock is ahead.
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


def regions(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list, add, evict or renew.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names of regions; for list, of counters whose skew is to be shown."),
    ] = None,
    regions: Regions = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    as_json: options.Json = False,
) -> None:
    """Show the regions that exchange what they count, record a new one, or say that one takes part no more.

    'list' shows of each region and each of its peers: the state; for how many seconds the oldest change of the peer
    that it lacks has been waiting (lag); how many entries it lacks (behind); how long ago an exchange said that it has
    brought all (heartbeat); by how much the peer's clock is ahead; and how large and how many entries change at the
    peer. With NAMEs of counters also their values everywhere, and how far these are apart (read_skew).

    'add' records the regions NAME, without any all that are given, as members everywhere; also one that comes back.

    'evict' records the regions NAME as evicted: what they counted stays, nothing is exchanged with them any more.

    'renew' is for a region NAME that was restored from a backup: it gets back what the others have of it, and what is
    counted there from then on is added to that. Nobody may count there meanwhile.
    """
    wanted = names or []
    urls = urls_by_region(regions, least=1)
    if action is Action.LIST:
        _list(urls, namespace, wanted, as_json=as_json)
        return
    if action is Action.EVICT and not wanted:
        raise UsageError("evict whom? redis-counters regions evict NAME --region ...")
    if action is Action.RENEW:
        _renew(urls, namespace, wanted, as_json=as_json)
        return
    if action is Action.ADD and (unknown := [name for name in wanted if name not in urls]):
        raise UsageError(f"--region: add needs the URL of {', '.join(unknown)}")
    exchange = Exchange(urls, namespace=namespace)
    try:
        if action is Action.ADD:
            exchange.add_regions({name: urls[name] for name in wanted or urls})
        else:
            for name in wanted:
                exchange.evict(name)
        found = exchange.regions()
    finally:
        exchange.close()
    _tell(found, as_json=as_json)


def _renew(urls: Mapping[str, str], namespace: str, names: list[str], *, as_json: bool) -> None:
    if len(names) != 1:
        raise UsageError("renew whom? redis-counters regions renew NAME --region ...")
    if names[0] not in urls or len(urls) < 2:
        raise UsageError(f"--region: renew needs the URLs of {names[0]} and of all others")
    (name,) = names
    exchange = Exchange(urls, namespace=namespace)
    try:
        exchange.run_once()  # what nobody but the others knows of lies there then, and is sealed too
    finally:
        exchange.close()
    with transports({name: urls[name]}) as servers, of_region(name):
        keys = driven(servers[name], facts_of(name, namespace)).keys
        renewed = driven(servers[name], renew(keys, mint()[:5].encode())) if keys is not None else 0
    if as_json:
        output.print_json({"region": name, "renewed": renewed})
    else:
        output.print_lines([f"{name} counts on under new dots, in {output.number_of(renewed, 'shard')}".encode()])


def _tell(found: Mapping[str, RegionStatus], *, as_json: bool) -> None:
    if as_json:
        rows = [{"region": told.name, "state": told.state, "error": told.error} for told in found.values()]
        output.print_json({"regions": rows})
    else:
        cells = [[told.name, told.state, output.printable((told.error or "").encode())] for told in found.values()]
        output.print_table("", ["region", "state", "error"], cells, folded=["error"])


def _list(urls: Mapping[str, str], namespace: str, names: list[str], *, as_json: bool) -> None:
    errors: dict[str, str] = {}
    values: dict[str, dict[str, int]] = {name: {} for name in names}
    with transports(urls) as servers:
        facts = _facts(servers, namespace, errors)
        rows = _rows(facts, servers, errors, clocks(facts, servers, errors))
    for region in facts:
        with _told(region, errors), opened(urls[region], namespace, options.DEFAULT_REGION) as counters:
            for name in names:
                values[name][region] = int(counters.get(output.to_bytes(name), max_age=0))
    if as_json:
        output.print_json(
            {
                "pairs": [row._asdict() for row in rows],
                "counters": [
                    {"name": name, "values": found, "read_skew": _skew(found, urls)} for name, found in values.items()
                ],
                "errors": errors,
            }
        )
    else:
        output.print_table("", COLUMNS, [_cells(row) for row in rows], numbers=_NUMBERS)
        columns = ["counter", *facts, "read_skew"]
        cells = [
            [
                output.printable(output.to_bytes(name)),
                *(_told_number(found.get(r)) for r in facts),
                _told_number(_skew(found, urls)),
            ]
            for name, found in values.items()
        ]
        if cells:
            output.print_table("", columns, cells, numbers=columns[1:])
    for name, error in errors.items():
        output.complain(f"region {name}: {error}")
    if errors:
        raise typer.Exit(1)


def _facts(servers: Mapping[str, Transport], namespace: str, errors: dict[str, str]) -> dict[str, Facts]:
    found = {}
    for name, server in servers.items():
        with _told(name, errors):
            found[name] = driven(server, facts_of(name, namespace))
    return found


def clocks(facts: Mapping[str, Facts], servers: Mapping[str, Transport], errors: dict[str, str]) -> dict[str, float]:
    """Return by how many seconds the clock of each region's server is ahead of this machine's."""
    found = {}
    for name, told in facts.items():
        with _told(name, errors):
            if told.keys is not None:
                began = time.time()
                (raw,) = servers[name].ask([server_time(told.keys.registries[0])])
                found[name] = milliseconds_of(raw) / 1000 - (began + time.time()) / 2
    return found


def _rows(
    facts: Mapping[str, Facts], servers: Mapping[str, Transport], errors: dict[str, str], ahead: Mapping[str, float]
) -> list[Row]:
    """What each region has of its peers. Looks twice, a second apart, so as to see how much changes."""
    before: dict[str, tuple[float, list[int]]] = {}
    for name, told in facts.items():
        with _told(name, errors):
            if told.keys is not None:
                before[name] = time.monotonic(), versions(told.keys, servers[name])
    if before:
        time.sleep(_LOOK)
    seen: dict[str, Traffic] = {}
    for name, (at, since) in before.items():
        keys = facts[name].keys
        with _told(name, errors):
            if keys is not None:
                seen[name] = traffic(keys, servers[name], name, since, time.monotonic() - at)
    rows = []
    for name, told in facts.items():
        for peer in sorted({*told.members, *facts} - {name}):
            lacks: list[int] | None = None
            with _told(peer, errors):
                check_alike({each: facts[each] for each in (name, peer) if each in facts})
                if peer in seen and told.members.get(peer) == MEMBER.decode():
                    lacks = behind(facts[peer], servers[peer], name, told)
            found = seen.get(peer, Traffic())
            state = told.members.get(peer, "unknown")
            beat = told.heartbeat(peer)
            rows.append(
                Row(
                    region=name,
                    peer=peer,
                    state=state,
                    lag=told.lag(peer, facts.get(peer), lacks or ()),
                    behind=None if lacks is None else sum(lacks),
                    heartbeat=None if beat is None else max(0, told.now - beat.at) / 1000,
                    exchange=None if beat is None else beat.by.decode("utf-8", "replace"),
                    clock_skew=round(ahead[peer] - ahead[name], 3) if {name, peer} <= ahead.keys() else None,
                    bytes_per_entry=found.bytes,
                    entries_per_second=found.per_second,
                )
            )
    return rows


@contextmanager
def _told(region: str, errors: dict[str, str]) -> Iterator[None]:
    """What goes wrong with a region is told of it, and does not keep the others from being looked at."""
    try:
        yield
    except (CounterError, RedisError) as error:
        errors.setdefault(region, str(error))


def _cells(row: Row) -> list[str]:
    # Added to 0.0, a skew of -0.0 is no longer below zero.
    return [
        row.region,
        row.peer,
        row.state,
        "never" if row.lag is None else f"{row.lag:.1f} s",
        _told_number(row.behind),
        "none" if row.heartbeat is None else f"{row.heartbeat:.0f} s",
        "?" if row.clock_skew is None else f"{round(row.clock_skew, 1) + 0.0:+.1f} s",
        "" if row.bytes_per_entry is None else f"{row.bytes_per_entry:.0f}",
        "" if row.entries_per_second is None else f"{row.entries_per_second:,.0f}",
    ]


def _told_number(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _skew(values: Mapping[str, int], regions: Collection[str]) -> int | None:
    """By how much the values of all regions differ; None if some could not be read."""
    return max(values.values()) - min(values.values()) if len(values) == len(regions) else None
