"""``regions``: the members of an exchange and how far each is behind; adding, evicting and renewing one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Annotated

import typer

from redis_counters import Exchange
from redis_counters.cli import options, output
from redis_counters.cli.client import driven, opened
from redis_counters.cli.regional.facts import facts_of
from redis_counters.cli.regional.pairs import Collector, Pair
from redis_counters.cli.regional.urls import Regions, of_region, transports, urls_by_region
from redis_counters.drivers.identity import mint
from redis_counters.errors import UsageError
from redis_counters.protocol.exchange.joining import renew

COLUMNS = ["region", "peer", "state", "lag", "behind", "heartbeat", "clock", "bytes per entry", "entries per second"]


class Action(str, Enum):
    """The action on regions."""

    LIST = "list"
    ADD = "add"
    EVICT = "evict"
    RENEW = "renew"


def regions(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list, add, evict or renew.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names of regions; for list, of counters to compare."),
    ] = None,
    regions: Regions = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    as_json: options.Json = False,
) -> None:
    """Show the regions that exchange what they count, record a new one, or evict one.

    'list' shows of each region and each of its peers: the state; for how many seconds the oldest change of the peer
    that it lacks has been waiting (lag); how many entries it lacks (behind); how long ago an exchange reported that it
    had brought all (heartbeat); by how much the peer's clock is ahead; and how large and how many entries change at
    the peer. With NAMEs of counters also their values everywhere, and how far these are apart (read_skew).

    'add' records the regions NAME, without any all that are given, as members everywhere; also one that comes back.

    'evict' records the regions NAME as evicted: what they counted stays, nothing is exchanged with them any more.

    'renew' is for a region NAME that was restored from a backup: it gets back what the others have of it, and later
    counts there are added to that. Counting has to stop there meanwhile.
    """
    wanted = names or []
    urls = urls_by_region(regions, least=1)
    if action is Action.LIST:
        _list(urls, namespace, wanted, as_json=as_json)
    elif action is Action.RENEW:
        _renew(urls, namespace, wanted, as_json=as_json)
    else:
        _change(action, urls, namespace, wanted, as_json=as_json)


def _change(action: Action, urls: Mapping[str, str], namespace: str, names: list[str], *, as_json: bool) -> None:
    if action is Action.EVICT and not names:
        raise UsageError("evict which region? redis-counters regions evict NAME --region ...")
    if action is Action.ADD and (unknown := [name for name in names if name not in urls]):
        raise UsageError(f"--region: add needs the URL of {', '.join(unknown)}")
    with Exchange(urls, namespace=namespace) as exchange:
        if action is Action.ADD:
            exchange.add_regions({name: urls[name] for name in names or urls})
        else:
            for name in names:
                exchange.evict(name)
        found = exchange.regions()
    if as_json:
        rows = [{"region": each.name, "state": each.state, "error": each.error} for each in found.values()]
        output.print_json({"regions": rows})
    else:
        cells = [[each.name, each.state, output.printable(each.error or "")] for each in found.values()]
        output.print_table(["region", "state", "error"], cells, folded=["error"])


def _renew(urls: Mapping[str, str], namespace: str, names: list[str], *, as_json: bool) -> None:
    if len(names) != 1:
        raise UsageError("renew which region? redis-counters regions renew NAME --region ...")
    (name,) = names
    if name not in urls or len(urls) < 2:
        raise UsageError(f"--region: renew needs the URLs of {name} and of all others")
    with Exchange(urls, namespace=namespace) as exchange:
        exchange.run_once()  # brings back, and seals, what only the others know of
    with transports({name: urls[name]}) as servers, of_region(name):
        keys = driven(servers[name], facts_of(name, namespace)).keys
        renewed = driven(servers[name], renew(keys, mint()[:5].encode())) if keys is not None else 0
    if as_json:
        output.print_json({"region": name, "renewed": renewed})
    else:
        output.print_lines([f"{name} counts on under new dots, in {output.number_of(renewed, 'shard')}"])


def _list(urls: Mapping[str, str], namespace: str, names: list[str], *, as_json: bool) -> None:
    values: dict[str, dict[str, int]] = {name: {} for name in names}
    with transports(urls) as servers:
        collector = Collector(servers, namespace)
        pairs = collector.pairs()
    for region in collector.facts:
        with collector.noting(region), opened(urls[region], namespace, options.DEFAULT_REGION) as counters:
            for name in names:
                values[name][region] = int(counters.get(output.to_bytes(name), max_age=0))
    if as_json:
        counted = [{"name": name, "values": found, "read_skew": _skew(found, urls)} for name, found in values.items()]
        output.print_json(
            {"pairs": [pair._asdict() for pair in pairs], "counters": counted, "errors": collector.errors}
        )
    else:
        output.print_table(COLUMNS, map(_cells, pairs), numbers=COLUMNS[3:])
        columns = ["counter", *collector.facts, "read_skew"]
        cells = [
            [output.printable(name), *(_number(n) for n in (*map(found.get, collector.facts), _skew(found, urls)))]
            for name, found in values.items()
        ]
        if cells:
            output.print_table(columns, cells, numbers=columns[1:])
    for name, error in collector.errors.items():
        output.complain(f"region {name}: {error}")
    if collector.errors:
        raise typer.Exit(1)


def _cells(pair: Pair) -> list[str]:
    # Added to 0.0, a skew of -0.0 is no longer below zero.
    return [
        pair.region,
        pair.peer,
        pair.state,
        "never" if pair.lag is None else f"{pair.lag:.1f} s",
        _number(pair.behind),
        "none" if pair.heartbeat is None else f"{pair.heartbeat:.0f} s",
        "?" if pair.clock_skew is None else f"{round(pair.clock_skew, 1) + 0.0:+.1f} s",
        "" if pair.bytes_per_entry is None else f"{pair.bytes_per_entry:.0f}",
        "" if pair.entries_per_second is None else f"{pair.entries_per_second:,.0f}",
    ]


def _number(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _skew(values: Mapping[str, int], regions: Collection[str]) -> int | None:
    """Return how far the values of all regions are apart; None if some could not be read."""
    return max(values.values()) - min(values.values()) if len(values) == len(regions) else None
