"""What namespace_open settles, once."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Argument, Script
from tests.lua.calls import META, Answer, Bucket
from tests.lua.scenarios import full_memory, read_only


def open_namespace(bucket: Bucket, *args: Argument) -> Answer:
    return bucket.call(Script.NAMESPACE_OPEN, [META], args)


def test_what_comes_first_is_settled(bucket: Bucket) -> None:
    """Later callers learn it, whatever they ask for; nothing is written then."""
    assert open_namespace(bucket, 1, 16, b"main") == ("OK", b"1", b"16", b"main")
    assert bucket.everything() == {META: {b"schema": b"1", b"buckets": b"16", b"region": b"main"}}
    before = bucket.everything()
    assert open_namespace(bucket, 2, 64, b"eu") == ("OK", b"1", b"16", b"main")
    assert bucket.everything() == before


def test_a_region_is_any_text(bucket: Bucket) -> None:
    region = "Köln 1\n".encode()
    assert open_namespace(bucket, 1, 16, region) == ("OK", b"1", b"16", region)


@pytest.mark.parametrize("lost", [b"schema", b"buckets", b"region"])
def test_what_is_missing_is_settled_anew(bucket: Bucket, lost: bytes) -> None:
    """The rest stays."""
    open_namespace(bucket, 1, 16, b"main")
    bucket.client.hdel(META, lost)
    asked = {b"schema": b"2", b"buckets": b"64", b"region": b"eu"}
    settled = {b"schema": b"1", b"buckets": b"16", b"region": b"main"} | {lost: asked[lost]}
    assert open_namespace(bucket, *asked.values()) == ("OK", *settled.values())
    assert bucket.fields(META) == settled


def test_a_settled_namespace_opens_where_nothing_can_be_written(bucket: Bucket) -> None:
    """Without memory, and on a follower: whoever only reads needs no more."""
    open_namespace(bucket, 1, 16, b"main")
    with full_memory(bucket):
        assert open_namespace(bucket, 1, 16, b"main")[0] == "OK"
    with read_only(bucket):
        assert open_namespace(bucket, 1, 16, b"main")[0] == "OK"


def test_a_new_namespace_needs_to_be_written(bucket: Bucket) -> None:
    with full_memory(bucket), pytest.raises(Exception, match=r"OOM|used memory"):
        open_namespace(bucket, 1, 16, b"main")
    with read_only(bucket), pytest.raises(Exception, match=r"READONLY|read.only"):
        open_namespace(bucket, 1, 16, b"main")
    assert bucket.everything() == {}


def test_a_key_of_another_type_is_an_error(bucket: Bucket) -> None:
    bucket.client.set(META, "mine")
    with pytest.raises(Exception, match="WRONGTYPE"):
        open_namespace(bucket, 1, 16, b"main")
    assert bucket.client.get(META) == b"mine"
