"""How shards are asked for, and their fields as they come: a map, a flat list, or the text of slots_read."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from redis_counters.errors import WrongType
from redis_counters.protocol.answers import list_of
from redis_counters.protocol.commands import Command, ErrorReply, Script, hgetall, pieces
from redis_counters.protocol.permissions import named_text
from redis_counters.protocol.refusals import error_for
from redis_counters.protocol.replies import BadReply
from redis_counters.protocol.values import name_shown

MOST_KEYS = 500  # shards that one script reads
CROWD = 64  # fields of a shard from which on its actors are looked at: some may be gone


def ask_for(keys: list[bytes]) -> Generator[list[Command], list[object], list[object]]:
    """Return the fields of these shards, as they come, in one round trip. Raises BadReply, and what Redis refuses."""
    if len(keys) == 1:
        return (yield [hgetall(keys[0])])
    answers = yield [Command(Script.SLOTS_READ, part) for part in pieces(keys, MOST_KEYS)]
    texts = list_of(answers[0]) if len(answers) == 1 else [text for part in answers for text in list_of(part)]
    if len(texts) != len(keys):
        raise BadReply(f"expected the texts of {len(keys)} shards, got {len(texts)}")
    return texts


def pairs_of(raw: object, name: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Return the fields of a hash, from a map (RESP3), a flat list (RESP2) or the text of slots_read."""
    if isinstance(raw, bytes):
        if raw[:1] != b"!":
            parts = raw.split(b" ")
            if len(parts) % 2 and raw:  # a blank inside of one: whoever put it there, it was not us
                raise ValueError(f"{len(parts)} names and values of fields, which is an odd number")
            texts = iter(parts)
            return zip(texts, texts)  # noqa: B905 - an empty text is one part, and no field
        raw = ErrorReply(named_text(raw[1:].decode("utf-8", "replace"), ("HGETALL",)))  # all that slots_read calls
    if isinstance(raw, dict):
        return raw.items()
    if isinstance(raw, list):
        return zip(raw[::2], raw[1::2], strict=True)
    if not isinstance(raw, ErrorReply):
        raise BadReply(f"expected a map, got {type(raw).__name__}")
    if raw.code == "WRONGTYPE":
        raise WrongType(f"counter {name_shown(name)!r}: {raw.text}", counter=name)
    raise error_for(raw, None)


def is_crowded(raw: object) -> bool:
    """True if there are so many fields, in what `pairs_of` takes, that some may be of actors that are gone."""
    if isinstance(raw, bytes):
        return len(raw) > 8 * CROWD and raw.count(b" ") >= 2 * CROWD - 1
    return isinstance(raw, (dict, list)) and len(raw) >= (CROWD if isinstance(raw, dict) else 2 * CROWD)
