"""How many shards a counter has: asked for, recorded in Redis, learned from there; it only grows."""

from __future__ import annotations

from collections.abc import Mapping

from redis_counters.errors import UsageError

MOST_SHARDS = 1024


def check_shards(option: str, shards: int) -> int:
    """Return a number of shards. Raises TypeError, UsageError."""
    if isinstance(shards, bool) or not isinstance(shards, int):
        raise TypeError(f"{option} must be an int, not {type(shards).__name__}")
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"{option} must be between 1 and {MOST_SHARDS}, got {shards}")
    return shards


def check_told(shards: int) -> None:
    """Raises ValueError for a number of shards that a counter of ours never has, whoever wrote it there."""
    if shards > MOST_SHARDS:
        raise ValueError(f"field b'k' holds {shards}, which is more than {MOST_SHARDS} shards")


class Shards:
    """The number of shards per name: the largest of what a handle, the options and Redis say.

    The options' mapping goes from name prefix to number; the longest prefix that fits counts.
    """

    __slots__ = ("asked", "default", "known", "prefixes", "single")

    def __init__(self, option: int | Mapping[str, int]) -> None:
        self.known: dict[bytes, int] = {}
        self.asked: set[bytes] = set()  # by a handle: not to be forgotten
        self.prefixes: list[tuple[bytes, int]] = []
        self.default = 1
        if isinstance(option, Mapping):
            for prefix, shards in option.items():
                if not isinstance(prefix, (str, bytes)):
                    raise TypeError(f"shards must map prefixes that are str, not {type(prefix).__name__}")
                raw = prefix.encode() if isinstance(prefix, str) else prefix
                self.prefixes.append((raw, check_shards(f"shards[{prefix!r}]", shards)))
            self.prefixes.sort(key=lambda item: -len(item[0]))
        else:
            self.default = check_shards("shards", option)
        self.single = self.default == 1 and not self.prefixes
        """True as long as every counter has one shard: the common case, which asks nothing per name."""

    def of(self, name: bytes) -> int:
        """Return the number of shards to write to and to read, as far as is known."""
        if self.single:
            return 1
        configured = self.default
        for prefix, shards in self.prefixes:
            if name.startswith(prefix):
                configured = shards
                break
        known = self.known.get(name, 1)
        return known if known > configured else configured

    def learn(self, name: bytes, shards: int) -> None:
        """The counter has at least that many shards."""
        if shards > self.of(name):
            self.known[name] = shards
            self.single = False

    def ask(self, name: bytes, shards: int) -> None:
        """As `learn`, by a handle."""
        self.asked.add(name)
        self.learn(name, shards)

    def forget(self, name: bytes) -> None:
        """What Redis said of the counter is to be learned again, when it is read."""
        if name not in self.asked:
            self.known.pop(name, None)
