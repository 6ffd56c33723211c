"""Of many janitors, janitor_lease lets one go in a period."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import META, Bucket
from tests.lua.scenarios import full_memory, opened_namespace


def test_one_in_a_period(bucket: Bucket) -> None:
    opened_namespace(bucket)
    assert [bucket.lease(60)[0] for _ in range(5)] == ["OK", "LATER", "LATER", "LATER", "LATER"]
    begun = int(bucket.client.hget(META, "j") or 0)
    bucket.client.hset(META, "j", begun - 60)
    assert [bucket.lease(60)[0] for _ in range(2)] == ["OK", "LATER"]


def test_the_time_is_that_of_the_server(bucket: Bucket) -> None:
    opened_namespace(bucket)
    for _ in range(2):
        before = bucket.now()
        assert before <= int(bucket.lease(60)[1]) <= before + 5


def test_a_period_of_0_lets_all_go(bucket: Bucket) -> None:
    """And holds back those who have one."""
    opened_namespace(bucket)
    assert [bucket.lease(period)[0] for period in (0, 0, 60)] == ["OK", "OK", "LATER"]


def test_a_clock_that_went_back_holds_nobody_up(bucket: Bucket) -> None:
    """After a fail-over to a server whose clock is behind."""
    opened_namespace(bucket)
    bucket.client.hset(META, "j", bucket.now() + 10_000)
    assert bucket.lease(60)[0] == "OK"


@pytest.mark.parametrize("spoilt", ["", "x", "1 2"])
def test_a_time_that_is_no_number_holds_nobody_up(bucket: Bucket, spoilt: str) -> None:
    opened_namespace(bucket)
    bucket.client.hset(META, "j", spoilt)
    assert [bucket.lease(60)[0] for _ in range(2)] == ["OK", "LATER"]


def test_without_a_record_none_is_made(bucket: Bucket) -> None:
    assert bucket.lease(0) == ("NONE",)
    assert bucket.everything() == {}


@pytest.mark.parametrize("period", ["", "x", "-1", "1.5"])
def test_a_period_that_is_no_number_is_refused(bucket: Bucket, period: str) -> None:
    opened_namespace(bucket)
    before = bucket.everything()
    with pytest.raises(Exception, match="BADARG janitor_lease"):
        bucket.call(Script.JANITOR_LEASE, [META], [period.encode()])
    assert bucket.everything() == before


def test_a_full_server_has_a_janitor(bucket: Bucket) -> None:
    opened_namespace(bucket)
    with full_memory(bucket):
        assert bucket.lease(60)[0] == "OK"


def test_what_is_settled_stays(bucket: Bucket) -> None:
    """The namespace's record has one field more."""
    opened_namespace(bucket)
    before = bucket.fields(META)
    bucket.lease(60)
    after = bucket.fields(META)
    after.pop(b"j")
    assert after == before
