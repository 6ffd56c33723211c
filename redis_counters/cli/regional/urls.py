"""The option ``--region NAME=URL`` of the commands that look at several regions, and their deployments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from redis_counters.drivers.redis_py.transports import transport_of
from redis_counters.drivers.transport import Transport
from redis_counters.drivers.urls import open_url
from redis_counters.errors import CounterError, UsageError
from redis_counters.protocol.wire.region_names import check_name

REGIONS_VARIABLE = "REDIS_COUNTERS_REGIONS"  # of the environment: NAME=URL NAME=URL ...

_TWO = re.compile(r"[,;][^,;=/]*=[a-z+]+://")  # URLs of Sentinels have commas too, but no other URL behind them

# show_default=False: URLs from the environment may hold passwords, and help would print them.
Regions = Annotated[
    list[str] | None,
    typer.Option(
        "--region",
        metavar="NAME=URL",
        envvar=REGIONS_VARIABLE,
        show_envvar=False,
        show_default=False,
        help=f"A region and its Redis; once for each region. Else ${REGIONS_VARIABLE}, with blanks between them.",
    ),
]


def urls_by_region(given: Sequence[str] | None, *, least: int = 2) -> dict[str, str]:
    """Return the URLs by name. Raises UsageError, which never repeats a URL: it may hold a password."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, url = text.partition("=")
        if not equals or "://" in name:
            raise UsageError("--region is NAME=URL, such as eu=redis://localhost:6379")
        try:
            check_name(name)
            if name in found:
                raise UsageError(f"{name} is named twice")
            if not url:
                raise UsageError(f"{name} has no URL")
            if _TWO.search(url):
                raise UsageError(f"between two regions in ${REGIONS_VARIABLE} stands a blank, and nothing else")
        except UsageError as error:
            raise UsageError(f"--region: {error}") from None
        found[name] = url
    if len(found) < least:
        wanted = "two regions" if least == 2 else "a region"
        raise UsageError(f"--region NAME=URL or ${REGIONS_VARIABLE}: {wanted} at least, got {len(found)}")
    return found


@contextmanager
def transports(urls: Mapping[str, str]) -> Iterator[dict[str, Transport]]:
    """The deployments by region, closed at the end. Raises: UsageError for a URL."""
    with ExitStack() as stack:
        found: dict[str, Transport] = {}
        for name, url in urls.items():
            with of_region(name):
                opened = open_url(url, asyncio=False)
            stack.callback(opened.stop_all)
            found[name] = transport_of(opened.client)
        yield found


@contextmanager
def of_region(name: str) -> Iterator[None]:
    """Errors of this library that are raised inside name the region."""
    try:
        yield
    except CounterError as error:
        error.args = (f"region {name}: {error}", *error.args[1:])
        raise
