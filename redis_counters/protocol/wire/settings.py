"""The options of a client, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from redis_counters.errors import UsageError
from redis_counters.protocol.wire.durability import Durability, check_durability
from redis_counters.protocol.wire.keys import DEFAULT_BUCKETS, MAX_BUCKETS, namespace_bytes
from redis_counters.protocol.wire.options import DEFAULTS, JOURNAL_MODES, ON_FULL, Options, check_names
from redis_counters.protocol.wire.region_names import check_name
from redis_counters.protocol.wire.shard_counts import Auto, Shards

MAX_BATCH = 2_000  # a script blocks the others: this many counters take a few milliseconds


if TYPE_CHECKING:
    from typing_extensions import Unpack


class Settings(NamedTuple):
    """Options as documented on the page "Options". Units: seconds, counters, slots."""

    namespace: bytes
    region: bytes
    display: bytes
    shards: int | Auto | Mapping[str, int | Auto]
    shard_rate: float
    flush_interval: float
    max_batch: int
    max_pending: int
    block_when_full: bool
    max_age: float
    durability: Durability | None
    journal: str | None
    journal_always: bool
    reassert_window: float
    actor_ttl: float
    retention: float
    buckets: int
    rotate_slots: int
    rotate_age: float

    @property
    def delay(self) -> int:
        """Return how long after it was closed an actor may be taken back, and is not folded by others.

        In whole seconds of the server's clock. More than a fail-over may take back: so a folded actor was closed
        in every past, and for so long that nothing opens it again, whatever copies of commands arrive.
        """
        return math.ceil(2 * self.reassert_window) or 1


def make_settings(**options: Unpack[Options]) -> Settings:
    """Return the options, checked. Raises TypeError or UsageError, each naming the option."""
    check_names("make_settings()", options)
    chosen: Options = {**DEFAULTS, **options}
    actor, buckets = chosen["actor"], chosen["buckets"]
    journal, journal_mode = chosen["journal"], chosen["journal_mode"]
    _one_of("on_full", chosen["on_full"], ON_FULL)
    _one_of("journal_mode", chosen["journal_mode"], JOURNAL_MODES)
    if journal is None and journal_mode != "interval":
        raise UsageError("journal_mode='always' needs a journal: give its directory")
    if journal is not None and not isinstance(journal, str):
        raise TypeError(f"journal must be a path or None, not {type(journal).__name__}")
    return Settings(
        namespace=namespace_bytes(chosen["namespace"]),
        region=check_name(chosen["region"]).encode(),
        display=_text("actor", "" if actor is None else actor)[:200],
        shards=_shards(chosen["shards"]),
        shard_rate=_finite("shard_rate", "updates a second", chosen["shard_rate"], above=0.0),
        flush_interval=_seconds("flush_interval", chosen["flush_interval"], above=0.0),
        max_batch=_whole("max_batch", chosen["max_batch"], 1, MAX_BATCH),
        max_pending=_whole("max_pending", chosen["max_pending"], 1, 2**53),
        block_when_full=chosen["on_full"] == "block",
        max_age=check_age("max_age", chosen["max_age"]),
        durability=check_durability(chosen["durability"]),
        journal=journal,
        journal_always=journal is not None and journal_mode == "always",
        reassert_window=_seconds("reassert_window", chosen["reassert_window"]),
        actor_ttl=_seconds("actor_ttl", chosen["actor_ttl"], above=0.0),
        retention=_seconds("retention", chosen["retention"]),
        buckets=_whole("buckets", DEFAULT_BUCKETS if buckets is None else buckets, 1, MAX_BUCKETS),
        rotate_slots=_whole("rotate_slots", chosen["rotate_slots"], 1, 2**53),
        rotate_age=_seconds("rotate_age", chosen["rotate_age"], above=0.0),
    )


def check_age(option: str, value: float) -> float:
    """Return an age in seconds; infinity is allowed. Raises TypeError, UsageError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{option} must be a number of seconds, not {type(value).__name__}")
    if not value >= 0:  # a NaN is not either
        raise UsageError(f"{option} must not be negative, got {value}")
    return float(value)


def checked_age(value: float | None, option: str = "max_age") -> float | None:
    """Return an age in seconds, or None where none was given. Raises TypeError, UsageError."""
    return None if value is None else check_age(option, value)


def _one_of(option: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{option} must be {' or '.join(map(repr, allowed))}, got {value!r}")


def _shards(option: int | Auto | Mapping[str, int | Auto]) -> int | Auto | Mapping[str, int | Auto]:
    Shards(option)  # raises what is wrong with it
    return dict(option) if isinstance(option, Mapping) else option


def _seconds(option: str, value: float, *, above: float = -1.0) -> float:
    return _finite(option, "seconds", check_age(option, value), above=above)


def _finite(option: str, unit: str, value: float, *, above: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{option} must be a number, not {type(value).__name__}")
    if not above < value < math.inf:
        raise UsageError(f"{option} must be a finite number of {unit} above {max(above, 0):g}, got {value}")
    return float(value)


def _whole(option: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{option} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise UsageError(f"{option} must be between {least} and {most}, got {value}")
    return int(value)  # of an enumeration, too


def _text(option: str, value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{option} must be a str, not {type(value).__name__}")
    return value.encode("utf-8", "replace")
