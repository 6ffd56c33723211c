"""A region that fell back behind its peers counts on under new dots: what is counted anew shows, and nothing twice."""

from __future__ import annotations

from collections.abc import Generator

from redis_counters.protocol.exchange.joining import MOST_COMMANDS, Walk, walk_over
from redis_counters.protocol.exchange.pull import Unjoined
from redis_counters.protocol.wire.answers import reply_of
from redis_counters.protocol.wire.commands import Command, Script, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.refusals import of_counter


def renew(keys: KeySpace, generation: bytes) -> Generator[list[Command], list[object], int]:
    """All that was counted here is told as that of earlier keys; returns of how many shards.

    ``generation``: of the new dots, drawn for this. May be repeated. Cost: O(keys in the database).
    Raises: Unjoined where changes are not stamped, WrongType, and what Redis refuses; some of it may be done then.
    """
    renewed = 0

    def visit(found: dict[int, list[bytes]]) -> Walk:
        nonlocal renewed
        commands = [
            Command(Script.SHARD_RENEW, (keys.registries[bucket], keys.index(bucket), shard), (generation,))
            for bucket, shards in found.items()
            for shard in shards
        ]
        for some in pieces(commands, MOST_COMMANDS):
            answers = yield list(some)
            for command, raw in zip(some, answers, strict=True):
                reply = reply_of(of_counter(raw, command.keys[-1]), Script.SHARD_RENEW)
                if reply.word == "UNJOINED":
                    raise Unjoined(0)
                renewed += bool(reply.text(0))

    yield from walk_over(keys, list(range(keys.buckets)), visit)
    return renewed
