"""Taking away what a counter counts, for good: `reset` and `delete`. What is counted at the same time elsewhere stays.

Each shard is done by one script, shard 0 after all others: it tells of them, and of what was moved from them. Others
may count meanwhile, and a shard that they begin then has nothing of before in it.
"""

from __future__ import annotations

from collections.abc import Generator

from redis_counters.crdt.entries import Entries
from redis_counters.crdt.moved import beyond_copies, copied_shards, copies_in
from redis_counters.crdt.regional import parse_text
from redis_counters.crdt.slotmap import parse
from redis_counters.errors import WrongType, quoted, reworded
from redis_counters.protocol.answers import reply_of
from redis_counters.protocol.commands import Command, Script, hgetall
from redis_counters.protocol.durability import Durability, shortfall
from redis_counters.protocol.keys import KeySpace
from redis_counters.protocol.namespace import look_up_namespace
from redis_counters.protocol.reads import Reads
from redis_counters.protocol.refusals import of_counter, raise_refused
from redis_counters.protocol.replies import BadReply
from redis_counters.protocol.shard_fields import pairs_of
from redis_counters.protocol.shards import check_told
from redis_counters.protocol.writer import Writer

Steps = Generator[list[Command], list[object], int]


def take_away(reads: Reads, name: bytes, *, delete: bool) -> Steps:
    """What Redis holds of a counter counts no more; return how much that was. It may be repeated.

    Cost: 2 round trips; one more each where there are other shards, where a narrowing has begun, and where this process
    has not learnt the number of buckets yet.
    Raises: WrongType, NotPermitted, Refused, Unavailable; some of it may be done then.
    """
    writer = reads.writer
    if writer.keys is None:
        (raw,) = yield [look_up_namespace(writer.settings)]
        reads.settle(raw)
    keys = writer.presumed_keys
    (raw,) = yield [hgetall(keys.shard_key(name, 0)[1])]
    fields = dict(pairs_of(raw, name))
    try:
        told, copies = parse(fields).shards, copies_in(fields.items())
        check_told(told)
    except ValueError as error:
        raise WrongType(f"counter {quoted(name)}: {error}", counter=name) from None
    if fields.get(b"z", b"-") != b"-":  # a narrowing has begun: what it copies from now on would come back
        bucket, key = keys.shard_key(name, 0)
        shard0 = (keys.registries[bucket], keys.index(bucket), key)
        (raw,) = yield [Command(Script.SHARDS_WIDEN, shard0, (writer.mint()[:5].encode(), told))]
        raise_refused(reply_of(raw, Script.SHARDS_WIDEN), key)
    width = max(writer.shards.of(name), told, copied_shards(copies))
    others = list(range(1, width))
    answers = (yield [_shard_reset(keys, name, shard, delete=delete) for shard in others]) if others else []
    answers += yield [_shard_reset(keys, name, 0, delete=delete)]
    taken = 0
    for shard, raw in zip([*others, 0], answers, strict=True):
        taken += beyond_copies(_entries(raw, keys.shard_key(name, shard)[1]), shard, copies)
    if delete:
        _expect_no_slots(writer, name, width)
    reads.forget(name)
    return taken


def _shard_reset(keys: KeySpace, name: bytes, shard: int, *, delete: bool) -> Command:
    bucket, key = keys.shard_key(name, shard)
    all_keys = (keys.registries[bucket], keys.index(bucket), key, keys.users_key(name, shard))
    return Command(Script.SHARD_RESET, all_keys, (int(delete),))


def _entries(raw: object, key: bytes) -> Entries:
    """Return what a shard held. Raises what Redis refuses."""
    text = reply_of(of_counter(raw, key), Script.SHARD_RESET).text(0)
    try:
        state = parse_text(b"0 0 " + text if text else b"")
    except ValueError as error:
        raise BadReply(str(error)) from None
    return {place: state.entry(place) for place in state.places()}


def _expect_no_slots(writer: Writer, name: bytes, width: int) -> None:
    """The own slots of a counter are gone: what is counted next is told with a floor, and nobody is startled."""
    for shard in range(width if writer.keys is not None else 0):
        bucket, key = writer.presumed_keys.shard_key(name, shard)
        for actor in writer.buckets[bucket].actors:
            for table in actor.tables[:2]:
                if key in table.acknowledged:
                    table.floored.add(key)


def check_confirmed(durability: Durability, raw: object, name: bytes, *, delete: bool) -> None:
    """Raises Unconfirmed, or what Redis refuses, if the answer to `confirm` does not confirm it."""
    error = shortfall(durability, raw)
    if error is not None:
        raise reworded(error, f"counter {quoted(name)} was {'deleted' if delete else 'reset'}: {error}")
