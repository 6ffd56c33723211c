"""Names of regions, and which of them exchange with which."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from redis_counters.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

Link = tuple[str, str]
"""Source and destination."""


def check_name(name: str) -> str:
    """Return the name of a region. Raises TypeError, UsageError."""
    if not isinstance(name, str):
        raise TypeError(f"a region's name must be a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise UsageError(f"a region's name must be 1 to 64 of A-Z a-z 0-9 . _ -, got {name!r}")
    return name


def check_links(links: Iterable[Link] | None, regions: Collection[str]) -> list[Link]:
    """Return the links, each once; by default everyone asks everyone. Raises TypeError, UsageError."""
    if links is None:
        return [(source, destination) for source in regions for destination in regions if source != destination]
    found: dict[Link, None] = {}
    for link in links:
        if isinstance(link, str) or len(tuple(link)) != 2:
            raise TypeError("links must be pairs of names: (source, destination)")
        source, destination = link
        for name in (source, destination):
            if name not in regions:
                raise UsageError(f"links: {name!r} is none of the regions")
        if source == destination:
            raise UsageError(f"links: {source!r} cannot be linked to itself")
        found[source, destination] = None
    return list(found)
