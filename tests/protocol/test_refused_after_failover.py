"""A counter is refused while a fail-over heals: what Redis has of it from before is not told a second time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.by_hand import ByHand
from tests.protocol.cleaning import LONG, House
from tests.protocol.test_sleepers import SLEEPS, sleep
from tests.servers import RealServer


def taken_back(client: Any, state: dict[bytes, bytes]) -> None:
    """A fail-over: the server has that state again."""
    client.delete(*client.keys("*"))
    for key, dumped in state.items():
        client.restore(key, 0, dumped)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("more", [0, 5])
@pytest.mark.parametrize("how", SLEEPS)
@pytest.mark.parametrize("sign", [1, -1])
def test_nothing_counts_twice(any_server: RealServer, sign: int, how: str, more: int, cut: bool) -> None:
    """It was applied, and told again after a fail-over, and refused; a second one takes that back."""
    client: Any = any_server.client()
    house, hand = House(client, buckets=1), ByHand(client, buckets=1)
    hand.count(b"x", 10 * sign)
    hand.count(b"y", 2)
    hand.round()
    state = {key: client.dump(key) for key in client.keys("*")}
    hand.count(b"y", 3)
    hand.round()

    taken_back(client, state)
    hand.writer.probe_all()
    client.set(hand.key(b"x"), "somebody's")
    for _ in range(3):
        hand.round()
    assert hand.writer.outstanding.pending() == {"x": 10 * sign}
    assert hand.value(b"y", 1) == 5
    assert not any(actor.state.healing for actor in hand.writer.router.actors())

    taken_back(client, state)
    if cut:  # something is on its way when it falls asleep
        hand.count(b"z", 1)
        hand.writer.new_round()
        request = hand.request()
        assert request is not None
        hand.writer.unanswered(request)
    sleep(house, how)
    if more:
        hand.count(b"x", more * sign)
    hand.writer.outstanding.retry_refused()
    for now in range(4):
        hand.round(float(LONG + now))
    assert hand.value(b"x", 1) == (10 + more) * sign
    assert hand.value(b"z", 1) == (cut and how != "cleaned")
    assert b"0" not in client.hvals(hand.key(b"x"))
    assert hand.value(b"y", 1) in ((2, 5) if how == "cleaned" else (5,))
    assert hand.writer.uncertain == (how == "cleaned")
