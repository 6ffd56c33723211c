"""A seed contributes the maximum of what it was told, and nobody takes it for an actor."""

from __future__ import annotations

import itertools
import random

import pytest
import redis

from redis_counters.crdt.shard_fields import INT64_MAX, sum_fields
from redis_counters.crdt.slotmap import parse
from redis_counters.protocol.keyed.calls import seed_slot
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.registry import is_actor
from tests.lua import keyed
from tests.lua.calls import GENERATION, INDEX, REGISTRY, Bucket, key
from tests.lua.keyed import seed
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")
SLOT = seed_slot(b"token")


def told(bucket: Bucket, *items: tuple[bytes, bytes, int]) -> list[bytes]:
    return keyed.answers(seed(bucket, *items))


TOTALS = [0, 1, -1, 5, -5, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 10**18, -(10**18)]


def test_a_seed_is_the_maximum_of_its_totals(any_bucket: Bucket) -> None:
    """Of any two totals in any order, and of long random rows; repeated, nothing changes."""
    chance = random.Random(1)
    rows = [list(pair) for pair in itertools.product(TOTALS, repeat=2)]
    rows += [[chance.choice(TOTALS) for _ in range(8)] for _ in range(40)]
    for n, totals in enumerate(rows):
        name, highest = key(n), None
        for total in totals:
            raised = highest is None or total > highest
            highest = total if highest is None else max(highest, total)
            (answer,) = told(any_bucket, (name, SLOT, total))
            assert (answer in (b"1", b"2")) == raised, totals
            assert any_bucket.value(name) == highest, totals
            assert told(any_bucket, (name, SLOT, total)) == [b"0"], totals
            assert any_bucket.value(name) == highest, totals


def test_slots_only_grow(bucket: Bucket) -> None:
    """Whatever is told, no slot is ever lower than it was: so copies of the key merge by maximum."""
    chance = random.Random(2)
    for n in range(30):
        name, before = key(n), (0, 0)
        for _ in range(6):
            told(bucket, (name, SLOT, chance.choice(TOTALS)))
            fields = bucket.fields(name)
            now = int(fields.get(SLOT + b"+", 0)), int(fields.get(SLOT + b"-", 0))
            assert now[0] >= before[0]
            assert now[1] >= before[1]
            before = now


def test_totals_of_different_tokens_add_up(bucket: Bucket) -> None:
    other = seed_slot(b"other")
    assert told(bucket, (A, SLOT, 5), (A, other, 7), (B, SLOT, -2)) == [b"2", b"1", b"2"]
    assert (bucket.value(A), bucket.value(B)) == (12, -2)
    assert bucket.map(A).dot == bucket.map(B).dot == b"gen00.1"


def test_it_counts_and_is_no_actor(bucket: Bucket) -> None:
    """Both ways of reading count it; neither janitors nor readers take it for somebody who may be folded."""
    told(bucket, (A, SLOT, 5), (B, SLOT, -5))
    assert sum_fields(bucket.fields(A).items())[0] == 5
    assert sum_fields(bucket.fields(B).items())[0] == -5
    assert parse(bucket.fields(A)).plus.slots == {SLOT: 5}
    assert not is_actor(SLOT)
    actor = bucket.actor()
    assert is_actor(actor)
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    bucket.end(actor, A)
    bucket.fold(SLOT, A)
    bucket.reap(0, SLOT)
    assert bucket.fields(A)[SLOT + b"+"] == b"5"
    assert bucket.value(A) == 6


def test_beyond_int64_it_is_refused_alone_and_nothing_changes(bucket: Bucket) -> None:
    told(bucket, (A, SLOT, -5), (B, SLOT, INT64_MAX), (C, SLOT, -INT64_MAX))
    assert told(bucket, (B, SLOT, INT64_MAX), (C, SLOT, -INT64_MAX)) == [b"0", b"0"]
    before = bucket.fields(A)
    refused, other = told(bucket, (A, SLOT, INT64_MAX), (B, seed_slot(b"x"), 1))
    assert b"overflow" in refused
    assert other == b"1"
    assert bucket.fields(A) == before
    assert told(bucket, (C, SLOT, 0)) == [b"1"]
    assert bucket.value(C) == 0


def test_a_key_of_another_type_is_refused_alone(bucket: Bucket) -> None:
    bucket.client.set(B, "mine")
    first, refused, third = told(bucket, (A, SLOT, 1), (B, SLOT, 1), (C, SLOT, 1))
    assert (first, third) == (b"2", b"2")
    assert refused.startswith(b"!WRONGTYPE")


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    assert seed(bucket, (A, SLOT, 1), generation=b"") == ("UNKNOWN",)
    assert bucket.everything() == {}
    told(bucket, (A, SLOT, 1))
    assert bucket.registry() == {b"g": GENERATION, b"n": b"1", b"c": b"0"}


def test_who_may_not_write_is_told(bucket: Bucket) -> None:
    told(bucket, (A, SLOT, 1))
    before = bucket.shards()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        told(bucket, (A, SLOT, 2))
    with read_only(bucket), pytest.raises(redis.ResponseError):
        told(bucket, (A, SLOT, 2))
    with denied(bucket, "hset") as other, pytest.raises(redis.ResponseError):
        told(other, (A, SLOT, 2))
    assert bucket.shards() == before


@pytest.mark.parametrize("arguments", [["gen00"], ["gen00", "s.x"], ["gen00", "s.x", "1.5"], ["gen00", "s.x", "01"]])
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG slots_seed"):
        bucket.ask("EVAL", scripts.text(Script.SLOTS_SEED), 3, REGISTRY, INDEX, A, *arguments)
    assert bucket.everything() == {}
