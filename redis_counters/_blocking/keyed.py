# Generated from redis_counters/asyncio/keyed.py by `make blocking`: change that.
"""The blocking face of what is idempotent by a key: `incr_once`, `likes`, `seed`, `adopt`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from redis_counters.drivers.threads import ThreadRunner
from redis_counters.errors import not_applied
from redis_counters.face import Named
from redis_counters.protocol.wire.settings import checked_age
from redis_counters.protocol.wire.values import CounterValue, N, Name, name_bytes

if TYPE_CHECKING:
    from redis_counters.protocol.keyed.calls import User
    from redis_counters.protocol.keyed.operations import Uses

T = TypeVar("T")
U = TypeVar("U", bound="User")


class KeyedCounters:
    """Counting that may be repeated by the caller: a key, a user or a token says what is the same."""

    _runner: ThreadRunner

    def _use(self, uses: Uses[T]) -> T:
        """Return what the generator returns; the calls that it yields are done."""
        keyed = self._runner.keyed_calls()
        while True:
            try:
                calls = next(uses)
            except StopIteration as stop:
                result: T = stop.value
                return result
            keyed.do(calls)

    def incr_once(self, name: Name, key: str | bytes, amount: int = 1, *, ttl: float | timedelta = 86400) -> bool:
        """The counter is higher by ``amount``, once for this key, however often it is called; return whether just now.

        ``key``: 1 to 1024 bytes, of this counter and ttl alone. ``ttl``: seconds or a timedelta; when that has passed
        since the key counted, by the server's clock, it counts once more. After a reply that was lost on the way, and
        a repetition by the client, a call that counted may return False.
        Cost: one script, shared with the calls of other threads that wait at the same time.
        Raises: KeyConflict if the key counted another amount; Unavailable, which may be repeated; WrongType, Overflow,
        NotPermitted, SchemaMismatch; TypeError, UsageError.
        """
        from redis_counters.protocol.keyed import operations

        return self._use(operations.incr_once(name, key, amount, ttl))

    def likes(self, name: Name) -> Likes:
        """Return a handle on the users who like something; the counter of this name is their number."""
        return Likes(self, name_bytes(name))

    def seed(self, name: Name, total: int, token: str | bytes) -> None:
        """The counter includes ``total``, or more if this token came with more: any number of processes may call it.

        ``token``: where the total comes from, 1 to 1024 bytes; totals of different tokens add up.
        Cost: one script, as `incr_once`. Raises as `incr_once`, but for KeyConflict.
        """
        from redis_counters.protocol.keyed import operations

        self._use(operations.seed({name: total}, token))

    def seed_many(self, totals: Mapping[N, int], token: str | bytes) -> None:
        """As `seed`, for many counters: a round trip for 500 names, with a script per bucket.

        Raises the first error; all that Redis does not refuse has been done.
        """
        from redis_counters.protocol.keyed import operations

        self._use(operations.seed(totals, token))

    def adopt(self, key: Name, name: Name | None = None) -> int:
        """The counter includes what a plain INCR key holds; return that, 0 if there is no such key.

        ``name``: of the counter, by default the key's. Again, and from any number of processes, it only raises what
        was adopted of this key, so it may be repeated as long as counting goes on there. The key stays as it is.
        Cost: two round trips. Raises as `seed`; WrongType if the key holds no count.
        """
        from redis_counters.protocol.keyed import operations

        return self._use(operations.adopt(key, name))


class Likes(Named):
    """The users who like something, one at a time; all of it is in Redis when a call returns, and may be repeated.

    A user is any str, bytes or int of 1 to 1024 bytes; an int is its decimal text.
    """

    __slots__ = ("_counters",)

    def __init__(self, counters: KeyedCounters, name: bytes) -> None:
        super().__init__(name)
        self._counters = counters

    def like(self, user: User) -> bool:
        """The user likes; return whether that is new.

        After a reply that was lost on the way, and a repetition by the client, it may be new and return False.
        Cost: one script, shared with the calls of other threads that wait at the same time.
        Raises: Unavailable, which may be repeated; WrongType, NotPermitted, SchemaMismatch; TypeError, UsageError.
        """
        from redis_counters.protocol.keyed import operations

        return self._counters._use(operations.like(self._name, user, b"+"))

    def unlike(self, user: User) -> bool:
        """The user does not like, or no more; return whether that is new. Otherwise as `like`."""
        from redis_counters.protocol.keyed import operations

        return self._counters._use(operations.like(self._name, user, b"-"))

    def has(self, user: User) -> bool:
        """Return whether the user likes.

        Cost: one round trip, shared as in `like`; one more for a name that was not used lately. Raises as `like`.
        """
        from redis_counters.protocol.keyed import operations

        with not_applied:
            return (self._counters._use(operations.has(self._name, (user,))))[user]

    def has_many(self, users: Iterable[U]) -> dict[U, bool]:
        """Return which of these users like it; keys are the users as given. Otherwise as `has`."""
        from redis_counters.protocol.keyed import operations

        with not_applied:
            return self._counters._use(operations.has(self._name, users))

    def value(self, *, max_age: float | None = None) -> CounterValue:
        """Return how many users like; as `Counters.get`."""
        return (self._counters._runner.read((self._name,), checked_age(max_age)))[self._name]

    def adopt_likes(self, key: Name) -> int:
        """Every member of a plain Redis set likes; return how many did not before. The set stays as it is.

        It may be repeated, also after it was cut off.
        Cost: O(members); two round trips for 500 of them. Raises as `like`; UsageError for a member that is no user.
        """
        from redis_counters.protocol.keyed import operations

        return self._counters._use(operations.adopt_likes(self._name, key))
