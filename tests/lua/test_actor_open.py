"""What actor_open registers, takes back and gives up."""

from __future__ import annotations

import pytest
import redis

from tests.lua.calls import GENERATION, OWNER, REGISTRY, Bucket, key
from tests.lua.scenarios import denied, full_memory

A = key("a")
OTHER = b"otherowner1234"
ACTOR = b"gen00.1.bbbb"


def test_the_first_actor_makes_the_registry(bucket: Bucket) -> None:
    """Generation, highest number issued, highest cleaned; the record, and the way from the owner to it."""
    assert bucket.open(display=b"web 1") == ("OPEN", ACTOR, 0)
    registry = bucket.registry()
    state, seq, seen, owner, display = registry.pop(ACTOR).split(b" ", 4)
    assert (state, seq, owner, display) == (b"o", b"0", OWNER, b"web 1")
    now = bucket.ask("TIME")[0]
    assert now - 60 < int(seen) <= now
    assert registry == {b"g": GENERATION, b"n": b"1", b"c": b"0", b"@" + OWNER: ACTOR}


def test_the_generation_is_settled_once(bucket: Bucket) -> None:
    bucket.actor()
    assert bucket.open(OTHER, generation=b"gen99") == ("OPEN", b"gen00.2.owne", 0)


def test_an_owner_that_asks_again_gets_the_same_actor(bucket: Bucket) -> None:
    """A copy of the command, or one whose answer was lost; nothing is written."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    before = bucket.everything()
    assert bucket.open() == ("OPEN", actor, 4)
    assert bucket.everything() == before


def test_an_owner_whose_actor_was_closed_gets_a_new_one(bucket: Bucket) -> None:
    """It never learned its id, so nothing was told under it."""
    bucket.close(bucket.actor())
    assert bucket.open() == ("OPEN", b"gen00.2.bbbb", 0)
    assert bucket.open() == ("OPEN", b"gen00.2.bbbb", 0)


def test_numbers_grow_past_what_a_double_prints_short(bucket: Bucket) -> None:
    bucket.actor()
    bucket.client.hset(REGISTRY, "n", 10**15)
    assert bucket.open(OTHER) == ("OPEN", b"gen00.1000000000000001.owne", 0)
    assert bucket.registry()[b"n"] == b"1000000000000001"


@pytest.mark.parametrize(
    "display",
    [
        b"",
        b" ",
        b"host 12, pid 3",
        "Zählwerk №1 🧮".encode(),
        b"two\nlines\r\n",
        b"nul\x00and\xff\xfe",
        b"o 5 6 x",
        b"'\"%s%d{}",
    ],
)
def test_a_display_name_is_any_text(bucket: Bucket, display: bytes) -> None:
    """It comes through flush, close, reopening and folding as it was."""
    _, actor, _ = bucket.open(display=display)
    assert isinstance(actor, bytes)
    assert bucket.merge(actor, 3, fresh_plus=[(A, 1)]) == ("OK", 3)
    assert bucket.close(actor) == ("OK", 3)
    assert bucket.open(OWNER, actor) == ("OPEN", actor, 3)
    assert bucket.close(actor) == ("OK", 3)
    assert bucket.fold(actor, A) == ("OK", 1)
    assert bucket.record(actor)[3:] == [OWNER, display]


# --- an id is wanted back ------------------------------------------------------------------------------------------


def test_an_open_actor_is_as_it_was(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    before = bucket.everything()
    assert bucket.open(OWNER, actor) == ("OPEN", actor, 4)
    assert bucket.everything() == before


def test_a_closed_actor_is_open_again(bucket: Bucket) -> None:
    """Nothing of it is folded yet, so its slots are still its own. Its silence begins anew."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    shards, (_, seq, _, *rest) = bucket.shards(), bucket.record(actor)
    bucket.close(actor)
    bucket.age(actor, 100)
    assert bucket.record(actor)[0] == b"c"
    now = bucket.now()
    assert bucket.open(OWNER, actor) == ("OPEN", actor, 4)
    state, seq_now, seen, *rest_now = bucket.record(actor)
    assert (state, seq_now, rest_now, bucket.shards()) == (b"o", seq, rest, shards)
    assert now <= int(seen) <= now + 5


def test_an_actor_that_was_closed_for_long_is_not_opened_again(bucket: Bucket) -> None:
    """It may have been folded before a fail-over took that back: a late copy of the call must not let it tell more."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    bucket.close(actor)
    bucket.age(actor, 122)
    before = bucket.everything()
    assert bucket.open(OWNER, actor, delay=120) == ("FOLDED", 4)
    assert bucket.everything() == before
    assert bucket.merge(actor, 5, fresh_plus=[(A, 2)]) == ("CLOSED", 4)


@pytest.mark.parametrize("delay", [b"", b"x", b"-1", b"1.5"])
def test_a_delay_that_is_no_number_writes_nothing(bucket: Bucket, delay: bytes) -> None:
    bucket.close(bucket.actor())
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="BADARG actor_open"):
        bucket.open(OWNER, b"", delay=delay)
    assert bucket.everything() == before


def test_a_folded_actor_stays_folded(bucket: Bucket) -> None:
    """The answer tells up to which flush its slots are in the base."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    bucket.end(actor, A)
    before = bucket.everything()
    assert bucket.open(OWNER, actor) == ("FOLDED", 4)
    assert bucket.everything() == before


