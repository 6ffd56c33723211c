"""The sum of a counter's shards, added up from their fields as they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis_counters.crdt.shard_copies import Copies, beyond, copies_in
from redis_counters.crdt.shard_fields import entries_of, scan, value_of
from redis_counters.errors import WrongType, quoted
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.shard_counts import check_published
from redis_counters.protocol.wire.shard_fields import pairs_of

MAX_KEPT_BYTES = 4_000_000  # bytes, about, of fields that are kept; 1,000 names of nine fields take a quarter of it
MAX_BYTES_OF_NAME = 40_000  # the same of one name

Sum = tuple[
    Sequence[object], int, int
]  # shards' fields as they came, what they count, how many shards they say there are


class ParsedCache:
    """Sums by name. On a page that is read again and again, most counters are unchanged: they are not added up again.

    To compare fields is faster than anything that is made of them, most of all where they are the same objects, as what
    `drivers.redis_py.hashes` has seen before.
    """

    __slots__ = ("_size", "kept")

    def __init__(self) -> None:
        self.kept: dict[bytes, Sum] = {}  # what was found last, by name; to look into it needs no lock
        self._size = 0

    def of(self, name: bytes, raws: Sequence[object]) -> Sum:
        """Return the sum of the first shards of a counter. Raises WrongType, BadReply, and what Redis refuses."""
        last = self.kept.get(name)
        if last is not None and last[0] == raws:
            return last
        found = added_up(name, raws)
        self._forget(name)  # so that the oldest stand in front
        size = _size(raws)
        if size <= MAX_BYTES_OF_NAME:
            self.kept[name] = found
            self._size += size
            while self._size > MAX_KEPT_BYTES:
                self._forget(next(iter(self.kept)))
        return found

    def _forget(self, name: bytes) -> None:
        last = self.kept.pop(name, None)
        if last is not None:
            self._size -= _size(last[0])


def _size(raws: Sequence[object]) -> int:
    """Return about how many bytes are kept with these fields, which are texts, maps or lists."""
    first: Any = raws[0]
    each = 1 if isinstance(first, bytes) else 120 if isinstance(first, dict) else 60
    return (100 + each * len(first)) * len(raws)


def added_up(name: bytes, raws: Sequence[object], first: int = 0, copies: Copies | None = None) -> Sum:
    """Return the sum of shards, from number ``first`` on; ``copies``: what shard 0 has of others, if it is not here.

    Raises WrongType, BadReply, and what Redis refuses.
    """
    counted, shards = 0, 1
    try:
        for shard, raw in enumerate(raws, first):
            plus, minus, published, _, special = found = scan(pairs_of(raw, name))
            if published > 1:
                check_published(published)
                shards = max(shards, published)
            if shard == 0 and len(raws) > 1:
                copies = copies_in(pairs_of(raw, name))
            if shard and copies:
                counted += beyond(entries_of(found), shard, copies)
            else:
                counted += value_of(found) if special else plus - minus
    except ValueError as error:
        raise WrongType(f"counter {quoted(name)}: {error}", counter=name) from None
    except (AttributeError, TypeError):  # numbers, lists, errors where a hash has texts
        raise BadReply(f"counter {quoted(name)}: what came as its fields are no texts") from None
    return raws, counted, shards
