"""What differs between regions, and why: of states as they stand in Redis."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters.cli.regional.differences import NOTHING, Known, State, Why, closed, gaps, state_of
from redis_counters.crdt.regional import RegionalShard

counts = st.integers(0, 9)
entries = st.dictionaries(
    st.sampled_from([b"eu/0", b"eu/g.1", b"us/0"]), st.lists(counts, min_size=4, max_size=4), max_size=3
)


def stated(shards: int, expiry: int, told: dict[bytes, list[int]]) -> State:
    """One as an exchange may bring it: any state of an entry."""
    parts = [b",".join([place, *(b"%d" % n for n in numbers)]) for place, numbers in sorted(told.items())]
    return state_of(b" ".join([b"%d %d" % (shards, expiry), *parts]))


states = st.builds(stated, st.integers(0, 3), st.sampled_from([0, 5_000, 9_000]), entries)
regions = st.dictionaries(st.sampled_from(["eu", "us", "ap"]), states, min_size=2)


def goal_of(found: dict[str, State]) -> State:
    return State(reduce(RegionalShard.merge, (state.shard for state in found.values())))


def test_a_state_is_read_from_its_text() -> None:
    assert state_of(b"1 0 eu/0,57").shard.value == 57
    assert not state_of(b"").there
    assert state_of(b"!WRONGTYPE no hash").error == "WRONGTYPE no hash"
    assert (state_of(b"0 0 eu/0,5\n!ERR x").wrong, state_of(b"0 0 eu/0,5\n!ERR x").shard.value) == ("ERR x", 5)
    with pytest.raises(ValueError):
        state_of(b"1 0 eu,57")


@given(regions)
def test_no_gap_once_all_is_merged(found: dict[str, State]) -> None:
    """Equal states have none; and what is merged closes all that there were."""
    goal = goal_of(found)
    assert list(gaps(dict.fromkeys(found, goal))) == []
    for gap in gaps(found):
        assert not closed(gap, found[gap.region])
        assert closed(gap, goal)


@given(regions)
def test_the_gaps_are_what_the_values_lack(found: dict[str, State]) -> None:
    """A region's value, and what it lacks, are the value that all will have."""
    for region, state in found.items():
        lacks = sum(gap.lacks for gap in gaps(found) if gap.region == region and gap.place)
        assert state.shard.value + lacks == goal_of(found).shard.value


def why(found: dict[str, bytes], known: Known = NOTHING) -> list[tuple[str, str, int, Why]]:
    return [
        (gap.region, gap.owner, gap.lacks, gap.why)
        for gap in gaps({region: state_of(text) for region, text in found.items()}, known)
    ]


def test_each_reason() -> None:
    assert why({"eu": b"0 0 eu/0,5", "us": b"0 0 eu/0,5"}) == []
    assert why({"eu": b"0 0 eu/0,5", "us": b"0 0 eu/0,3"}) == [("us", "eu", 2, Why.NOT_PULLED)]
    assert why({"eu": b"0 0 eu/0,5", "us": b""}) == [("us", "eu", 5, Why.NOT_PULLED)]
    gone = Known(known_here=frozenset({"us"}))
    assert why({"eu": b"0 0 eu/0,5", "us": b""}, gone) == [("us", "eu", 5, Why.MISSING)]
    pulled = Known(pulled=frozenset({("us", "eu")}))
    assert why({"eu": b"0 0 eu/0,5", "us": b"0 0 eu/0,3"}, pulled) == [("us", "eu", 2, Why.LOST)]
    assert why({"eu": b"0 0 eu/0,3", "us": b"0 0 eu/0,5"}) == [("eu", "eu", 2, Why.AHEAD)]
    assert why({"eu": b"0 0 eu/0,5,0,5", "us": b"0 0 eu/0,5"}) == [("us", "eu", -5, Why.FLOOR)]
    evicted = Known(evicted=frozenset({"us"}))
    assert why({"eu": b"0 0 eu/0,5", "us": b"0 0 eu/0,3 us/0,1"}, evicted) == [
        ("eu", "us", 1, Why.EVICTED),
        ("us", "eu", 2, Why.EVICTED),
    ]
    assert why({"eu": b"4 9999 eu/0,5", "us": b"0 0 eu/0,5"}) == [
        ("us", "", 4, Why.SHARDS),
        ("us", "", 9999, Why.EXPIRY),
    ]
    assert why({"eu": b"0 9999 eu/0,5", "us": b"0 9990 eu/0,5"}) == []
    assert why({"eu": b"0 0 eu/0,5", "us": b"!WRONGTYPE"}) == [("us", "", 0, Why.UNREADABLE)]
    spoilt = {"eu": b"0 0 eu/0,5 us/0,2", "us": b"0 0 us/0,2\n!ERR @eu/0+ is no count"}
    assert why(spoilt) == [("us", "", 0, Why.UNREADABLE), ("us", "eu", 5, Why.NOT_PULLED)]


def test_a_counter_that_has_expired_by_a_regions_own_clock_is_not_lost() -> None:
    """Nor what is lacking of it when its time is over; of one that has not, all is."""
    states = {"eu": b"", "us": b"0 9000 eu/0,5"}
    early, late = (Known(known_here=frozenset({"eu"}), now={"eu": at, "us": 0}) for at in (8999, 9000))
    assert why(states, early) == [("eu", "eu", 5, Why.MISSING)]
    assert why(states, late) == []
    (gap,) = gaps({name: state_of(text) for name, text in states.items()}, early)
    assert not closed(gap, state_of(b""), 8999)
    assert closed(gap, state_of(b""), 9000)


@pytest.mark.slow("five commands")
def test_what_peers_had_more_of_is_told_until_it_has_another_dot() -> None:
    """Also when the region has counted more since; but not where that is all floor, as what was moved is."""

    def told(back: bytes) -> list[tuple[str, str, int, Why]]:
        return why({"eu": b"0 0 eu/0,9\n?eu/0," + back, "us": b"0 0 eu/0,9"})

    assert told(b"9,0,0,0,6,0") == [("eu", "eu", 3, Why.BEHIND)]
    assert told(b"9,4,9,4,6,5") == [("eu", "eu", 3, Why.BEHIND)]
    assert told(b"9,4,0,0,9,2") == [("eu", "eu", 2, Why.BEHIND)]
    assert told(b"9,0,0,0,9,0") == [("eu", "eu", 0, Why.CAUGHT_UP)]
    assert told(b"9,2,9,2,20,3") == []
    state = state_of(b"0 0 eu/0,9\n?eu/0,9,0,0,0,6,0\n!ERR x")
    assert (state.back, state.wrong, state.shard.value) == ((b"eu/0", [9, 0, 0, 0, 6, 0]), "ERR x", 9)
    (gap,) = gaps({"eu": state_of(b"0 0\n?eu/0,9,0,0,0,6,0"), "us": state_of(b"0 0")})
    assert not closed(gap, state)
    assert closed(gap, state_of(b"0 0 eu/0,9 eu/1,2"))


def test_what_counts_for_nothing_may_be_missing() -> None:
    """Dropped in one region, not yet in another: no difference. Without its floor it is one."""
    assert why({"eu": b"0 0 eu/0,5,0,5", "us": b"0 0"}) == []
    assert why({"eu": b"0 0 eu/0,5,0,5", "us": b""}) == []
    assert why({"eu": b"0 0 eu/0,5,0,5", "us": b"0 0", "ap": b"0 0 eu/0,5"}) == [("ap", "eu", -5, Why.FLOOR)]
