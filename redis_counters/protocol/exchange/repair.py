"""Repairs at one side, while pulling and comparing: entries that count for nothing, and shards that were sealed.

Entries of deleted and reset counters that count for nothing are dropped, once every member has acknowledged them.
`entries_drop` decides that by the acknowledgements that each region holds; here only the shards are named that may have
such entries. Evicted regions have no vote, but their own entries are kept: they may come back with them.

A shard that was sealed (see `reshard`), and in which another region counts, is opened again, as any counting client
does: first shard 0 gets a number of shards that includes this one, then the seal is broken, with the id that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Ask, Asks, on, run
from redis_counters.protocol.exchange.members import EVICTED, look
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import BucketSync
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import name_of, shard_of
from redis_counters.protocol.wire.refusals import raise_refused
from redis_counters.protocol.wire.replies import Reply

FIRST_PAUSE_S = 60.0  # before the first attempt at some shards, and doubled after each: by then a fail-over that takes
# back the delete at one region has mostly happened, and that region sends again what was dropped
MAX_SHARDS = 200  # at a time
MAX_ATTEMPTS = 4  # then the shard waits for the comparison of everything


class Votes(NamedTuple):
    """The regions that must have acknowledged what a region drops, and those whose entries stay."""

    peers: Sequence[bytes]
    kept: Sequence[bytes]


def votes(route: Route, side: int) -> Asks[Votes]:
    """Return the votes by the members that a side has just now: one added since does not know what the side had."""
    own = route.names[side]
    members = (yield from on(side, look(route.keys.namespace, own))).members
    kept = [name for name, member in members.items() if member.state == EVICTED]
    return Votes([name for name in members if name != own and name not in kept], kept)


def take_dropped(route: Route, side: int, reply: Reply, metrics: SyncMetrics) -> int:
    """Take the reply of `entries_drop`; return how many entries were dropped."""
    if reply.word == "OTHERS":
        route.learn(side, reply)
    dropped = reply.number(0) if reply.word == "OK" else 0
    metrics.dropped += dropped
    return dropped


def tidy(route: Route, bucket: BucketSync, metrics: SyncMetrics, now: float, *, both: bool) -> Asks[None]:
    """The entries noticed while pulling are dropped at the destination, if they may be. ``now``: monotonic seconds.

    ``both``: at the source, too, for of a counter that was deleted there it sends nothing.
    """
    members = list(bucket.floored)[:MAX_SHARDS]
    shards = [route.prefix(bucket.number) + member for member in members]
    for side in (DESTINATION, SOURCE) if both else (DESTINATION,):
        peers, kept = yield from votes(route, side)
        if not peers:
            continue
        reply = yield from run(side, route.drop(side, bucket.number, peers, kept, shards))
        if take_dropped(route, side, reply, metrics):
            bucket.mark = None  # it is another one now
        if reply.word == "OTHERS":
            return
    attempts = 1 + min(bucket.floored.get(member, 0) for member in members)
    for member in members:
        tried = bucket.floored.pop(member) + 1
        if tried < MAX_ATTEMPTS:
            bucket.floored[member] = tried  # behind those that were not tried yet
    bucket.next_drop = now + FIRST_PAUSE_S * 2**attempts / 2


def unseal(route: Route, side: int, shard: bytes) -> Asks[bool]:
    """Return whether the shard was sealed, and is not any more. Raises what Redis refuses."""
    (raw,) = yield Ask(side, [Command(None, (shard,), (), b"GET")])
    if not isinstance(raw, bytes) or not raw.startswith(b"sealed ") or raw.count(b" ") < 2:
        return False
    id, number = raw.split(b" ")[1], shard_of(shard)
    bucket0, shard0 = route.keys.shard_key(name_of(shard), 0)
    keys = (route.keys.registries[bucket0], route.keys.index(bucket0), shard0)
    widened = yield from run(side, Command(Script.SHARDS_WIDEN, keys, (b"", number + 1)))
    if widened.word != "OK":
        return False
    raise_refused(widened, shard0)
    unsealed = yield from run(side, Command(Script.SHARD_UNSEAL, (shard,), (id,)))
    return unsealed.word == "OK"
