"""A deployment joins: from now on its changes are stamped, and all keys that it has are in its indexes.

Stamping begins first, in all buckets; then a walk over all keys finds what was there before. That the walk was
complete is recorded per bucket, so one that was broken off is made again: what is stamped keeps its stamp.

A counter that was given fewer shards before holds copies of the others in shard 0 (`shard_copies`), which only readers
of this deployment take as copies. So the others get a floor as high as the copy, and seals have nothing behind them.

A region that fell back behind its peers is renewed: it counts on under new dots, so that what is counted anew shows,
and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from redis_counters.crdt.shard_copies import copies_in
from redis_counters.errors import Unavailable
from redis_counters.protocol.exchange.asks import SOURCE, reply_from
from redis_counters.protocol.upkeep.key_walk import Visit, walk_once
from redis_counters.protocol.wire.answers import list_of, reply_of
from redis_counters.protocol.wire.commands import Argument, Command, Script, hgetall, hmget, pieces
from redis_counters.protocol.wire.keys import KeySpace, name_of
from redis_counters.protocol.wire.marks import JOINED
from redis_counters.protocol.wire.refusals import of_counter
from redis_counters.protocol.wire.replies import Reply
from redis_counters.protocol.wire.shard_fields import pairs_of

STAMPED = b"v"  # a field of a registry
MAX_STAMPED = 500  # shards that one script stamps
MAX_COMMANDS = 100  # of one step
MAX_WALKS = 5  # until no server fails over during one

Walk = Generator[list[Command], list[object], None]


def ask_all(commands: Sequence[Command]) -> Generator[list[Command], list[object], list[object]]:
    """Return the answers to these commands, MAX_COMMANDS in one step."""
    answers: list[object] = []
    for some in pieces(commands, MAX_COMMANDS):
        answers += yield list(some)
    return answers


def run_all(script: Script, commands: Sequence[Command]) -> Generator[list[Command], list[object], list[Reply]]:
    """As `ask_all`, for one script; return its replies. Raises what Redis refuses, before the next step."""
    replies: list[Reply] = []
    for some in pieces(commands, MAX_COMMANDS):
        replies += [reply_of(raw, script) for raw in (yield list(some))]
    return replies


def unjoined(keys: KeySpace) -> Generator[list[Command], list[object], list[int]]:
    """Return the buckets that are not recorded as joined, or whose registry was lost since. Cost: one round trip."""
    signs = [(bucket, *sign) for bucket in range(keys.buckets) for sign in _signs(keys, bucket)]
    answers = yield from ask_all([hmget(key, (field,)) for _, key, field in signs])
    looked = zip(signs, answers, strict=True)
    return list(dict.fromkeys(bucket for (bucket, key, _), raw in looked if list_of(raw, 1, key) == [None]))


def _signs(keys: KeySpace, bucket: int) -> list[tuple[bytes, bytes]]:
    """Return the fields that a bucket has once it has joined: that the walk was complete, and that it stamps."""
    return [(keys.marks(bucket), JOINED), (keys.registries[bucket], STAMPED)]


def join(keys: KeySpace, buckets: list[int], mint: Callable[[], str]) -> Walk:
    """These buckets have joined. Cost: O(keys in the database)."""
    yield from run_all(Script.REGION_JOIN, [_stamp(keys, bucket, (), mint) for bucket in buckets])
    yield from walk_over(keys, buckets, lambda some: _stamp_all(keys, some, mint))
    done = [Command(Script.MARKS_SET, (keys.marks(bucket),), (JOINED, b"1")) for bucket in buckets]
    yield from run_all(Script.MARKS_SET, done)


def walk_over(keys: KeySpace, buckets: list[int], visit: Visit) -> Walk:
    """Visit all shards of these buckets, a page at a time, by bucket; some of them more than once.

    If a server has failed over meanwhile, the walk begins again: another server has its keys in another order.
    Raises: Unavailable, if that happens again and again.
    """

    def on_page(found: dict[int, list[bytes]]) -> Walk:
        if found:
            yield from visit(found)

    for _ in range(MAX_WALKS):
        if (yield from walk_once(keys, buckets, on_page)):
            return
    raise Unavailable("no walk over all keys was complete: servers fail over again and again; to be repeated")


def _stamp_all(keys: KeySpace, found: dict[int, list[bytes]], mint: Callable[[], str]) -> Walk:
    asked = [(bucket, some) for bucket, shards in found.items() for some in pieces(shards, MAX_STAMPED)]
    replies = yield from run_all(Script.REGION_JOIN, [_stamp(keys, bucket, some, mint) for bucket, some in asked])
    narrowed: list[bytes] = []
    for (_, some), reply in zip(asked, replies, strict=True):
        narrowed += [some[n - 1] for n in reply.numbers()[1:]]
    for shards0 in pieces(narrowed, MAX_COMMANDS):
        yield from _floor(keys, shards0)


def _floor(keys: KeySpace, shards0: Sequence[bytes]) -> Walk:
    """Counts that these shards 0 hold copies of are under floors in the shards that they came from."""
    commands: list[Command] = []
    answers = yield [hgetall(key) for key in shards0]
    for key, raw in zip(shards0, answers, strict=True):
        name = name_of(key)
        try:
            copies = copies_in(pairs_of(raw, name))
        except ValueError:
            continue  # it holds something that is no count: it is not read either
        for copy, counted in copies.items():
            _, number, dot = copy.split(b".", 2)
            bucket, shard = keys.shard_key(name, int(number))
            where = (keys.registries[bucket], keys.index(bucket), shard)
            commands.append(Command(Script.SHARD_FLOOR, where, (dot, *counted)))
    yield from run_all(Script.SHARD_FLOOR, commands)


def _stamp(keys: KeySpace, bucket: int, shards: Sequence[bytes], mint: Callable[[], str]) -> Command:
    generation: Argument = mint()[:5].encode()
    return Command(Script.REGION_JOIN, (keys.registries[bucket], keys.index(bucket), *shards), (generation,))


def renew(keys: KeySpace, generation: bytes) -> Generator[list[Command], list[object], int]:
    """All that was counted here is sent as counts of earlier keys from now on; returns of how many shards.

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
        for some in pieces(commands, MAX_COMMANDS):
            answers = yield list(some)
            for command, raw in zip(some, answers, strict=True):
                reply = reply_from(SOURCE, of_counter(raw, command.keys[-1]), command)
                renewed += bool(reply.text(0))

    yield from walk_over(keys, list(range(keys.buckets)), visit)
    return renewed
