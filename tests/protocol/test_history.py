"""What Redis held at an earlier flush: exactly, unless it may have refused a part of it."""

from __future__ import annotations

from typing import Any

import pytest

from redis_counters.protocol.write.flushes import Chunk
from redis_counters.protocol.write.history import Applied, History
from redis_counters.protocol.write.slot_totals import SlotKind
from tests.protocol.by_hand import ByHand

X, Y = b"{rc:0}:c:0:x", b"{rc:0}:c:0:y"


def history(*, answered: bool) -> History:
    """Three flushes of x and y, each on top of the one before."""
    found = History()
    for seq in (1, 2, 3):
        chunk = Chunk(seq, seq - 1, ({X: seq, Y: 10 * seq}, {}, {}), None)
        chunk.answered = answered
        found.remember(chunk)
    return found


@pytest.mark.parametrize("seq", [1, 3])
def test_what_was_not_answered_may_have_been_refused(seq: int) -> None:
    """Redis refuses x by now: an earlier flush, or a later one, that had no answer may have been refused it."""
    held: Applied = ({X: 2, Y: 20}, {})
    for answered in (False, True):
        for suspects in (frozenset[tuple[SlotKind, bytes]](), frozenset([(SlotKind.PLUS, X)])):
            found = history(answered=answered).applied_as_of(seq, 2, held, suspects)
            assert found == (({X: seq, Y: 10 * seq}, {}), answered or not suspects)


def test_what_redis_may_lack_is_not_acknowledged() -> None:
    """After a fail-over, of a slot that waits because its number of shards is refused."""
    client: Any = None  # nothing is sent
    actor = ByHand(client, buckets=1).writer.router.buckets[0].current
    plus = actor.tables[SlotKind.PLUS]
    plus.refused[X] = "WRONGTYPE"
    for inexact in (True, False):
        actor.state.base_inexact = inexact
        actor._keep_applied(({X: 5}, {}))
        assert plus.acknowledged == ({} if inexact else {X: 5})
