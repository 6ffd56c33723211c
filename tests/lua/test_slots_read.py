"""The texts that slots_read answers."""

from __future__ import annotations

from tests.lua.calls import HIGHEST, Bucket, key
from tests.lua.scenarios import full_memory, read_only

A, B, C = key("a"), key("b"), key("c")


def test_a_text_is_fields_and_values_parted_by_blanks(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, HIGHEST)], floored_minus=[(A, 2**53 + 1, 2**53)], widened=[(A, 4)])
    (text,) = bucket.read(A)
    assert isinstance(text, bytes)
    parts = text.split(b" ")
    assert dict(zip(parts[::2], parts[1::2], strict=True)) == bucket.fields(A)
    assert len(bucket.fields(A)) == 5


def test_texts_come_in_the_order_of_the_keys(bucket: Bucket) -> None:
    """One each, empty where there is no key, and again where a key is named again."""
    bucket.client.hset(A, "d", "x.1")
    bucket.client.hset(C, "d", "x.2")
    assert bucket.read(C, B, A, C) == (b"d x.2", b"", b"d x.1", b"d x.2")


def test_a_key_of_another_type_is_told_in_its_place(bucket: Bucket) -> None:
    bucket.client.hset(A, "d", "x.1")
    bucket.client.set(B, "mine")
    text, refused, absent = bucket.read(A, B, C)
    assert (text, absent) == (b"d x.1", b"")
    assert str(refused).startswith("b'!WRONGTYPE Operation")


def test_many_keys_and_many_fields_are_read_at_once(bucket: Bucket) -> None:
    """2,000 shards; and one of 20,000 fields, more than Lua unpacks."""
    names = [key(i) for i in range(2000)]
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(name, i + 1) for i, name in enumerate(names)])
    texts = bucket.read(*names)
    assert [dict_of(text)[actor + b"+"] for text in texts] == [b"%d" % (i + 1) for i in range(2000)]
    bucket.client.hset(A, mapping={f"x.{i}.y+": i for i in range(20_000)})
    (text,) = bucket.read(A)
    assert dict_of(text) == bucket.fields(A)


def dict_of(text: object) -> dict[bytes, bytes]:
    assert isinstance(text, bytes)
    parts = text.split(b" ")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_reading_needs_no_memory_and_no_primary(bucket: Bucket) -> None:
    bucket.client.hset(A, "d", "x.1")
    with full_memory(bucket):
        assert bucket.read(A) == (b"d x.1",)
    with read_only(bucket):
        assert bucket.read(A) == (b"d x.1",)


def test_reading_changes_nothing(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    before = bucket.everything()
    bucket.read(A, B)
    assert bucket.everything() == before
