"""The options of a client, declared here once: their names and types, and below their defaults.

What `Counters()`, `from_url` and the integrations take, and what `make_settings` checks, follows from it;
the page "Options" says what each one means, and a test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args

from redis_counters.protocol.wire.shard_counts import Auto

if TYPE_CHECKING:
    import os

    from redis_counters.events import Event
    from redis_counters.protocol.wire.durability import Durability

F = TypeVar("F", bound=Callable[..., Any])

OnFull = Literal["raise", "block"]
JournalMode = Literal["interval", "always"]
ON_FULL: tuple[OnFull, ...] = get_args(OnFull)
JOURNAL_MODES: tuple[JournalMode, ...] = get_args(JournalMode)

SAFE_RATE = 2_500.0  # updates a second of one shard: page "Shard a hot counter" has how it was measured


class Options(TypedDict, total=False):
    """The options of `Counters`. Units: seconds, counters, slots."""

    namespace: str
    region: str
    actor: str | None
    shards: int | Auto | Mapping[str, int | Auto]
    shard_rate: float
    flush_interval: float
    max_batch: int
    max_pending: int
    on_full: OnFull
    max_age: float
    durability: Durability | None
    journal: str | os.PathLike[str] | None
    journal_mode: JournalMode
    reassert_window: float
    actor_ttl: float
    retention: float
    buckets: int | None
    rotate_slots: int
    rotate_age: float
    observer: Callable[[Event], None] | None


class OptionsAndUrl(Options, total=False):
    """The same, and where Redis is: what the extensions of frameworks take."""

    url: str | None


DEFAULTS: Options = {
    "namespace": "rc",
    "region": "main",
    "actor": None,
    "shards": 1,
    "shard_rate": SAFE_RATE,
    "flush_interval": 0.1,
    "max_batch": 500,
    "max_pending": 1_000_000,
    "on_full": "raise",
    "max_age": 1.0,
    "durability": None,
    "journal": None,
    "journal_mode": "interval",
    "reassert_window": 60.0,
    "actor_ttl": 3600.0,
    "retention": 86400.0,
    "buckets": None,
    "rotate_slots": 10_000,
    "rotate_age": 3600.0,
    "observer": None,
}


def check_names(what: str, options: Iterable[str], known: Collection[str] = DEFAULTS, hint: str = "") -> None:
    """Raises TypeError for an option that is not known, and says which one may be meant, or ``hint``."""
    unknown = next((name for name in options if name not in known), None)
    if unknown is None:
        return
    from difflib import get_close_matches  # imported only where something is wrong

    meant = get_close_matches(unknown, known, n=1, cutoff=0.8)
    raise TypeError(f"{what} has no option {unknown!r}{f'; is it {meant[0]!r}?' if meant else hint}")


def takes_options(init: F) -> F:
    """A constructor that takes a client and ``**options`` shows all of them in its signature, by which help() goes."""
    first, client, _options = inspect.signature(init).parameters.values()
    each = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_written_out(name))
        for name, default in DEFAULTS.items()
    ]
    init.__signature__ = inspect.Signature([first, client, *each], return_annotation="None")  # type: ignore[attr-defined]
    return init


def _written_out(name: str) -> str:
    """Return the type of an option as it is declared, with the values of each Literal."""
    hint = Options.__annotations__[name]
    text = str(getattr(hint, "__forward_arg__", hint))
    for alias, literal in (("OnFull", OnFull), ("JournalMode", JournalMode), ("Auto", Auto)):
        text = re.sub(rf"\b{alias}\b", str(literal).removeprefix("typing."), text)
    return text
