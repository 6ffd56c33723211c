"""Taking away what a counter counts, for good: `reset` and `delete`. What is counted at the same time elsewhere stays.

Each shard is done by one script, shard 0 after all others: it tells of them, and of what was moved from them. Others
may count meanwhile, and a shard that they begin then has nothing of before in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from redis_counters.crdt.shard_copies import beyond, copied_shards, copies_in
from redis_counters.crdt.shard_fields import Entries, entries_of_text
from redis_counters.crdt.slotmap import parse
from redis_counters.errors import (
    CounterError,
    Outcome,
    Refused,
    Unavailable,
    Unconfirmed,
    quoted,
    reworded,
    with_outcome,
)
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.answers import all_answered, reply_of
from redis_counters.protocol.wire.commands import Command, Script, hgetall
from redis_counters.protocol.wire.durability import Durability, shortfall
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.namespace import look_up_namespace
from redis_counters.protocol.wire.refusals import of_counter, of_shard, raise_refused
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.shard_counts import check_published
from redis_counters.protocol.wire.shard_fields import pairs_of
from redis_counters.protocol.write.writer import Writer

E = TypeVar("E", bound=CounterError)

Steps = Generator[list[Command], list[object], int]


@dataclass(slots=True)
class Taken:
    """The amount that was taken away so far, of how many shards: it is returned even if another shard fails."""

    amount: int = 0
    shards: int = 0


def take_away(reads: Reads, name: bytes, taken: Taken, *, delete: bool) -> Steps:
    """Void what Redis holds of a counter; return how much that was. It may be repeated.

    An answer may be a `NoAnswer`. A shard that fails does not keep the others from being done, and ``taken`` knows.
    Cost: 2 round trips; one more each where there are other shards, where a narrowing has begun, and where this process
    has not learnt the number of buckets yet.
    Raises: WrongType, NotPermitted, Refused, Unavailable; some of it may be done then, and ``taken`` says how much.
    """
    writer = reads.writer
    if writer.router.keys is None:
        (raw,) = all_answered((yield [look_up_namespace(writer.settings)]))
        reads.settle(raw)
    keys = writer.router.presumed_keys
    (raw,) = all_answered((yield [hgetall(keys.shard_key(name, 0)[1])]))
    try:
        fields = dict(pairs_of(raw, name))
        published, copies = parse(fields).shards, copies_in(fields.items())
        check_published(published)
    except (Refused, ValueError) as error:
        raise of_shard(keys.shard_key(name, 0)[1], error) from None
    if fields.get(b"z", b"-") != b"-":  # a narrowing has begun: what it copies from now on would come back
        bucket, key = keys.shard_key(name, 0)
        shard0 = (keys.registries[bucket], keys.index(bucket), key)
        (raw,) = yield [Command(Script.SHARDS_WIDEN, shard0, (writer.router.mint()[:5].encode(), published))]
        raise_refused(reply_of(raw, Script.SHARDS_WIDEN), key)
    width = max(writer.router.shards.of(name), published, copied_shards(copies))
    others = list(range(1, width))
    refused: list[CounterError] = []
    done: list[int] = []
    for shards in (others, [0]):
        if not shards or (refused and copies):  # without its copy, a shard that failed would not be found next time
            continue
        answers = yield [_shard_reset(keys, name, shard, delete=delete) for shard in shards]
        for shard, raw in zip(shards, answers, strict=True):
            try:
                entries = _entries(raw, keys.shard_key(name, shard)[1])
            except CounterError as error:
                refused.append(error)
                continue
            taken.amount += beyond(entries, shard, copies)
            taken.shards += 1
            done.append(shard)
    if delete:
        _expect_no_slots(writer, name, done)
    reads.cache.forget(name)
    if refused:
        raise refused[0]
    return taken.amount


@contextmanager
def flushed_before(name: bytes, *, delete: bool) -> Iterator[None]:
    """Flush what the process has counted, in here: an error of that says that nothing was taken away."""
    try:
        yield
    except CounterError as error:
        reported = reworded(
            error, f"counter {quoted(name)} was not {_done(delete)}, as the flush before it failed: {error}"
        )
        raise with_outcome(reported, Outcome.NOT_APPLIED) from error.__cause__ or error


def _done(delete: bool) -> str:
    return "deleted" if delete else "reset"


def with_taken(error: E, name: bytes, taken: Taken) -> E:
    """Return the error with what was taken away all the same, if anything was looked at before it."""
    if isinstance(error, Unavailable) and not isinstance(error, Unconfirmed):
        error = reworded(error, f"counter {quoted(name)}: {error}; it may have been applied, and may be repeated")
    if not taken.shards:
        return error
    shards = "1 shard" if taken.shards == 1 else f"{taken.shards} shards"
    reported = reworded(error, f"{error}; taken away all the same, in {shards}: {taken.amount}")
    reported.taken = taken.amount
    return reported if reported.outcome is Outcome.APPLIED else with_outcome(reported, Outcome.UNKNOWN)


def _shard_reset(keys: KeySpace, name: bytes, shard: int, *, delete: bool) -> Command:
    bucket, key = keys.shard_key(name, shard)
    all_keys = (keys.registries[bucket], keys.index(bucket), key, keys.users_key(name, shard))
    return Command(Script.SHARD_RESET, all_keys, (int(delete),))


def _entries(raw: object, key: bytes) -> Entries:
    """Return what a shard held. Raises what Redis refuses."""
    text = reply_of(of_counter(raw, key), Script.SHARD_RESET).text(0)
    try:
        return entries_of_text(b"0 0 " + text if text else b"")[2]
    except ValueError as error:
        raise BadReply(str(error)) from None


def _expect_no_slots(writer: Writer, name: bytes, shards: list[int]) -> None:
    """The own slots in these shards are gone: send what is counted next with a floor, and do not take it for a loss."""
    for shard in shards if writer.router.keys is not None else ():
        bucket, key = writer.router.presumed_keys.shard_key(name, shard)
        for actor in writer.router.buckets[bucket].actors:
            for table in actor.tables[:2]:
                if key in table.acknowledged:
                    table.floored.add(key)


def check_confirmed(durability: Durability, raw: object, name: bytes, *, delete: bool) -> None:
    """Raises Unconfirmed, or what Redis refuses, if the answer to `confirm` does not confirm it."""
    error = shortfall(durability, raw)
    if error is not None:
        raise reworded(error, f"counter {quoted(name)} was {_done(delete)}: {error}")
