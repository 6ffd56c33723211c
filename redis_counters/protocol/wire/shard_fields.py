"""How shards are asked for, and their fields as they come: a map, a flat list, or the text of slots_read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from redis_counters.errors import WrongType, quoted
from redis_counters.protocol.wire.acl import named_text
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, Question, Script, hgetall, pieces
from redis_counters.protocol.wire.keys import is_first
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply

MAX_KEYS = 500  # shards that one script reads
CROWD = 64  # fields of a shard from which on its actors are looked at: some may be gone


def nothing() -> None:
    """The work meanwhile of an asker that has none."""


def ask_for(
    keys: list[bytes], *, grouped: bool = False, meanwhile: Callable[[], None] = nothing
) -> Generator[list[Command], list[object], list[object]]:
    """Return the fields of these shards, as they come, in one round trip. Raises BadReply, and what Redis refuses.

    ``grouped``: a command has keys of one bucket only, as clusters want it. A server that turns out to want it
    (CROSSSLOT) is asked again that way. ``meanwhile``: as in `Question`.
    """
    if len(keys) == 1 and is_first(keys[0]):  # (another one may be sealed, which only the script reads)
        return (yield Question.of([hgetall(keys[0])], meanwhile))
    if grouped:
        return (yield from _ask_for_groups(keys))
    answers = yield Question.of([Command(Script.SLOTS_READ, part) for part in pieces(keys, MAX_KEYS)], meanwhile)
    if any(isinstance(part, ErrorReply) and part.code == "CROSSSLOT" for part in answers):
        return (yield from _ask_for_groups(keys))
    return _texts(answers, len(keys))


def _ask_for_groups(keys: list[bytes]) -> Generator[list[Command], list[object], list[object]]:
    groups: dict[bytes, list[int]] = {}
    for n, key in enumerate(keys):
        groups.setdefault(key[: key.index(b"}")], []).append(n)
    parts = [part for group in groups.values() for part in pieces(group, MAX_KEYS)]
    plain = [len(part) == 1 and is_first(keys[part[0]]) for part in parts]
    answers = yield [
        hgetall(keys[part[0]]) if alone else Command(Script.SLOTS_READ, [keys[n] for n in part])
        for part, alone in zip(parts, plain, strict=True)
    ]
    found: list[object] = [None] * len(keys)
    for part, alone, answer in zip(parts, plain, answers, strict=True):
        for n, fields in zip(part, [answer] if alone else _texts([answer], len(part)), strict=True):
            found[n] = fields
    return found


def _texts(answers: list[object], expected: int) -> list[object]:
    texts = list_of(answers[0]) if len(answers) == 1 else [text for part in answers for text in list_of(part)]
    if len(texts) != expected:
        raise BadReply(f"expected the texts of {expected} shards, got {len(texts)}")
    return texts


def pairs_of(raw: object, name: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Return the fields of a hash, from a map (RESP3), a flat list (RESP2) or the text of slots_read."""
    if isinstance(raw, bytes):
        if raw[:1] != b"!":
            parts = raw.split(b" ")
            if len(parts) % 2 and raw:  # a blank inside of one: this library did not put it there
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
        raise WrongType(f"counter {quoted(name)}: {raw.text}", counter=name)
    raise error_for(raw, None)


def is_crowded(raw: object) -> bool:
    """True if there are so many fields, in what `pairs_of` takes, that some may be of actors that are gone."""
    if isinstance(raw, bytes):
        return len(raw) > 8 * CROWD and raw.count(b" ") >= 2 * CROWD - 1
    return isinstance(raw, (dict, list)) and len(raw) >= (CROWD if isinstance(raw, dict) else 2 * CROWD)
