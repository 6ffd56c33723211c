"""Shards that take no counts at present, for their counter was given fewer (see `reshard`), until they are unsealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import index_of


class Sealed(NamedTuple):
    """A sealed shard: the id of its seal, and where its number of shards is published first."""

    id: bytes
    registry0: bytes
    key0: bytes
    shards: int
    widened: bool = False  # that was published, since the id was learnt


class SealedShards:
    """The sealed shards of an actor. Each takes two requests: publish it in shard 0, then unseal it."""

    __slots__ = ("asked", "shards")

    def __init__(self) -> None:
        self.shards: dict[bytes, Sealed] = {}
        self.asked: bytes | None = None  # the one that the actor's last request is about

    def request(self, mint: Callable[[], str]) -> Command:
        """Return the next request; some shard is sealed."""
        key = self.asked = next(iter(self.shards))
        sealed = self.shards[key]
        if sealed.widened:
            return Command(Script.SHARD_UNSEAL, (key,), (sealed.id,))
        args = (mint()[:5].encode(), sealed.shards)
        return Command(Script.SHARDS_WIDEN, (sealed.registry0, index_of(sealed.registry0), sealed.key0), args)

    def answered(self) -> None:
        """The last request was answered, and not refused."""
        assert self.asked is not None
        sealed = self.shards.pop(self.asked)  # if it is sealed again by now, the next flush is answered so
        if not sealed.widened:
            self.shards[self.asked] = sealed._replace(widened=True)
