"""Entries of deleted and reset counters that count for nothing are dropped, once every member has heard of them.

Who has heard of what each region knows by its receipts (`entries_drop`); here only the shards are named that may have
some. Evicted regions have no say, but their own entries are kept: they may come back with them.

A shard that was sealed (see `reshard`) and is counted in by another region takes counts again.

As whoever counts in it does: first shard 0 tells of a number of shards with this one among them, then the seal is
broken, with the id that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Ask, Asks, on
from redis_counters.protocol.exchange.members import EVICTED, look
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import BucketSync
from redis_counters.protocol.wire.answers import reply_of
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import name_of, shard_of
from redis_counters.protocol.wire.refusals import raise_refused

EVERY = 60.0  # seconds between attempts at the same shards, the first time; and before that, so that a fail-over that
# takes back the delete at one region has happened by then, mostly: what was dropped is told by that one again
MOST = 200  # shards at a time
TRIES = 4  # then the shard waits for the comparison of everything


class Say(NamedTuple):
    """Who has a say in what a region drops, and whose entries stay."""

    peers: Sequence[bytes]
    kept: Sequence[bytes]


def say(route: Route, side: int) -> Asks[Say]:
    """Return it, by what a side has recorded just now: a region that was added since has not heard of what it had."""
    own = route.names[side]
    members = (yield from on(side, look(route.keys.namespace, own))).members
    kept = [name for name, member in members.items() if member.state == EVICTED]
    return Say([name for name in members if name != own and name not in kept], kept)


def tidy(route: Route, bucket: BucketSync, metrics: SyncMetrics, now: float, *, both: bool) -> Asks[None]:
    """What was noticed while pulling is dropped at the destination, if it may be.

    ``both``: at the source, too; where the counter was deleted nobody tells of it.
    """
    members = list(bucket.floored)[:MOST]
    prefix = route.prefix(bucket.number)
    shards = [prefix + member for member in members]
    for side in (DESTINATION, SOURCE) if both else (DESTINATION,):
        peers, kept = yield from say(route, side)
        if not peers:
            continue
        (raw,) = yield Ask(side, [route.drop(side, bucket.number, peers, kept, shards)])
        reply = reply_of(raw, Script.ENTRIES_DROP)
        if reply.word == "OTHERS":
            route.learn(side, [reply.text(n) for n in range(len(reply.values))])
            return
        if reply.word == "OK" and reply.number(0):
            metrics.dropped += reply.number(0)
            bucket.mark = None  # it is another one now
    tries = 1 + min(bucket.floored.get(member, 0) for member in members)
    for member in members:
        tried = bucket.floored.pop(member) + 1
        if tried < TRIES:
            bucket.floored[member] = tried  # behind those that were not tried yet
    bucket.next_drop = now + EVERY * 2**tries / 2


def unseal(route: Route, side: int, shard: bytes) -> Asks[bool]:
    """Return whether it was sealed, and is not any more. Raises what Redis refuses."""
    (raw,) = yield Ask(side, [Command(None, (shard,), (), b"GET")])
    if not isinstance(raw, bytes) or not raw.startswith(b"sealed ") or raw.count(b" ") < 2:
        return False
    id, number = raw.split(b" ")[1], shard_of(shard)
    bucket0, shard0 = route.keys.shard_key(name_of(shard), 0)
    widen = Command(
        Script.SHARDS_WIDEN, (route.keys.registries[bucket0], route.keys.index(bucket0), shard0), (b"", number + 1)
    )
    (raw,) = yield Ask(side, [widen])
    reply = reply_of(raw, Script.SHARDS_WIDEN)
    if reply.word != "OK":
        return False
    raise_refused(reply, shard0)
    (raw,) = yield Ask(side, [Command(Script.SHARD_UNSEAL, (shard,), (id,))])
    return reply_of(raw, Script.SHARD_UNSEAL).word == "OK"
