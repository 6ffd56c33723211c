"""A bucket's registry as values, and reading it, or a counter, in pieces."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, ErrorReply
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.shard_fields import pairs_of

CHUNK_SIZE = 250  # fields that are read at a time
STATES = {b"o": "open", b"c": "closed", b"f": "folded"}


class ActorRecord(NamedTuple):
    """An actor's record; ``seen``: the server's time of the last change, in epoch seconds."""

    actor: bytes
    state: bytes
    seq: int
    seen: int
    owner: bytes
    display: bytes

    @property
    def word(self) -> str:
        """The state for people."""
        return STATES.get(self.state, "unknown")

    @property
    def generation(self) -> bytes:
        """The generation of the registry that issued the actor."""
        return self.actor.partition(b".")[0]


def record_of(actor: bytes, raw: object) -> ActorRecord | None:
    """Return an actor's record out of its field; None if there is none, or it is unreadable."""
    parts = raw.split(b" ", 4) if isinstance(raw, bytes) else ()
    if len(parts) != 5 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return ActorRecord(actor, parts[0], int(parts[1]), int(parts[2]), parts[3], parts[4])


Located = tuple[int, ActorRecord]  # bucket and record


class RegistryPage:
    """A part of a registry: its records, and of its own fields those that came along."""

    __slots__ = ("generation", "records", "walked")

    def __init__(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        self.generation = b""
        self.walked = 0  # when the last complete walk over the bucket's counters began
        self.records: list[ActorRecord] = []
        for field, raw in fields:
            if field == b"g":
                self.generation = raw
            elif field == b"w" and raw.isdigit():
                self.walked = int(raw)
            elif is_actor(field) and (record := record_of(field, raw)) is not None:
                self.records.append(record)


def is_actor(field: bytes) -> bool:
    """True for an actor's id, as it stands in registries and, behind a sign, in slots."""
    return field.count(b".") == 2 and field[:1] != b"@" and field[:1] != b"~"


def hscan(key: bytes, cursor: bytes, count: int) -> Command:
    """Return the command that reads a part of a hash; a small hash comes whole."""
    return Command(None, (key,), (cursor, b"COUNT", count), b"HSCAN")


def scan(cursor: bytes, pattern: bytes, count: int, at: bytes) -> Command:
    """Return the command that reads a part of the names of all keys; of those on the server that has the key ``at``."""
    return Command(None, (), (cursor, b"MATCH", pattern, b"COUNT", count), b"SCAN", at)


def time(at: bytes) -> Command:
    """Return the command that asks for the time of the server that has this key."""
    return Command(None, (), (), b"TIME", at)


def time_of(raw: object) -> int:
    """Return the seconds out of the answer to `TIME`."""
    seconds = list_of(raw, 2)[0]
    if isinstance(seconds, int):
        return seconds
    if not isinstance(seconds, bytes) or not seconds.isdigit():
        raise BadReply("expected the time")
    return int(seconds)


def milliseconds_of(raw: object) -> int:
    """Return the milliseconds out of the answer to `TIME`."""
    seconds, micros = time_of(raw), list_of(raw, 2)[1]
    return seconds * 1000 + int(micros if isinstance(micros, (int, bytes)) else 0) // 1000


def scanned(raw: object, *, fields: bool) -> tuple[bytes, Any] | None:
    """Return the next cursor and a page: of names, or of a hash's fields, as a list or a dict of bytes.

    None for a key of another type.
    """
    if isinstance(raw, ErrorReply) and raw.code == "WRONGTYPE":
        return None
    cursor, page = list_of(raw, 2)
    if isinstance(page, dict) and fields:
        parts: list[object] = [part for pair in page.items() for part in pair]
    elif isinstance(page, list) and not (fields and len(page) % 2):
        parts = page
    else:
        raise BadReply("expected a cursor and a page")
    if not all(isinstance(part, bytes) for part in parts):
        raise BadReply("expected bytes")
    return (cursor if isinstance(cursor, bytes) else str(cursor).encode()), page


def actors_in(fields: list[bytes] | dict[bytes, bytes]) -> list[bytes]:
    """Return the actors that have slots among these fields of a shard."""
    names = fields[::2] if isinstance(fields, list) else fields
    return list(dict.fromkeys(name[:-1] for name in names if name[-1:] in (b"+", b"-") and is_actor(name)))


def all_records(registries: Sequence[bytes]) -> Generator[list[Command], list[object], tuple[int, list[Located]]]:
    """Return the server's time, and all records with their buckets. Cost: O(actors), in pieces."""
    (raw,) = yield [time(registries[0])]
    now, found = time_of(raw), dict[tuple[int, bytes], Located]()
    for bucket, registry in enumerate(registries):
        cursor, begun = b"0", False
        while not begun or cursor != b"0":
            begun = True
            (raw,) = yield [hscan(registry, cursor, CHUNK_SIZE)]
            page = scanned(raw, fields=True)
            if page is None:
                break
            cursor = page[0]
            found.update(
                ((bucket, record.actor), (bucket, record)) for record in RegistryPage(pairs_of(page[1], b"")).records
            )
    return now, list(found.values())