def test_a_lost_record_is_put_back(bucket: Bucket) -> None:
    """As after a fail-over: under the same id, with nothing acknowledged."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    bucket.client.hdel(REGISTRY, actor, b"@" + OWNER)
    assert bucket.open(OWNER, actor, display=b"again") == ("OPEN", actor, 0)
    assert bucket.record(actor)[0::4] == [b"o", b"again"]
    assert bucket.registry()[b"@" + OWNER] == actor


def test_an_unreadable_record_counts_as_lost(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.client.hset(REGISTRY, actor, b"???")
    assert bucket.open(OWNER, actor) == ("OPEN", actor, 0)
    assert bucket.record(actor)[0] == b"o"


def test_an_id_from_before_the_registry_was_lost_is_put_back(bucket: Bucket) -> None:
    """In the new registry's generation, which is another one; the old id can match no new actor."""
    assert bucket.open(OWNER, b"old00.7.bbbb") == ("OPEN", b"old00.7.bbbb", 0)
    registry = bucket.registry()
    assert (registry[b"g"], registry[b"n"]) == (GENERATION, b"0")
    assert bucket.open(OTHER) == ("OPEN", b"gen00.1.owne", 0)


def test_a_number_that_was_lost_is_not_issued_again(bucket: Bucket) -> None:
    """A fail-over took actor 9 back: it returns, and the next is 10, dots included."""
    bucket.actor()
    assert bucket.open(OTHER, b"gen00.9.owne") == ("OPEN", b"gen00.9.owne", 0)
    assert bucket.open(b"thirdowner") == ("OPEN", b"gen00.10.owne", 0)
    assert bucket.open(b"fourthowner", b"gen00.3.abcd") == ("OPEN", b"gen00.3.abcd", 0)
    bucket.merge(b"gen00.10.owne", 1, fresh_plus=[(A, 1)])
    assert bucket.map(A).dot == b"gen00.11"


@pytest.mark.parametrize(
    ("want", "cleaned", "word"),
    [
        (b"gen00.5.abcd", 5, "GONE"),
        (b"gen00.5.abcd", 100, "GONE"),
        (b"gen00.5.abcd", 4, "OPEN"),
        (b"gen00.5.abcd", 0, "OPEN"),
        (b"old00.5.abcd", 5, "OPEN"),
        (b"old00.5.abcd", 100, "OPEN"),
    ],
)
def test_gone_only_if_it_may_have_been_cleaned(bucket: Bucket, want: bytes, cleaned: int, word: str) -> None:
    """The generation is the registry's own, and the number not above the highest that was cleaned."""
    bucket.actor()
    bucket.client.hset(REGISTRY, "n", 200)
    bucket.client.hset(REGISTRY, "c", cleaned)
    before = bucket.everything()
    assert bucket.open(OTHER, want)[0] == word
    assert (bucket.everything() == before) == (word == "GONE")
    assert bucket.registry()[b"c"] == b"%d" % cleaned
    assert bucket.registry()[b"n"] == b"200"


def test_a_record_that_is_there_is_not_gone(bucket: Bucket) -> None:
    """Whatever number is cleaned: records are cleaned by number, but an open one stays."""
    actor = bucket.actor()
    bucket.client.hset(REGISTRY, "c", 100)
    assert bucket.open(OWNER, actor) == ("OPEN", actor, 0)


# --- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["time", "hset"])
@pytest.mark.parametrize("made", [False, True])
def test_a_missing_permission_writes_nothing(bucket: Bucket, command: str, made: bool) -> None:
    """No number is used up, and no registry is left half made."""
    if made:
        bucket.actor(OTHER)
    before = bucket.everything()
    with denied(bucket, command) as partly, pytest.raises(Exception, match=r"NOPERM|ACL|can't"):
        partly.open()
    assert bucket.everything() == before


def test_without_memory_only_an_open_actor_is_found(bucket: Bucket) -> None:
    actor = bucket.actor()
    before = bucket.everything()
    with full_memory(bucket):
        assert bucket.open(OWNER, actor) == ("OPEN", actor, 0)
        assert bucket.open() == ("OPEN", actor, 0)
        with pytest.raises(Exception, match=r"OOM|used memory"):
            bucket.open(OTHER)
    assert bucket.everything() == before


def test_a_registry_of_another_type_is_an_error(bucket: Bucket) -> None:
    bucket.client.set(REGISTRY, "mine")
    with pytest.raises(Exception, match="WRONGTYPE"):
        bucket.open()
    assert bucket.client.get(REGISTRY) == b"mine"
