"""The mark of a key's creation: who gets one, and that no two are the same."""

from __future__ import annotations

import pytest

from tests.lua.calls import Bucket, items_for, key

A, B, C = key("a"), key("b"), key("c")


def test_a_dot_is_new_with_every_call(bucket: Bucket) -> None:
    """Keys made by one call share it; their numbers come from the same count as the actors', and none comes twice."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1), (B, 1)])
    bucket.merge(actor, 2, fresh_minus=[(C, 1)])
    other = bucket.actor(b"otherowner1234")
    bucket.merge(other, 1, widened=[(key("k"), 4)])
    bucket.merge(other, 2, floored_minus=[(key("f"), 4, 1)])
    dots = [bucket.map(name).dot for name in (A, B, C, key("k"), key("f"))]
    assert dots == [b"gen00.2", b"gen00.2", b"gen00.3", b"gen00.5", b"gen00.6"]
    assert [actor, other] == [b"gen00.1.bbbb", b"gen00.4.owne"]
    assert bucket.registry()[b"n"] == b"6"


def test_a_flush_that_makes_no_key_takes_no_number(bucket: Bucket) -> None:
    """Keys that are there keep their dot, whatever comes to them; MISSING takes none either."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1), (B, 1)])
    bucket.merge(actor, 2, 1, known_plus=[(A, 2)], fresh_minus=[(A, 1), (B, 1)], widened=[(A, 4)])
    bucket.client.hdel(B, actor + b"+")
    assert bucket.merge(actor, 3, 2, known_plus=[(B, 2)]) == ("MISSING", 1)
    bucket.merge(actor, 4, 2, floored_plus=[(B, 2, 1)])
    assert {bucket.map(A).dot, bucket.map(B).dot} == {b"gen00.2"}
    assert bucket.registry()[b"n"] == b"2"


@pytest.mark.parametrize("section", ["fresh_plus", "floored_minus", "widened"])
def test_a_deleted_key_is_a_new_thing(bucket: Bucket, section: str) -> None:
    """A dot of its own, beside keys that keep theirs."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1), (B, 1)])
    bucket.client.delete(A)
    bucket.merge(actor, 2, **{section: items_for(section, [A, B])})  # type: ignore[arg-type]
    assert bucket.map(A).dot == b"gen00.3"
    assert bucket.map(B).dot == b"gen00.2"
