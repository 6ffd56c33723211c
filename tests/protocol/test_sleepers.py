"""An owner that sleeps while others keep house: exact within the retention period, and reported after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redis_counters.events import EventKind
from redis_counters.protocol.wire.commands import Script
from tests.protocol.by_hand import ByHand, run
from tests.protocol.cleaning import LONG, UPKEEP, House
from tests.servers import RealServer

AWAKE = 10.0  # seconds of the owner's clock after which its flushes count as proved
FATES = ("answered", "applied, not answered", "lost", "late")
SLEEPS = ("short", "reaped", "folded", "cleaned")


def sleep(house: House, how: str) -> None:
    """Time passes on the server, and another client's janitor goes round."""
    for wanted in SLEEPS[1 : SLEEPS.index(how) + 1]:
        house.age({"reaped": UPKEEP.actor_ttl, "folded": UPKEEP.delay + 1, "cleaned": UPKEEP.retention + 1}[wanted])
        house.clean_up()
    assert house.states() == {"short": "o", "reaped": "c", "folded": "f", "cleaned": ""}[how]


@pytest.mark.parametrize("decrements", [False, True])
@pytest.mark.parametrize("waiting", [0, 5])
@pytest.mark.parametrize("how", SLEEPS)
@pytest.mark.parametrize("fate", FATES)
def test_who_sleeps_goes_on(any_server: RealServer, fate: str, how: str, waiting: int, decrements: bool) -> None:
    """Whatever became of its last flush, however long it slept: never too much; too little only if it says so."""
    house = House(any_server.client(), buckets=1)
    hand = ByHand(any_server.client(), buckets=1)
    sign, events = (-1 if decrements else 1), hand.writer.events
    hand.count(b"x", 10 * sign)
    hand.round()
    hand.count(b"x", 3 * sign)
    hand.count(b"y", 2 * sign)
    hand.writer.new_round()
    request = hand.request()
    assert request is not None
    copies: list[Callable[[], object]] = []
    if fate == "answered":
        hand.answer(request)
    elif fate == "applied, not answered":
        run(hand.client, request.command)
        hand.writer.unanswered(request)
    else:
        if fate == "late":
            copies.append(lambda: run(hand.client, request.command))
        hand.writer.unanswered(request)
    sleep(house, how)
    for copy in copies:  # it arrives just before the owner wakes up
        copy()
    hand.count(b"x", waiting * sign)
    for now in range(3):
        hand.round(float(LONG + now))
    for copy in copies:
        copy()
    hand.count(b"x", sign)
    hand.count(b"y", sign)
    for now in range(3, 6):
        hand.round(float(LONG + now))
    expected = {b"x": 14 + waiting, b"y": 3}
    values = {name: house.value(name) * sign for name in expected}
    assert all(values[name] <= expected[name] for name in expected)
    unsure = how == "cleaned"
    assert hand.writer.uncertain == unsure
    assert (EventKind.UNCERTAIN in {event.kind for event in events}) == unsure
    if values != expected:
        assert how == "cleaned"
        assert fate in ("lost", "late")
        assert values == {b"x": expected[b"x"] - 3, b"y": expected[b"y"] - 2}
    elif how == "cleaned":
        assert fate in ("answered", "applied, not answered")
    kinds = {event.kind for event in events}
    assert (EventKind.REOPENED in kinds) == (how in ("reaped", "folded"))
    assert (EventKind.MOVED in kinds) == (how == "folded")


def test_who_was_proved_need_not_report(any_server: RealServer) -> None:
    """Nothing was on its way, and all of it was seen in Redis again after the re-assert window: that is exact."""
    house = House(any_server.client(), buckets=1)
    hand = ByHand(any_server.client(), buckets=1, reassert_window=AWAKE)
    hand.count(b"x", 10)
    hand.round()
    for now in (6.0, 12.0, 18.0):
        hand.round(now)
    sleep(house, "cleaned")
    hand.count(b"x", 5)
    for now in range(3):
        hand.round(float(LONG + now))
    assert house.value(b"x") == 15
    assert hand.writer.uncertain == 0


def test_who_dies_in_the_middle_of_folding_leaves_the_rest_to_others(any_server: RealServer) -> None:
    """Its record says that it is being folded; a walk folds what is left, and only then it is forgotten."""
    house = House(any_server.client(), buckets=1)
    hand = ByHand(any_server.client(), buckets=1, max_batch=2)
    names = [b"n%d" % i for i in range(9)]
    for name in names:
        hand.count(name, 2)
    hand.round()
    hand.writer.closing = True
    hand.writer.new_round()
    while hand.sent[Script.SLOTS_FOLD] < 2:
        request = hand.request()
        assert request is not None
        hand.answer(request)
    slots = sum(house.client.hlen(house.keys.shard_key(name, 0)[1]) for name in names)
    assert slots == 2 * 9
    assert house.states() == "f"
    house.age(UPKEEP.retention + 1)
    tally = house.clean_up()
    assert (tally.slots, len(tally.cleaned), house.states()) == (5, 1, "")
    assert all(house.value(name) == 2 for name in names)
    assert all(house.client.hget(house.keys.shard_key(name, 0)[1], "+") == b"2" for name in names)


def test_an_idle_owner_ends_its_actor_before_others_do(any_server: RealServer) -> None:
    """At half of `actor_ttl` of silence; then there is nobody to be closed."""
    house = House(any_server.client(), buckets=1)
    hand = ByHand(any_server.client(), buckets=1, actor_ttl=1000.0, reassert_window=50.0)
    hand.count(b"x", 10)
    hand.round(0.0)
    now = 0.0
    while now < 450:
        now += 25
        looks = hand.writer.looks.due(hand.writer.router.actors(), now)
        assert hand.writer.house_due(now) == (looks or hand.writer.router.buckets[0].due(now))
        hand.round(now)
        assert house.states() == "o"
    while house.states() == "o":
        now += 25
        assert now < 700
        hand.round(now)
    assert house.states() == "f"
    assert house.value(b"x") == 10
    hand.count(b"x", 1)
    hand.round(now)
    assert (house.states(), house.value(b"x")) == ("fo", 11)
    assert house.clean_up(dry_run=True).reaped == []
    house.age(LONG)
