"""What may be asked of Redis: the manifest of the scripts, and a command as a value.

The manifest is the typed twin of the headers in ``lua/``; ``tests/lua/test_manifest.py`` compares the two, and both
with what the scripts do. Script texts are read by ``drivers.lua_files``: nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

Argument = bytes | int

T = TypeVar("T")


class Script(Enum):
    """A script of ``lua/``, by its file's name."""

    NAMESPACE_OPEN = "namespace_open"
    ACTOR_OPEN = "actor_open"
    ACTOR_CLOSE = "actor_close"
    SLOTS_MERGE = "slots_merge"
    SLOTS_FOLD = "slots_fold"
    SLOTS_READ = "slots_read"
    ACTORS_REAP = "actors_reap"
    ACTORS_CLEAN = "actors_clean"
    JANITOR_LEASE = "janitor_lease"
    KEYED_OPEN = "keyed_open"
    ONCE_APPLY = "once_apply"
    LIKES_APPLY = "likes_apply"
    SLOTS_SEED = "slots_seed"


class Contract(NamedTuple):
    """A script's interface: leading keys and arguments by name, what may follow, and the words it answers.

    ``more_keys`` and ``more_args`` name what follows the leading ones, any number of times; empty: nothing may.
    """

    keys: tuple[str, ...]
    args: tuple[str, ...]
    replies: tuple[str, ...]
    more_keys: str = ""
    more_args: str = ""
    writes: bool = True


CONTRACTS: dict[Script, Contract] = {
    Script.NAMESPACE_OPEN: Contract(("meta",), ("schema", "buckets", "region"), ("OK",)),
    Script.ACTOR_OPEN: Contract(
        ("registry",), ("owner", "actor", "generation", "display", "delay"), ("OPEN", "FOLDED", "GONE")
    ),
    Script.ACTOR_CLOSE: Contract(("registry",), ("actor", "base"), ("OK", "FOLDED", "REGRESS", "UNKNOWN")),
    Script.SLOTS_MERGE: Contract(
        ("registry",),
        (
            "actor",
            "seq",
            "base",
            "exact",
            "fresh_plus",
            "fresh_minus",
            "known_plus",
            "known_minus",
            "floored_plus",
            "floored_minus",
            "widened",
            "expiring",
        ),
        ("OK", "STALE", "REGRESS", "CLOSED", "UNKNOWN", "MISSING"),
        more_keys="shards",
        more_args="values",
    ),
    Script.SLOTS_FOLD: Contract(
        ("registry",), ("actor", "delay"), ("OK", "OPEN", "EARLY", "UNKNOWN"), more_keys="shards"
    ),
    Script.SLOTS_READ: Contract((), (), (), more_keys="shards", writes=False),
    Script.ACTORS_REAP: Contract(("registry",), ("ttl",), ("OK",), more_args="actors"),
    Script.ACTORS_CLEAN: Contract(("registry",), ("walked", "retention"), ("OK",), more_args="actors"),
    Script.JANITOR_LEASE: Contract(("meta",), ("period",), ("OK", "LATER", "NONE")),
    Script.KEYED_OPEN: Contract(
        ("registry",), ("generation",), ("OK", "UNKNOWN"), more_keys="shards", more_args="wanted"
    ),
    Script.ONCE_APPLY: Contract(
        ("registry", "after", "slice", "before", "earlier"),
        ("generation", "length", "number", "ttl"),
        ("OK", "SLICE", "UNKNOWN"),
        more_keys="shards",
        more_args="values",
    ),
    Script.LIKES_APPLY: Contract(
        ("registry",), ("generation",), ("OK", "UNKNOWN"), more_keys="pairs", more_args="values"
    ),
    Script.SLOTS_SEED: Contract(
        ("registry",), ("generation",), ("OK", "UNKNOWN"), more_keys="shards", more_args="values"
    ),
}


class Command(NamedTuple):
    """One command to Redis: a script with its keys and arguments, or a plain command where ``script`` is None.

    A NamedTuple, because every read that asks Redis makes one, and a frozen dataclass takes three times as long.
    """

    script: Script | None
    keys: Sequence[bytes]
    args: Sequence[Argument] = ()
    plain: bytes = b""


def hgetall(key: bytes) -> Command:
    """Return the command that reads a whole hash."""
    return Command(None, (key,), (), b"HGETALL")


def hmget(key: bytes, fields: Sequence[bytes]) -> Command:
    """Return the command that reads some fields of a hash."""
    return Command(None, (key,), fields, b"HMGET")


class ErrorReply:
    """Redis answered a command with an error; ``text`` starts with its upper-case code."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def code(self) -> str:
        return self.text.split(" ", 1)[0]


def pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield as many as one command takes, one part after the other."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
