"""What shards count, as they come: the same whether it was read before or not, and nothing is kept without end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters.crdt.slotmap import SlotMap, format_fields
from redis_counters.errors import Refused, WrongType
from redis_counters.protocol.read.sums import MAX_BYTES_OF_NAME, MAX_KEPT_BYTES, ParsedCache
from redis_counters.protocol.wire.commands import ErrorReply
from redis_counters.protocol.wire.replies import BadReply
from tests.crdt.test_slotmap import slot_maps

WORD = b"!WRONGTYPE Operation against a key holding the wrong kind of value"


def text_of(state: SlotMap) -> bytes:
    return b" ".join(part for pair in format_fields(state).items() for part in pair)


@given(st.lists(st.tuples(st.sampled_from([b"x", b"y"]), st.lists(slot_maps, min_size=1, max_size=3)), max_size=8))
def test_it_is_what_the_shards_hold_now(reads: list[tuple[bytes, list[SlotMap]]]) -> None:
    """Whatever was read before, of the same counter or of others."""
    sums = ParsedCache()
    for name, shards in reads * 2:
        expected = sum(shard.value for shard in shards), max(shard.shards for shard in shards)
        assert sums.of(name, [text_of(shard) for shard in shards])[1:] == expected
        assert sums.of(name, [format_fields(shard) for shard in shards])[1:] == expected


def test_what_has_not_changed_is_not_added_up_again() -> None:
    """In whichever form its shards came."""
    sums = ParsedCache()
    before = sums.of(b"x", [b"+ 1", b"k 3 + 2"])
    assert sums.of(b"x", [b"+ 1", b"k 3 + 2"]) is before
    assert sums.of(b"y", [b"+ 1", b"k 3 + 2"]) is not before
    assert sums.of(b"x", [b"+ 1", b"k 3 + 4"])[1:] == (5, 3)
    assert sums.of(b"x", [b"+ 1", b"k 3 + 2"]) is not before
    for raws in ([{b"+": b"1"}], [[b"+", b"1"], [b"+", b"1"]]):
        assert sums.of(b"z", raws) is sums.of(b"z", raws)


def test_only_so_much_is_kept() -> None:
    """The last ones, of maps with nine fields more than a thousand; and nothing of a counter with very many slots."""
    sums = ParsedCache()
    fields = {b"%d+" % number: b"1" for number in range(9)}
    names = [b"%d" % number for number in range(MAX_KEPT_BYTES // (9 * 100))]
    before = [sums.of(name, [fields]) for name in names]
    kept = [sums.kept.get(name) is found for name, found in zip(names, before, strict=True)]
    assert 1_000 < sum(kept) < len(names)
    assert all(kept[-1_000:])
    assert not kept[0]
    long = [b" ".join(b"%d+ 1" % number for number in range(MAX_BYTES_OF_NAME))]
    assert sums.of(b"long", long) is not sums.of(b"long", long)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (WORD, WrongType),
        (b"+ x", WrongType),
        (b"+ 1 -", WrongType),
        (b"k 4000", WrongType),
        (ErrorReply("NOPERM no"), Refused),
        ({b"+": 1}, BadReply),
        ([b"+", ErrorReply("ERR")], BadReply),
        (7, BadReply),
    ],
)
def test_what_counts_nothing_is_raised_each_time(raw: object, error: type[Exception]) -> None:
    """And the counter's next read is right again."""
    sums = ParsedCache()
    for _ in range(2):
        assert sums.of(b"x", [b"+ 1", b"+ 2"])[1] == 3
        for _ in range(2):
            with pytest.raises(error):
                sums.of(b"x", [b"+ 1", raw])
