"""What slots_merge refuses: one key alone, or all of a flush with nothing written."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import REGISTRY, SECTIONS, Bucket, items_for, key
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")


# --- refused alone -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 20, 50])
@pytest.mark.parametrize("section", SECTIONS)
def test_a_key_of_another_type_is_refused_alone(bucket: Bucket, section: str, place: int) -> None:
    """Fifty good ones around it are applied, an item in each other section too; the answer has its number."""
    names = [key(i) for i in range(51)]
    actor = bucket.actor()
    others = {name: items_for(name, [key(name)]) for name in SECTIONS}
    bucket.merge(actor, 1, fresh_plus=[(n, 4) for n in names], fresh_minus=[(n, 4) for n in names])
    bucket.merge(
        actor,
        2,
        fresh_plus=[(key(n), 4) for n in SECTIONS if n.startswith("known")],
        fresh_minus=[(key(n), 4) for n in SECTIONS if n.startswith("known")],
    )
    if section.startswith("floored"):
        bucket.client.delete(*names)
    bad = names[place]
    bucket.client.set(bad, "mine")
    answer = bucket.merge(actor, 3, 2, **{**others, section: items_for(section, names)})  # type: ignore[arg-type]
    assert answer[:3] == ("OK", 3, SECTIONS.index(section) + 1 + place)
    assert len(answer) == 4
    assert str(answer[3]).startswith("b'WRONGTYPE Operation")
    assert bucket.client.get(bad) == b"mine"
    field = b"k" if section == "widened" else actor + (b"+" if section.endswith("plus") else b"-")
    good = [name for name in names if name != bad]
    assert {bucket.fields(name)[field] for name in good} == {b"9"}
    for name in SECTIONS:
        if name != section:
            assert b"9" in bucket.fields(key(name)).values()
    assert bucket.record(actor)[1] == b"3"


def test_a_missing_slot_goes_before_a_refused_key(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    bucket.client.set(B, "mine")
    before = bucket.everything()
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 2), (B, 2), (C, 2)]) == ("MISSING", 3)
    assert bucket.everything() == before


# --- refused as a whole --------------------------------------------------------------------------------------------

HEAD = ["gen00.1.bbbb", "1", "0", "0", "1", "0", "0", "0", "0", "0", "0", "0"]


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ({}, []),
        ({}, ["1", "1"]),
        ({4: "2"}, ["1", "1"]),
        ({4: "0", 8: "1"}, ["1"]),
        ({4: "x"}, ["1"]),
        ({4: ""}, ["1"]),
        ({4: "2", 5: "-1"}, ["1"]),
        ({4: "0.5", 5: "0.5"}, ["1"]),
        ({1: "one"}, ["1"]),
        ({1: "nan"}, ["1"]),
        ({1: "inf"}, ["1"]),
        ({1: "1.5"}, ["1"]),
        ({2: ""}, ["1"]),
        ({3: "2"}, ["1"]),
        ({3: ""}, ["1"]),
        ({2: "-1"}, ["1"]),
        ({11: "1"}, ["1"]),
        ({11: "1"}, ["1", "1"]),
        ({11: "1"}, ["1", "0", "1"]),
        ({11: "1"}, ["1", "2", "1"]),
        ({11: "1"}, ["1", "1", "soon"]),
        ({11: "1"}, ["1", "1", "-1"]),
        ({11: "1"}, ["1", "1.5", "1"]),
    ],
)
def test_arguments_that_do_not_fit_write_nothing(bucket: Bucket, changed: dict[int, str], values: list[str]) -> None:
    """Numbers are digits, and keys and values are as many as the counts say."""
    assert bucket.actor() == HEAD[0].encode()
    args = [changed.get(i, arg).encode() for i, arg in enumerate(HEAD)] + [value.encode() for value in values]
    before = bucket.everything()
    with pytest.raises(Exception, match=r"^BADARG slots_merge: "):
        bucket.call(Script.SLOTS_MERGE, [REGISTRY, A], args)
    assert bucket.everything() == before


def test_no_memory_refuses_the_whole_flush(bucket: Bucket) -> None:
    """Never item by item: the client keeps all of it, and tells it again."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    before = bucket.everything()
    for told in ({"fresh_plus": [(B, 1)]}, {"fresh_plus": [(A, 2), (B, 1)]}, {"widened": [(A, 2)]}):
        with full_memory(bucket), pytest.raises(Exception, match=r"OOM|used memory"):
            bucket.merge(actor, 2, 1, **told)  # type: ignore[arg-type]
        assert bucket.everything() == before
    with full_memory(bucket), pytest.raises(Exception, match=r"OOM|used memory"):
        bucket.merge(actor, 2, 1, known_plus=[(A, 2)])
    assert bucket.everything() == before


def test_a_demoted_primary_refuses_the_whole_flush(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    before = bucket.everything()
    with read_only(bucket), pytest.raises(Exception, match=r"READONLY|read.only"):
        bucket.merge(actor, 2, 1, fresh_plus=[(B, 1)], known_plus=[(A, 2)])
    assert bucket.everything() == before


@pytest.mark.parametrize("command", ["time", "exists", "hset"])
def test_a_missing_permission_writes_nothing(bucket: Bucket, command: str) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    before = bucket.everything()
    with denied(bucket, command) as partly, pytest.raises(Exception, match=r"NOPERM|ACL|can't"):
        partly.merge(actor, 2, 1, fresh_plus=[(B, 1)], known_plus=[(A, 2)])
    assert bucket.everything() == before


def test_a_registry_of_another_type_is_an_error(bucket: Bucket) -> None:
    bucket.client.set(REGISTRY, "mine")
    before = bucket.everything()
    with pytest.raises(Exception, match="WRONGTYPE"):
        bucket.merge(b"gen00.1.bbbb", 1, fresh_plus=[(A, 1)])
    assert bucket.everything() == before
