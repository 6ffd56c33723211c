"""In no order does narrowing lose a count, or count it twice; and each guard of it is needed in some order."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.simulation.breaks import Break, broken
from tests.simulation.ledger import Violation
from tests.simulation.orders import all_orders

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.slow("thousands of orders")
def test_no_order_breaks_a_promise(part: int) -> None:
    """With every command twice, a third of the thousands at a time."""
    assert sum(1 for _ in all_orders(every=3, part=part)) > 700


GUARDS = (
    Break("any id unseals", "shard_unseal", "if by ~= id then return {'OTHER'} end"),
    Break("all narrowings have one id", "narrow_open", "id = settled[1] .. '.' .. highest", "id = settled[1] .. '.0'"),
    Break(
        "a seal keeps the id of an earlier narrowing",
        "shard_seal",
        "if by then return seal(dot, plus, minus) end",
        "if by then return {'OK', now, since, dot, plus, minus} end",
    ),
    Break("a narrowing that is void is applied", "narrow_apply", "~= id .. ':' .. wanted then", "== '' then"),
    Break(
        "shards are told again and a narrowing goes on",
        "shards_widen",
        "if (there[3] or '-') ~= '-' then",
        "if false then",
    ),
    Break("a shard with slots is sealed", "shard_seal", "if slots > 0 then return {'BUSY', slots} end"),
    Break(
        "a sealed shard is unsealed first, and told of then",
        "write.sealed:SealedShards.request",
        "if sealed.widened:",
        "if True:",
    ),
)


BEGIN = {"a seal keeps the id of an earlier narrowing": 25}
"""The order to begin with, where the first that shows it comes late."""


@pytest.mark.parametrize("what", GUARDS, ids=lambda what: what.name.replace(" ", "-"))
def test_every_guard_is_needed(what: Break) -> None:
    with broken(what) as texts, pytest.raises(Violation):
        for _ in islice(all_orders(texts, BEGIN.get(what.name, 0)), 200_000):
            pass
