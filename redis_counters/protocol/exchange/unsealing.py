"""A shard that was sealed (see `reshard`) and is counted in by another region takes counts again.

As whoever counts in it does: first shard 0 tells of a number of shards with this one among them, then the seal is
broken, with the id that it has.
"""

from __future__ import annotations

from redis_counters.protocol.exchange.asks import Ask, Asks
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.wire.answers import reply_of
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import name_of, shard_of
from redis_counters.protocol.wire.refusals import raise_refused


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
