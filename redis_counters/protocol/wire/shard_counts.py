"""How many shards a counter has: asked for, recorded in Redis, learned from there, grown to.

It only grows, unless it is made smaller from outside: see `reshard`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from redis_counters.errors import UsageError

MAX_SHARDS = 1024

Auto = Literal["auto"]
AUTO: Auto = "auto"  # one shard at first, more as the counter is written to more often: see `auto_shards`


def check_shards(option: str, shards: int) -> int:
    """Return a number of shards. Raises TypeError, UsageError."""
    if isinstance(shards, str):
        raise UsageError(f"{option} must be an int or 'auto', got {shards!r}")
    if isinstance(shards, bool) or not isinstance(shards, int):
        raise TypeError(f"{option} must be an int or 'auto', not {type(shards).__name__}")
    if not 1 <= shards <= MAX_SHARDS:
        raise UsageError(f"{option} must be between 1 and {MAX_SHARDS}, got {shards}")
    return int(shards)  # of an enumeration, too


def check_published(shards: int) -> None:
    """Raises ValueError for a number of shards that a counter of ours never has."""
    if shards > MAX_SHARDS:
        raise ValueError(f"field b'k' holds {shards}, which is more than {MAX_SHARDS} shards")


class Shards:
    """The number of shards per name: the largest of what a handle, the options, Redis and growth say.

    The options' mapping goes from name prefix to number; the longest prefix that fits counts.
    """

    __slots__ = ("asked", "auto", "default", "growing", "grows", "known", "learned", "prefixes", "single")

    def __init__(self, option: int | Auto | Mapping[str, int | Auto]) -> None:
        self.known: dict[bytes, int] = {}
        self.learned = 0  # how often a counter turned out to have more shards
        self.asked: set[bytes] = set()  # by a handle: not to be forgotten
        self.auto: set[bytes] = set()  # that a handle asked to grow by themselves
        self.prefixes: list[tuple[bytes, int, bool]] = []
        self.default, self.grows = 1, False
        if isinstance(option, Mapping):
            for prefix, shards in option.items():
                if not isinstance(prefix, (str, bytes)):
                    raise TypeError(f"shards must map prefixes that are str, not {type(prefix).__name__}")
                raw = prefix.encode() if isinstance(prefix, str) else prefix
                self.prefixes.append((raw, *_checked(f"shards[{prefix!r}]", shards)))
            self.prefixes.sort(key=lambda item: -len(item[0]))
        else:
            self.default, self.grows = _checked("shards", option)
        self.growing = self.grows or any(grows for _prefix, _shards, grows in self.prefixes)
        """True if any counter may grow by itself."""
        self.single = self.default == 1 and all(shards == 1 for _prefix, shards, _grows in self.prefixes)
        """True as long as every counter has one shard: the common case, which asks nothing per name."""

    def _configured(self, name: bytes) -> tuple[int, bool]:
        for prefix, shards, grows in self.prefixes:
            if name.startswith(prefix):
                return shards, grows
        return self.default, self.grows

    def of(self, name: bytes) -> int:
        """Return the number of shards to write to and to read, as far as is known."""
        if self.single:
            return 1
        configured = self._configured(name)[0]
        known = self.known.get(name, 1)
        return known if known > configured else configured

    def is_set(self, name: bytes) -> bool:
        """True if an option or a handle says that there are so many, and not Redis alone."""
        return name in self.asked or self._configured(name)[0] >= self.known.get(name, 1)

    def widths(self, names: Sequence[bytes]) -> list[int]:
        """As `of`, for many names."""
        if self.single:
            return [1] * len(names)
        if self.prefixes:
            return [self.of(name) for name in names]
        known, default = self.known.get, self.default
        return [max(known(name, 1), default) for name in names]

    def may_grow(self, name: bytes) -> bool:
        """True if the counter's number of shards is to follow from how often it is written to."""
        return self.growing and (name in self.auto or self._configured(name)[1])

    def learn(self, name: bytes, shards: int) -> None:
        """The counter has at least that many shards."""
        if shards > self.of(name):
            self.known[name] = shards
            self.learned += 1
            self.single = False

    def ask(self, name: bytes, shards: int | Auto) -> None:
        """As `learn`, by a handle; or the counter is to grow by itself."""
        if shards == AUTO:
            self.auto.add(name)
            self.growing = True
        else:
            self.asked.add(name)
            self.learn(name, shards)

    def lower(self, name: bytes, shards: int) -> None:
        """The counter has fewer shards than was learned from Redis. What handles and options say stays."""
        if name not in self.asked and self.known.get(name, 1) > shards:
            self.known[name] = shards

    def forget(self, name: bytes) -> None:
        """Learn the counter's number of shards again, when it is read."""
        if name not in self.asked:
            self.known.pop(name, None)


def _checked(option: str, shards: int | Auto) -> tuple[int, bool]:
    """Return a number of shards, and whether it is to grow. Raises TypeError, UsageError."""
    return (1, True) if isinstance(shards, str) and shards == AUTO else (check_shards(option, shards), False)
