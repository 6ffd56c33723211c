"""What slots_merge does with counters that expire: no key of theirs is ever without its time, or made after it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lua.calls import Bucket, key

A, B, C = key("a"), key("b"), key("c")
TOLD: list[dict[str, Any]] = [
    {"fresh_plus": [(A, 5)]},
    {"fresh_minus": [(A, 5)]},
    {"fresh_plus": [(A, 5)], "fresh_minus": [(A, 5)]},
    {"floored_plus": [(A, 5, 2)]},
    {"floored_minus": [(A, 5, 2)]},
    {"widened": [(A, 4)]},
    {"fresh_plus": [(A, 5)], "widened": [(A, 4)]},
]


def milliseconds(bucket: Bucket) -> int:
    seconds, micros = bucket.ask("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def left(bucket: Bucket, name: bytes) -> int:
    """Return the milliseconds until the key expires; -1: it does not, -2: there is none."""
    answer = bucket.ask("PTTL", name)
    assert isinstance(answer, int)
    return answer


@pytest.mark.parametrize("told", TOLD)
def test_a_key_is_made_with_its_time(bucket: Bucket, told: dict[str, Any]) -> None:
    actor, now = bucket.actor(), milliseconds(bucket)
    assert bucket.merge(actor, 1, **told, expiring={A: now + 60_000}) == ("OK", 1)
    assert 0 < left(bucket, A) <= 60_000
    assert left(bucket, A) > 60_000 - (milliseconds(bucket) - now) - 2


@pytest.mark.parametrize("told", TOLD)
def test_nothing_is_written_of_a_counter_that_has_expired(bucket: Bucket, told: dict[str, Any]) -> None:
    """The flush is applied all the same, with all the others in it, and recorded."""
    actor, now = bucket.actor(), milliseconds(bucket)
    others: dict[str, Any] = {section: [*items, (B, *items[0][1:])] for section, items in told.items()}
    assert bucket.merge(actor, 1, **others, expiring={A: now}) == ("OK", 1)
    assert left(bucket, A) == -2
    assert left(bucket, B) == -1
    assert bucket.fields(B)
    assert b"d" in bucket.fields(B)
    assert bucket.record(actor)[1] == b"1"


def test_a_known_slot_that_has_expired_is_not_missing(bucket: Bucket) -> None:
    """Nobody deleted it, and what was counted after its time goes the same way."""
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.merge(actor, 1, fresh_plus=[(A, 5), (B, 5)], expiring={A: now + 60_000})
    bucket.client.delete(A)  # as Redis does, when it is time
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 6), (B, 6)], expiring={A: now}) == ("OK", 2)
    assert left(bucket, A) == -2
    assert bucket.value(B) == 6


def test_a_known_slot_is_missing_before_its_time(bucket: Bucket) -> None:
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.merge(actor, 1, fresh_plus=[(A, 5)], expiring={A: now + 60_000})
    bucket.client.delete(A)
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 6)], expiring={A: now + 60_000}) == ("MISSING", 1)


@pytest.mark.parametrize(("first", "second", "holds"), [(60, 30, 60), (30, 60, 60), (None, 30, 30)])
def test_the_later_time_holds(bucket: Bucket, first: int | None, second: int, holds: int) -> None:
    """Of a key that is there, increments never move its time to an earlier one; one without any gets it."""
    one, two, now = bucket.actor(), bucket.actor(b"secondowner1234"), milliseconds(bucket)
    bucket.merge(one, 1, fresh_plus=[(A, 5)], expiring={A: now + first * 1000} if first else None)
    bucket.merge(two, 1, fresh_plus=[(A, 7)], expiring={A: now + second * 1000})
    assert (holds - 10) * 1000 < left(bucket, A) <= holds * 1000
    bucket.merge(two, 2, 1, known_plus=[(A, 8)])
    assert (holds - 10) * 1000 < left(bucket, A) <= holds * 1000
    assert bucket.value(A) == 13


@pytest.mark.parametrize("told", TOLD)
def test_it_counts_as_long_as_somebody_else_said(bucket: Bucket, told: dict[str, Any]) -> None:
    """Who knows an earlier time counts on in a counter that is there; its later time stays."""
    one, two, now = bucket.actor(), bucket.actor(b"secondowner1234"), milliseconds(bucket)
    bucket.merge(one, 1, fresh_plus=[(A, 1), (B, 1)], expiring={A: now + 60_000, B: now + 60_000})
    on_b: dict[str, Any] = {section: [(B, *items[0][1:])] for section, items in told.items()}
    assert bucket.merge(two, 1, **told, expiring={A: now}) == ("OK", 1)
    assert bucket.merge(two, 2, 1, **on_b) == ("OK", 2)
    assert bucket.value(A) == bucket.value(B)
    assert set(bucket.fields(A)) == set(bucket.fields(B)) != {b"d"}
    assert 50_000 < left(bucket, A) <= 60_000


def test_a_known_slot_counts_as_long_as_somebody_else_said(bucket: Bucket) -> None:
    one, two, now = bucket.actor(), bucket.actor(b"secondowner1234"), milliseconds(bucket)
    bucket.merge(one, 1, fresh_plus=[(A, 5)], expiring={A: now + 1_000})
    bucket.merge(two, 1, fresh_plus=[(A, 7)], expiring={A: now + 60_000})
    assert bucket.merge(one, 2, 1, known_plus=[(A, 105)], expiring={A: now - 1}) == ("OK", 2)
    assert bucket.value(A) == 112


@pytest.mark.parametrize("told", TOLD)
def test_a_full_server_refuses_it(bucket: Bucket, told: dict[str, Any]) -> None:
    """As it does without a time: what is told needs memory, though setting a time needs none."""
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.ask("CONFIG", "SET", "maxmemory", "1")
    try:
        for expiring in (None, {A: now + 60_000}):
            with pytest.raises(Exception, match=r"OOM|maxmemory"):
                bucket.merge(actor, 1, **told, expiring=expiring)
    finally:
        bucket.ask("CONFIG", "SET", "maxmemory", "0")
    assert bucket.shards() == {}
    assert bucket.record(actor)[1] == b"0"


@pytest.mark.parametrize("section", ["fresh_plus", "known_plus", "floored_minus", "widened"])
def test_a_key_of_another_type_keeps_its_time(bucket: Bucket, section: str) -> None:
    """It is not ours: it is refused, alone, and does not expire."""
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.client.set(A, "somebody's")
    item = (A, 5, 2) if section.startswith("floored") else (A, 5)
    answer = bucket.merge(actor, 1, **{section: [item]}, expiring={A: now + 60_000})  # type: ignore[arg-type]
    assert answer[:3] == ("OK", 1, 1)
    assert left(bucket, A) == -1
    assert bucket.client.get(A) == b"somebody's"


@pytest.mark.parametrize("expired", [0, 1, 2])
@pytest.mark.parametrize("there", [0, 1, 2, 3])
def test_in_a_group_every_new_key_has_its_dot(bucket: Bucket, there: int, expired: int) -> None:
    """Whatever else is there: keys of old, and ones that have expired (even if somebody made them anew)."""
    names = [key(n) for n in range(3)]
    bucket.merge(bucket.actor(), 1, fresh_plus=[(name, 1) for name in names[:there]])
    actor, now = bucket.actor(b"secondowner1234"), milliseconds(bucket)
    bucket.merge(actor, 1, fresh_plus=[(name, 1) for name in names], expiring=dict.fromkeys(names[:expired], now))
    for number, name in enumerate(names):
        assert bucket.value(name) == (number < there) + (number >= expired)
        assert (b"d" in bucket.fields(name)) == bool(bucket.fields(name))


@pytest.mark.parametrize("denied", ["pexpireat", "pttl", "type"])
def test_a_user_who_may_not_writes_nothing(bucket: Bucket, denied: str) -> None:
    """Else there would be a counter without its time."""
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.ask("ACL", "SETUSER", "default", f"-{denied}")
    try:
        with pytest.raises(Exception, match=r"(?i)permission|ACL|can't run"):
            bucket.merge(actor, 1, fresh_plus=[(A, 5), (B, 5)], expiring={A: now + 60_000})
    finally:
        bucket.ask("ACL", "SETUSER", "default", f"+{denied}")
    assert bucket.shards() == {}
    assert bucket.record(actor)[1] == b"0"


def test_folding_keeps_the_time(bucket: Bucket) -> None:
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.merge(actor, 1, fresh_plus=[(A, 5)], expiring={A: now + 60_000})
    assert bucket.end(actor, A, C, base=1) == ("OK", 1)
    assert 50_000 < left(bucket, A) <= 60_000
    assert left(bucket, C) == -2
    assert bucket.value(A) == 5


def test_folding_makes_nothing_of_what_has_expired(bucket: Bucket) -> None:
    actor, now = bucket.actor(), milliseconds(bucket)
    bucket.merge(actor, 1, fresh_plus=[(A, 5)], expiring={A: now + 60_000})
    bucket.client.delete(A)  # as Redis does, when it is time
    assert bucket.end(actor, A, base=1) == ("OK", 0)
    assert left(bucket, A) == -2
