"""Requests to Redis: the manifest of the scripts, and a command as a value.

The manifest is the typed twin of the headers in ``lua/``; ``tests/lua/test_manifest.py`` compares the two, and both
with what the scripts do. Their texts are read by `scripts`: nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from redis_counters.errors import CounterError

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
    BOUNDED_APPLY = "bounded_apply"
    SHARDS_WIDEN = "shards_widen"
    NARROW_OPEN = "narrow_open"
    SHARD_SEAL = "shard_seal"
    SHARD_UNSEAL = "shard_unseal"
    NARROW_APPLY = "narrow_apply"
    SHARD_RESET = "shard_reset"
    SHARD_RENEW = "shard_renew"
    SHARD_FLOOR = "shard_floor"
    CHANGES_LIST = "changes_list"
    NOTES_ENTER = "notes_enter"
    DOTS_SETTLE = "dots_settle"
    ENTRIES_READ = "entries_read"
    ENTRIES_MERGE = "entries_merge"
    ENTRIES_DIGEST = "entries_digest"
    ENTRIES_DROP = "entries_drop"
    REGION_JOIN = "region_join"
    MEMBERS_SET = "members_set"
    MARKS_SET = "marks_set"
    EXCHANGE_BEAT = "exchange_beat"
    ENTRIES_FORGET = "entries_forget"


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
        ("registry", "index"), ("owner", "actor", "generation", "display", "delay"), ("OPEN", "FOLDED", "GONE")
    ),
    Script.ACTOR_CLOSE: Contract(("registry",), ("actor", "base"), ("OK", "FOLDED", "REGRESS", "UNKNOWN")),
    Script.SLOTS_MERGE: Contract(
        ("registry", "index"),
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
        ("OK", "STALE", "REGRESS", "CLOSED", "UNKNOWN", "MISSING", "SEALED"),
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
        ("registry", "index"), ("generation",), ("OK", "UNKNOWN"), more_keys="shards", more_args="wanted"
    ),
    Script.ONCE_APPLY: Contract(
        ("registry", "index", "after", "slice", "before", "earlier"),
        ("generation", "length", "number", "ttl"),
        ("OK", "SLICE", "UNKNOWN"),
        more_keys="shards",
        more_args="values",
    ),
    Script.LIKES_APPLY: Contract(
        ("registry", "index"), ("generation",), ("OK", "UNKNOWN"), more_keys="pairs", more_args="values"
    ),
    Script.SLOTS_SEED: Contract(
        ("registry", "index"), ("generation",), ("OK", "UNKNOWN"), more_keys="shards", more_args="values"
    ),
    Script.BOUNDED_APPLY: Contract(
        (
            "registry",
            "index",
            "after",
            "slice",
            "before",
            "earlier",
            "brief_after",
            "brief_slice",
            "brief_before",
            "brief_earlier",
        ),
        ("generation", "length", "number", "ttl", "brief_length", "brief_number", "brief_ttl"),
        ("OK", "SLICE", "UNKNOWN"),
        more_keys="counters",
        more_args="values",
    ),
    Script.SHARDS_WIDEN: Contract(
        ("registry", "index"), ("generation", "wanted"), ("OK", "UNKNOWN"), more_keys="shards"
    ),
    Script.NARROW_OPEN: Contract(
        ("registry", "shard"), ("wanted",), ("OK", "FEW", "KEYED", "EXPIRES", "JOINED", "UNKNOWN")
    ),
    Script.SHARD_SEAL: Contract(("shard",), ("id",), ("OK", "BUSY", "EXPIRES", "ODD")),
    Script.SHARD_UNSEAL: Contract(("shard",), ("id",), ("OK", "OTHER")),
    Script.NARROW_APPLY: Contract(("registry", "shard"), ("id", "wanted"), ("OK", "VOID"), more_args="values"),
    Script.SHARD_FLOOR: Contract(("registry", "index", "shard"), ("dot", "plus", "minus"), ("OK", "UNJOINED")),
    Script.SHARD_RENEW: Contract(("registry", "index", "shard"), ("generation",), ("OK", "UNJOINED")),
    Script.SHARD_RESET: Contract(("registry", "index", "shard", "users"), ("delete",), ("OK",)),
    Script.CHANGES_LIST: Contract(
        ("registry", "marks", "merged", "index"),
        ("peer", "mark", "most"),
        ("OK", "OTHERS", "UNJOINED"),
        more_keys="others",
    ),
    Script.NOTES_ENTER: Contract(("registry", "index"), ("most",), ("OK",)),
    Script.DOTS_SETTLE: Contract(("registry", "index"), (), ("OK", "UNJOINED"), more_keys="shards"),
    Script.ENTRIES_READ: Contract(("index",), ("region", "without", "shown"), (), more_keys="shards", writes=False),
    Script.ENTRIES_MERGE: Contract(
        ("registry", "marks", "index", "merged"),
        ("source", "since", "mark", "region"),
        ("OK", "OTHER", "UNJOINED"),
        more_keys="shards",
        more_args="texts",
    ),
    Script.ENTRIES_DIGEST: Contract((), ("region",), ("OK",), more_keys="shards", writes=False),
    Script.ENTRIES_DROP: Contract(
        ("registry", "marks", "index"),
        ("indexes", "peers"),
        ("OK", "OTHERS", "UNJOINED"),
        more_keys="others",
        more_args="names",
    ),
    Script.REGION_JOIN: Contract(("registry", "index"), ("generation",), ("OK",), more_keys="shards"),
    Script.MEMBERS_SET: Contract(("meta",), ("region", "id"), ("OK", "BOUND"), more_args="members"),
    Script.MARKS_SET: Contract(("marks",), (), ("OK",), more_args="values"),
    Script.EXCHANGE_BEAT: Contract(("marks",), ("source", "by", "clock", "every"), ("OK",)),
    Script.ENTRIES_FORGET: Contract((), (), ("OK",), more_keys="shards"),
}


class Command(NamedTuple):
    """One command to Redis: a script with its keys and arguments, or a plain command where ``script`` is None.

    A NamedTuple, because every read that asks Redis makes one, and a frozen dataclass takes three times as long.
    """

    script: Script | None
    keys: Sequence[bytes]
    args: Sequence[Argument] = ()
    plain: bytes = b""
    at: bytes = b""  # of a command without keys: the key whose server is meant, where there are several


class Question(list[Command]):
    """Commands that are asked together, and work to do while waiting for the replies.

    The sender may call ``meanwhile``, once, with any lock or none, while they are in flight. If it does not, the asker
    does that work then.
    """

    __slots__ = ("meanwhile",)
    meanwhile: Callable[[], None]

    @classmethod
    def of(cls, commands: Iterable[Command], meanwhile: Callable[[], None]) -> Question:
        """(A method of list's own makes it: one in Python would take as long as all the rest of a short question.)"""
        made = cls(commands)
        made.meanwhile = meanwhile
        return made


def sent(commands: Sequence[Command]) -> None:
    """All of them are on their way."""
    if isinstance(commands, Question):
        commands.meanwhile()


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


def is_unknown_script(answer: object) -> bool:
    """True if Redis does not know the script of a command: it has not run, and is to be sent again with its text."""
    return isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT"


class NoAnswer:
    """There will be none, the connection broke; it may have been applied. The others of a lane are not concerned."""

    __slots__ = ("error",)

    def __init__(self, error: CounterError) -> None:
        self.error = error


def pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield as many as one command takes, one part after the other."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
