"""A heartbeat says when an exchange got through, by whom, and what the clock there said; those of long ago are gone."""

from __future__ import annotations

import time

import pytest
import redis

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import Bucket
from tests.lua.regions import MARKS, beat
from tests.lua.scenarios import full_memory

DAY = 86_400_000


def now(bucket: Bucket) -> int:
    seconds, micros = bucket.client.time()
    return seconds * 1000 + micros // 1000


def test_each_exchange_has_one_of_each_source(bucket: Bucket) -> None:
    """The later one stays; times are those of the two servers."""
    before = now(bucket)
    for source, by in ((b"us", b"one.1"), (b"us", b"two.2"), (b"ap", b"one.1"), (b"us", b"one.1")):
        word, at = beat(bucket, source, by, 1234, 60000)
        assert word == "OK"
        assert before <= int(at) <= now(bucket)
    fields = bucket.fields(MARKS)
    assert set(fields) == {b"h:us one.1", b"h:us two.2", b"h:ap one.1"}
    assert fields[b"h:us one.1"] == b"%d 1234 60000" % int(at)


def test_those_of_more_than_a_day_ago_are_gone(bucket: Bucket) -> None:
    """Also those of a clock that was set back, and what is none; other marks stay."""
    at = now(bucket)
    known = {b"old": at - DAY - 5000, b"new": at - DAY + 60000, b"ahead": at + DAY + 60000, b"little": at + 5000}
    for by, when in known.items():
        bucket.client.hset(MARKS, b"h:us " + by, b"%d 1 1" % when)
    bucket.client.hset(MARKS, mapping={"h:us none": "none", "<us": "i 1 1", "t:us": "1", ">us": "i 1 1", "e": "1"})
    beat(bucket, b"us", b"own")
    kept = {b"h:us new", b"h:us little", b"h:us own", b"<us", b"t:us", b">us", b"e"}
    assert set(bucket.fields(MARKS)) == kept


def test_a_full_server_hears_it(bucket: Bucket) -> None:
    beat(bucket)
    with full_memory(bucket):
        assert beat(bucket, by=b"another")[0] == "OK"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["us", "by", "1"],
        ["us", "by", "1", "1", "1"],
        ["", "by", "1", "1"],
        ["u s", "by", "1", "1"],
        ["us", "", "1", "1"],
        ["us", "b y", "1", "1"],
        ["us", "by", "", "1"],
        ["us", "by", "1", "1.5"],
    ],
)
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG exchange_beat"):
        bucket.ask("EVAL", scripts.text(Script.EXCHANGE_BEAT), 1, MARKS, *arguments)
    assert bucket.fields(MARKS) == {}


def test_time_goes_on(bucket: Bucket) -> None:
    first = int(beat(bucket)[1])
    time.sleep(0.01)
    assert int(beat(bucket)[1]) > first
