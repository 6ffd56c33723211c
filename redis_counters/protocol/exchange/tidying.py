"""Entries of deleted and reset counters that count for nothing are dropped, once every member has heard of them.

Who has heard of what each region knows by its receipts (`entries_drop`); here only the shards are named that may have
some. Evicted regions have no say, but their own entries are kept: they may come back with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redis_counters.protocol.answers import reply_of
from redis_counters.protocol.commands import Command, Script
from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Ask, Asks
from redis_counters.protocol.exchange.bucket import Bucket
from redis_counters.protocol.exchange.members import EVICTED, Member
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.tally import Tally

EVERY = 5.0  # seconds between attempts at the same shards, the first time: receipts come with the next pulls
MOST = 200  # shards at a time
TRIES = 6  # then the shard waits for the comparison of everything


class Say(NamedTuple):
    """Who has a say in what a region drops, and whose entries stay."""

    peers: Sequence[bytes]
    kept: Sequence[bytes]


def say_of(members: Mapping[bytes, Member], own: bytes) -> Say:
    """Return it, by what a region has recorded."""
    kept = [name for name, member in members.items() if member.state == EVICTED]
    return Say([name for name in members if name != own and name not in kept], kept)


def drop(route: Route, side: int, bucket: int, say: Say, shards: Sequence[bytes]) -> Command:
    """Return the command that does it."""
    return route.drop(side, bucket, say.peers, say.kept, shards)


def tidy(route: Route, bucket: Bucket, says: tuple[Say, Say], tally: Tally, now: float, *, both: bool) -> Asks[None]:
    """What was noticed while pulling is dropped at the destination, if it may be.

    ``both``: at the source, too; where the counter was deleted nobody tells of it.
    """
    members = list(bucket.floored)[:MOST]
    prefix = route.prefix(bucket.number)
    shards = [prefix + member for member in members]
    for side in (DESTINATION, SOURCE) if both else (DESTINATION,):
        if not says[side].peers:
            continue
        (raw,) = yield Ask(side, [drop(route, side, bucket.number, says[side], shards)])
        reply = reply_of(raw, Script.ENTRIES_DROP)
        if reply.word == "OTHERS":
            route.learn(side, [reply.text(n) for n in range(len(reply.values))])
            return
        if reply.word == "OK" and reply.number(0):
            tally.dropped += reply.number(0)
            bucket.mark = None  # it is another one now
    tries = 1 + min(bucket.floored.get(member, 0) for member in members)
    for member in members:
        tried = bucket.floored.pop(member) + 1
        if tried < TRIES:
            bucket.floored[member] = tried  # behind those that were not tried yet
    bucket.next_drop = now + EVERY * 2**tries / 2
