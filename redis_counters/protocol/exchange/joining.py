"""A deployment joins: from now on its changes are stamped, and all keys that it has are known to its indexes.

Stamping begins first, in all buckets; then a walk over all keys finds what was there before. That the walk was
complete is recorded per bucket, so one that was broken off is made again: what is stamped keeps its stamp.

A counter that was given fewer shards before holds copies of the others in shard 0 (`shard_copies`), which only readers
of this deployment know for what they are. So the others get a floor as high as the copy, and seals have nothing behind
them.

A region that fell back behind its peers counts on under new dots: what is counted anew shows, and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from redis_counters.crdt.shard_copies import copies_in
from redis_counters.errors import Unavailable
from redis_counters.protocol.exchange.pull import Unjoined
from redis_counters.protocol.upkeep.folding import NAMES, ask_for_run, bucket_finder, run_of, shards_pattern
from redis_counters.protocol.wire.answers import list_of, reply_of
from redis_counters.protocol.wire.commands import Argument, Command, Script, hgetall, hmget, pieces
from redis_counters.protocol.wire.keys import KeySpace, name_of
from redis_counters.protocol.wire.marks import JOINED
from redis_counters.protocol.wire.refusals import of_counter
from redis_counters.protocol.wire.registry import scan, scanned
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.shard_fields import pairs_of

STAMPED = b"v"  # a field of a registry
MOST_STAMPED = 500  # shards that one script stamps
MOST_COMMANDS = 100  # of one step
ATTEMPTS = 5  # at a walk during which no server fails over

Walk = Generator[list[Command], list[object], None]
Visit = Callable[[dict[int, list[bytes]]], Walk]


def unjoined(keys: KeySpace) -> Generator[list[Command], list[object], list[int]]:
    """Return the buckets of which nobody has recorded that they have joined, or whose registry was lost since.

    Cost: one round trip.
    """
    looks = [(bucket, key, f) for bucket in range(keys.buckets) for key, f in _signs(keys, bucket)]
    found: dict[int, None] = {}
    for some in pieces(looks, MOST_COMMANDS):
        answers = yield [hmget(key, (field,)) for _, key, field in some]
        for (bucket, key, _), raw in zip(some, answers, strict=True):
            if list_of(raw, 1, key) == [None]:
                found[bucket] = None
    return list(found)


def _signs(keys: KeySpace, bucket: int) -> list[tuple[bytes, bytes]]:
    """Return the fields that a bucket has once it has joined: that the walk was complete, and that it stamps."""
    return [(keys.marks(bucket), JOINED), (keys.registries[bucket], STAMPED)]


def join(keys: KeySpace, buckets: list[int], mint: Callable[[], str]) -> Walk:
    """These buckets have joined. Cost: O(keys in the database)."""
    for some in pieces(buckets, MOST_COMMANDS):
        answers = yield [_stamp(keys, bucket, (), mint) for bucket in some]
        for raw in answers:
            reply_of(raw, Script.REGION_JOIN)
    yield from walk_over(keys, buckets, lambda some: _stamp_all(keys, some, mint))
    for some in pieces(buckets, MOST_COMMANDS):
        answers = yield [Command(Script.MARKS_SET, (keys.marks(bucket),), (JOINED, b"1")) for bucket in some]
        for raw in answers:
            reply_of(raw, Script.MARKS_SET)


def walk_over(keys: KeySpace, buckets: list[int], visit: Visit) -> Walk:
    """Hand all shards of these buckets over, a page at a time, by bucket; some of them more than once.

    Where a server has failed over meanwhile it begins anew: another one goes through its keys in another order.
    Raises: Unavailable, if that happens again and again.
    """
    for _ in range(ATTEMPTS):
        if (yield from _walk_once(keys, buckets, visit)):
            return
    raise Unavailable("no walk over all keys was complete: servers fail over again and again; to be repeated")


def _walk_once(keys: KeySpace, buckets: list[int], visit: Visit) -> Generator[list[Command], list[object], bool]:
    """Return whether it was complete."""
    bucket_of, wanted = bucket_finder(keys), set(buckets)
    servers = yield from _servers(keys, buckets)
    walked: set[bytes] = set()
    for bucket in buckets:
        if servers[bucket] and servers[bucket] in walked:
            continue
        walked.add(servers[bucket])
        cursor = b"0"
        while True:
            (raw,) = yield [scan(cursor, shards_pattern(keys.namespace), NAMES, keys.registries[bucket])]
            page = scanned(raw, fields=False)
            if page is None:
                raise BadReply("SCAN has told nothing")
            cursor, names = page
            found: dict[int, list[bytes]] = {}
            for key in names:
                if (of := bucket_of(key)) in wanted:
                    found.setdefault(of, []).append(key)
            if found:
                yield from visit(found)
            if cursor == b"0":
                break
    return servers == (yield from _servers(keys, buckets))


def _servers(keys: KeySpace, buckets: list[int]) -> Generator[list[Command], list[object], dict[int, bytes]]:
    """Return which run of which server has each bucket."""
    found: dict[int, bytes] = {}
    for some in pieces(buckets, MOST_COMMANDS):
        answers = yield [ask_for_run(keys.registries[bucket]) for bucket in some]
        found.update((bucket, run_of(raw)) for bucket, raw in zip(some, answers, strict=True))
    return found


def _stamp_all(keys: KeySpace, found: dict[int, list[bytes]], mint: Callable[[], str]) -> Walk:
    answers = yield [
        _stamp(keys, bucket, some, mint) for bucket, shards in found.items() for some in pieces(shards, MOST_STAMPED)
    ]
    asked = [some for shards in found.values() for some in pieces(shards, MOST_STAMPED)]
    narrowed: list[bytes] = []
    for some, raw in zip(asked, answers, strict=True):
        narrowed += [some[n - 1] for n in reply_of(raw, Script.REGION_JOIN).numbers()[1:]]
    for some in pieces(narrowed, MOST_COMMANDS):
        yield from _floor(keys, some)


def _floor(keys: KeySpace, shards0: Sequence[bytes]) -> Walk:
    """What these shards 0 hold copies of lies under floors where it came from."""
    commands: list[Command] = []
    answers = yield [hgetall(key) for key in shards0]
    for key, raw in zip(shards0, answers, strict=True):
        name = name_of(key)
        try:
            copies = copies_in(pairs_of(raw, name))
        except ValueError:
            continue  # somebody has put into it what is no count: it is not read either
        for copy, counted in copies.items():
            _, number, dot = copy.split(b".", 2)
            bucket, shard = keys.shard_key(name, int(number))
            commands.append(
                Command(Script.SHARD_FLOOR, (keys.registries[bucket], keys.index(bucket), shard), (dot, *counted))
            )
    for some in pieces(commands, MOST_COMMANDS):
        answers = yield list(some)
        for raw in answers:
            reply_of(raw, Script.SHARD_FLOOR)


def _stamp(keys: KeySpace, bucket: int, shards: Sequence[bytes], mint: Callable[[], str]) -> Command:
    generation: Argument = mint()[:5].encode()
    return Command(Script.REGION_JOIN, (keys.registries[bucket], keys.index(bucket), *shards), (generation,))


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
