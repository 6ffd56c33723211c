"""The asyncio face of counters that stay within bounds: stock, seats, quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_counters.asyncio.keyed import KeyedCounters
from redis_counters.errors import not_applied
from redis_counters.face import Named
from redis_counters.protocol.wire.values import Name, name_bytes

if TYPE_CHECKING:
    from redis_counters.protocol.keyed.bounded import Limits


class BoundedCounters(KeyedCounters):
    """Counting that keeps to a floor and a cap."""

    def bounded(self, name: Name, *, floor: int | None = None, cap: int | None = None) -> Bounded:
        """Return a handle on a bounded counter; it has a floor, a cap or both, which its first change records for good.

        It starts at its floor; with a cap alone at 0, or at the cap if that is below 0. It has keys of its own: a plain
        counter of the same name is another one.
        Cost: no I/O.
        Raises: TypeError, UsageError for the name, or for bounds that leave nothing to add or to spend.

        >>> stock = counters.bounded("sku:1", floor=0)
        >>> await stock.add(3, key="delivery-7")
        >>> await stock.try_spend(2, key="order-17"), await stock.try_spend(2, key="order-18")
        (True, False)
        """
        from redis_counters.protocol.keyed.bounded import limits

        return Bounded(self, name_bytes(name), limits(floor, cap))


class Bounded(Named):
    """A counter that never leaves its bounds; Redis decides each call in one step, and has it when the call returns.

    With a key (str or bytes, 1 to 1024 bytes) a call may be repeated by anyone for 24 hours: it has the same answer,
    and is applied once. Without one, only what the client repeats by itself is applied once.
    """

    __slots__ = ("_counters", "_limits")

    def __init__(self, counters: BoundedCounters, name: bytes, limits: Limits) -> None:
        super().__init__(name)
        self._counters = counters
        self._limits = limits

    async def add(self, amount: int, key: str | bytes | None = None) -> None:
        """The counter is higher by ``amount``, an int of at least 1; without a cap it always succeeds.

        Cost: one script, shared with the calls of other tasks that wait at the same time.
        Raises: InsufficientRights if there is no room below the cap; KeyConflict if the key was used with another
        amount, or to spend; UsageError for other bounds than those that are recorded; Unavailable, which may be
        repeated with the same key; WrongType, Overflow, NotPermitted, SchemaMismatch; TypeError.
        """
        from redis_counters.protocol.keyed import bounded

        await self._counters._use(bounded.change(self._name, self._limits, bounded.ADD, amount, key))

    async def try_add(self, amount: int, key: str | bytes | None = None) -> bool:
        """As `add`; return whether there was room, rather than raise InsufficientRights.

        >>> hall = counters.bounded("hall", cap=2)
        >>> await hall.try_add(2), await hall.try_add(1)
        (True, False)
        """
        from redis_counters.protocol.keyed import bounded

        return await self._counters._use(bounded.try_change(self._name, self._limits, bounded.ADD, amount, key))

    async def spend(self, amount: int, key: str | bytes | None = None) -> None:
        """The counter is lower by ``amount``, an int of at least 1.

        Cost and errors as `add`; InsufficientRights if less is left above the floor.
        """
        from redis_counters.protocol.keyed import bounded

        await self._counters._use(bounded.change(self._name, self._limits, bounded.SPEND, amount, key))

    async def try_spend(self, amount: int, key: str | bytes | None = None) -> bool:
        """As `spend`; return whether there was enough, rather than raise InsufficientRights.

        A key that was refused stays refused. One that was given back raises KeyConflict: nobody holds that any more.
        """
        from redis_counters.protocol.keyed import bounded

        return await self._counters._use(bounded.try_change(self._name, self._limits, bounded.SPEND, amount, key))

    async def give_back(self, key: str | bytes) -> bool:
        """What was spent with this key is back; return whether by this call.

        False if it was given back before, was refused or never spent, or its 24 hours are over. A key that was not used
        cannot be any more: a spend that was given up, and is still on its way, takes nothing.
        Cost and errors as `add`; KeyConflict if the key was used to add; InsufficientRights if there is no room below
        the cap: it may be repeated when there is.

        >>> seats = counters.bounded("seats", floor=0)
        >>> await seats.add(1)
        >>> await seats.try_spend(1, key="order-1"), await seats.try_spend(1, key="order-2")
        (True, False)
        >>> await seats.give_back("order-1"), await seats.give_back("order-1")
        (True, False)
        >>> await seats.try_spend(1, key="order-3")
        True
        """
        from redis_counters.protocol.keyed import bounded

        return await self._counters._use(bounded.give_back(self._name, self._limits, key))

    async def value(self) -> int:
        """Return the value, as Redis has it: the start, and what was added, less what was spent.

        Cost: one round trip, shared as in `add`. Raises as `add`, but for KeyConflict and InsufficientRights.
        """
        from redis_counters.protocol.keyed import bounded

        with not_applied:
            return (await self._counters._use(bounded.look(self._name, self._limits))).value

    async def available(self) -> int | None:
        """Return how much may be spent in this region now; None without a floor: any amount. Otherwise as `value`."""
        from redis_counters.protocol.keyed import bounded

        with not_applied:
            return (await self._counters._use(bounded.look(self._name, self._limits))).rights

    async def rights(self) -> dict[str, int]:
        """Return how much may be spent, by region; none without a floor. Otherwise as `value`."""
        available = await self.available()
        return {} if available is None else {self._counters._runner.core.settings.region.decode(): available}
