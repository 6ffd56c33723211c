"""For every word that a script may answer, a way to get it; and the states of a server in which scripts must refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed, regions
from tests.lua.calls import GENERATION, INDEX, META, OWNER, REGISTRY, Answer, Bucket, key

Scenario = Callable[[Bucket], Answer]
A, B = key("a"), key("b")


def opened_namespace(bucket: Bucket) -> Answer:
    return bucket.call(Script.NAMESPACE_OPEN, [META], [1, 16, b"main"])


def opened(bucket: Bucket) -> Answer:
    return bucket.open()


def reopened_after_folding(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.end(actor)
    return bucket.open(OWNER, actor)


def reopened_after_cleaning(bucket: Bucket) -> Answer:
    bucket.actor()
    bucket.client.hset(REGISTRY, "c", 1)
    return bucket.open(b"otherowner1234", GENERATION + b".1.zzzz")


def closed(bucket: Bucket) -> Answer:
    return bucket.close(bucket.actor())


def closed_after_folding(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.end(actor)
    return bucket.close(actor)


def closed_after_a_fail_over(bucket: Bucket) -> Answer:
    return bucket.close(bucket.actor(), base=1)


def closed_unknown(bucket: Bucket) -> Answer:
    return bucket.close(b"gen00.1.zzzz")


def merged(bucket: Bucket) -> Answer:
    return bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 1)], fresh_minus=[(A, 1)])


def merged_twice(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    return bucket.merge(actor, 1, fresh_plus=[(A, 1)])


def merged_after_a_fail_over(bucket: Bucket) -> Answer:
    return bucket.merge(bucket.actor(), 2, 1, known_plus=[(A, 1)])


def merged_after_closing(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.close(actor)
    return bucket.merge(actor, 1, fresh_plus=[(A, 1)])


def merged_unknown(bucket: Bucket) -> Answer:
    return bucket.merge(b"gen00.1.zzzz", 1, fresh_plus=[(A, 1)])


def merged_after_deletion(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    bucket.client.delete(A)
    return bucket.merge(actor, 2, 1, fresh_plus=[(B, 1)], known_plus=[(A, 2)])


def folded(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    return bucket.end(actor, A, B)


def folded_open(bucket: Bucket) -> Answer:
    return bucket.fold(bucket.actor(), A)


def folded_early(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.close(actor)
    return bucket.fold(actor, A, delay=60)


def reaped(bucket: Bucket) -> Answer:
    return bucket.reap(0, bucket.actor())


def cleaned(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.end(actor)
    return bucket.clean(bucket.now() + 1, 0, actor)


def leased(bucket: Bucket) -> Answer:
    opened_namespace(bucket)
    return bucket.lease(60)


def leased_twice(bucket: Bucket) -> Answer:
    leased(bucket)
    return bucket.lease(60)


def leased_without_a_namespace(bucket: Bucket) -> Answer:
    return bucket.lease(60)


def folded_unknown(bucket: Bucket) -> Answer:
    return bucket.fold(b"gen00.1.zzzz", A)


def settled(bucket: Bucket) -> Answer:
    return keyed.settle(bucket, (A, 1), (B, 4))


def settled_nowhere(bucket: Bucket) -> Answer:
    return keyed.settle(bucket, (A, 1), generation=b"")


def counted_once(bucket: Bucket) -> Answer:
    return keyed.once(bucket, (A, b"key", 1))


def counted_in_another_slice(bucket: Bucket) -> Answer:
    return keyed.once(bucket, (A, b"key", 1), number=7)


def counted_nowhere(bucket: Bucket) -> Answer:
    return keyed.once(bucket, (A, b"key", 1), generation=b"")


def liked(bucket: Bucket) -> Answer:
    return keyed.like(bucket, (A, keyed.users("a"), b"+", b"user"))


def liked_nowhere(bucket: Bucket) -> Answer:
    return keyed.like(bucket, (A, keyed.users("a"), b"+", b"user"), generation=b"")


def seeded(bucket: Bucket) -> Answer:
    return keyed.seed(bucket, (A, b"s.x", 5), (B, b"s.x", -5))


def seeded_nowhere(bucket: Bucket) -> Answer:
    return keyed.seed(bucket, (A, b"s.x", 5), generation=b"")


def spent(bucket: Bucket) -> Answer:
    item = keyed.Asked(keyed.bounded_key("a"), "+", b"key", 5)
    return keyed.bounded(bucket, item, keyed.Asked(item.key, "-", b"other", 5, brief=True))


def spent_in_another_slice(bucket: Bucket) -> Answer:
    return keyed.bounded(bucket, keyed.Asked(keyed.bounded_key("a"), "+", b"key", 5), number=7)


def spent_nowhere(bucket: Bucket) -> Answer:
    return keyed.bounded(bucket, keyed.Asked(keyed.bounded_key("a"), "+", b"key", 5), generation=b"")


def merged_into_what_is_sealed(bucket: Bucket) -> Answer:
    actor = bucket.actor()
    bucket.seal(A)
    return bucket.merge(actor, 1, floored_plus=[(A, 1, 0)])


def widened(bucket: Bucket) -> Answer:
    return bucket.widen(A, B)


def widened_nowhere(bucket: Bucket) -> Answer:
    return bucket.widen(A, generation=b"")


def narrowing(bucket: Bucket) -> Answer:
    bucket.widen(A)
    return bucket.narrow(A)


def narrowing_few(bucket: Bucket) -> Answer:
    bucket.widen(A)
    return bucket.narrow(A, 4)


def narrowing_keyed(bucket: Bucket) -> Answer:
    keyed.settle(bucket, (A, 4))
    return bucket.narrow(A)


def narrowing_what_expires(bucket: Bucket) -> Answer:
    bucket.widen(A)
    bucket.client.expire(A, 1000)
    return bucket.narrow(A)


def narrowing_in_regions(bucket: Bucket) -> Answer:
    bucket.widen(A)
    regions.join(bucket, A)
    return bucket.narrow(A)


def narrowing_nowhere(bucket: Bucket) -> Answer:
    return bucket.narrow(A)


def sealed(bucket: Bucket) -> Answer:
    return bucket.seal(A)


def sealed_busy(bucket: Bucket) -> Answer:
    merged(bucket)
    return bucket.seal(A)


def sealed_what_expires(bucket: Bucket) -> Answer:
    folded(bucket)
    bucket.client.expire(A, 1000)
    return bucket.seal(A)


def sealed_odd(bucket: Bucket) -> Answer:
    folded(bucket)
    bucket.client.hset(A, "1+", 5)
    return bucket.seal(A)


def unsealed(bucket: Bucket) -> Answer:
    folded(bucket)
    bucket.seal(A)
    return bucket.unseal(A)


def unsealed_by_another(bucket: Bucket) -> Answer:
    bucket.seal(A)
    return bucket.unseal(A, b"gen00.8")


def narrowed(bucket: Bucket) -> Answer:
    id = narrowing(bucket)[1]
    assert isinstance(id, bytes)
    return bucket.apply(A, id, 1)


def narrowed_in_vain(bucket: Bucket) -> Answer:
    id = narrowing(bucket)[1]
    assert isinstance(id, bytes)
    bucket.widen(A, wanted=2)
    return bucket.apply(A, id, 1)


def joined(bucket: Bucket) -> Answer:
    return regions.join(bucket, A, B)


def listed(bucket: Bucket) -> Answer:
    regions.join(bucket, A, B)
    return regions.changes(bucket)


def listed_in_part(bucket: Bucket) -> Answer:
    told_by_a_peer(bucket)
    return regions.changes(bucket, peer=b"ap")


def listed_in_one_deployment(bucket: Bucket) -> Answer:
    bucket.open()
    return regions.changes(bucket)


def told_by_a_peer(bucket: Bucket) -> Answer:
    regions.join(bucket)
    bucket.client.set(B, "mine")
    return regions.merge(bucket, (A, b"0 0 us/gen01.0,5"), (B, b"0 0 us/gen01.0,5"))


def told_too_late(bucket: Bucket) -> Answer:
    told_by_a_peer(bucket)
    return regions.merge(bucket, (A, b"0 0 us/gen01.0,5"))


def told_to_one_deployment(bucket: Bucket) -> Answer:
    return regions.merge(bucket, (A, b"0 0 us/gen01.0,5"))


def digested(bucket: Bucket) -> Answer:
    merged(bucket)
    return regions.digest(bucket, A, B)


def dropped(bucket: Bucket) -> Answer:
    regions.join(bucket)
    regions.merge(bucket, (A, b"0 0 us/gen01.0,5,0,5"))
    return regions.drop(bucket, A, indexes=[regions.merged_key()])


def entered(bucket: Bucket) -> Answer:
    regions.note(bucket, A)
    return regions.enter(bucket)


def dot_settled(bucket: Bucket) -> Answer:
    made_again(bucket, A)
    return regions.settle(bucket, A)


def dot_settled_in_one_deployment(bucket: Bucket) -> Answer:
    return regions.settle(bucket, A)


def made_again(bucket: Bucket, *names: bytes) -> None:
    """Shards that were known, lost, and made by a large flush."""
    regions.join(bucket, *names)
    for name in names:
        bucket.client.hset(name, mapping={"d": "gen00.0", "gen00.1.own+": 5})
    regions.note(bucket, *names, new=True)
    regions.enter(bucket)


def dropped_in_part(bucket: Bucket) -> Answer:
    told_by_a_peer(bucket)
    return regions.drop(bucket, A)


def dropped_in_one_deployment(bucket: Bucket) -> Answer:
    return regions.drop(bucket, A)


def named_among_regions(bucket: Bucket) -> Answer:
    return regions.members(bucket, b"eu", b"id1", b"us", b"id2", b"member")


def named_otherwise(bucket: Bucket) -> Answer:
    named_among_regions(bucket)
    return regions.members(bucket, b"ap", b"id1")


def marks_set(bucket: Bucket) -> Answer:
    return regions.set_marks(bucket, b"j", b"1")


def beaten(bucket: Bucket) -> Answer:
    return regions.beat(bucket)


def forgotten(bucket: Bucket) -> Answer:
    bucket.client.hset(A, mapping={"d": "gen00.1", "@us/gen00.0+": 5, "~@us/gen00.0+": 5, "@/gen00.0+": 1})
    return regions.forget(bucket, A)


def reset(bucket: Bucket) -> Answer:
    merged(bucket)
    return bucket.reset(A)


def renewed(bucket: Bucket) -> Answer:
    merged(bucket)
    regions.join(bucket, A)
    return bucket.renew(A)


def renewed_where_nothing_is_stamped(bucket: Bucket) -> Answer:
    merged(bucket)
    return bucket.renew(A)


def floored(bucket: Bucket) -> Answer:
    folded(bucket)
    regions.join(bucket, A)
    return bucket.call(Script.SHARD_FLOOR, [REGISTRY, INDEX, A], [b"gen00.2", 1, 0])


def floored_where_nothing_is_stamped(bucket: Bucket) -> Answer:
    folded(bucket)
    return bucket.call(Script.SHARD_FLOOR, [REGISTRY, INDEX, A], [b"gen00.2", 1, 0])


SCENARIOS: dict[tuple[Script, str], Scenario] = {
    (Script.NAMESPACE_OPEN, "OK"): opened_namespace,
    (Script.ACTOR_OPEN, "OPEN"): opened,
    (Script.ACTOR_OPEN, "FOLDED"): reopened_after_folding,
    (Script.ACTOR_OPEN, "GONE"): reopened_after_cleaning,
    (Script.ACTOR_CLOSE, "OK"): closed,
    (Script.ACTOR_CLOSE, "FOLDED"): closed_after_folding,
    (Script.ACTOR_CLOSE, "REGRESS"): closed_after_a_fail_over,
    (Script.ACTOR_CLOSE, "UNKNOWN"): closed_unknown,
    (Script.SLOTS_MERGE, "OK"): merged,
    (Script.SLOTS_MERGE, "STALE"): merged_twice,
    (Script.SLOTS_MERGE, "REGRESS"): merged_after_a_fail_over,
    (Script.SLOTS_MERGE, "CLOSED"): merged_after_closing,
    (Script.SLOTS_MERGE, "UNKNOWN"): merged_unknown,
    (Script.SLOTS_MERGE, "MISSING"): merged_after_deletion,
    (Script.SLOTS_FOLD, "OK"): folded,
    (Script.SLOTS_FOLD, "OPEN"): folded_open,
    (Script.SLOTS_FOLD, "EARLY"): folded_early,
    (Script.SLOTS_FOLD, "UNKNOWN"): folded_unknown,
    (Script.ACTORS_REAP, "OK"): reaped,
    (Script.ACTORS_CLEAN, "OK"): cleaned,
    (Script.JANITOR_LEASE, "OK"): leased,
    (Script.JANITOR_LEASE, "LATER"): leased_twice,
    (Script.JANITOR_LEASE, "NONE"): leased_without_a_namespace,
    (Script.KEYED_OPEN, "OK"): settled,
    (Script.KEYED_OPEN, "UNKNOWN"): settled_nowhere,
    (Script.ONCE_APPLY, "OK"): counted_once,
    (Script.ONCE_APPLY, "SLICE"): counted_in_another_slice,
    (Script.ONCE_APPLY, "UNKNOWN"): counted_nowhere,
    (Script.LIKES_APPLY, "OK"): liked,
    (Script.LIKES_APPLY, "UNKNOWN"): liked_nowhere,
    (Script.SLOTS_SEED, "OK"): seeded,
    (Script.SLOTS_SEED, "UNKNOWN"): seeded_nowhere,
    (Script.BOUNDED_APPLY, "OK"): spent,
    (Script.BOUNDED_APPLY, "SLICE"): spent_in_another_slice,
    (Script.BOUNDED_APPLY, "UNKNOWN"): spent_nowhere,
    (Script.SLOTS_MERGE, "SEALED"): merged_into_what_is_sealed,
    (Script.SHARDS_WIDEN, "OK"): widened,
    (Script.SHARDS_WIDEN, "UNKNOWN"): widened_nowhere,
    (Script.NARROW_OPEN, "OK"): narrowing,
    (Script.NARROW_OPEN, "FEW"): narrowing_few,
    (Script.NARROW_OPEN, "KEYED"): narrowing_keyed,
    (Script.NARROW_OPEN, "EXPIRES"): narrowing_what_expires,
    (Script.NARROW_OPEN, "JOINED"): narrowing_in_regions,
    (Script.NARROW_OPEN, "UNKNOWN"): narrowing_nowhere,
    (Script.SHARD_SEAL, "OK"): sealed,
    (Script.SHARD_SEAL, "BUSY"): sealed_busy,
    (Script.SHARD_SEAL, "EXPIRES"): sealed_what_expires,
    (Script.SHARD_SEAL, "ODD"): sealed_odd,
    (Script.SHARD_UNSEAL, "OK"): unsealed,
    (Script.SHARD_UNSEAL, "OTHER"): unsealed_by_another,
    (Script.NARROW_APPLY, "OK"): narrowed,
    (Script.NARROW_APPLY, "VOID"): narrowed_in_vain,
    (Script.SHARD_RESET, "OK"): reset,
    (Script.SHARD_FLOOR, "OK"): floored,
    (Script.SHARD_FLOOR, "UNJOINED"): floored_where_nothing_is_stamped,
    (Script.SHARD_RENEW, "OK"): renewed,
    (Script.SHARD_RENEW, "UNJOINED"): renewed_where_nothing_is_stamped,
    (Script.REGION_JOIN, "OK"): joined,
    (Script.CHANGES_LIST, "OK"): listed,
    (Script.CHANGES_LIST, "OTHERS"): listed_in_part,
    (Script.CHANGES_LIST, "UNJOINED"): listed_in_one_deployment,
    (Script.NOTES_ENTER, "OK"): entered,
    (Script.DOTS_SETTLE, "OK"): dot_settled,
    (Script.DOTS_SETTLE, "UNJOINED"): dot_settled_in_one_deployment,
    (Script.ENTRIES_MERGE, "OK"): told_by_a_peer,
    (Script.ENTRIES_MERGE, "OTHER"): told_too_late,
    (Script.ENTRIES_MERGE, "UNJOINED"): told_to_one_deployment,
    (Script.ENTRIES_DIGEST, "OK"): digested,
    (Script.ENTRIES_DROP, "OK"): dropped,
    (Script.ENTRIES_DROP, "OTHERS"): dropped_in_part,
    (Script.ENTRIES_DROP, "UNJOINED"): dropped_in_one_deployment,
    (Script.MEMBERS_SET, "OK"): named_among_regions,
    (Script.MEMBERS_SET, "BOUND"): named_otherwise,
    (Script.MARKS_SET, "OK"): marks_set,
    (Script.EXCHANGE_BEAT, "OK"): beaten,
    (Script.ENTRIES_FORGET, "OK"): forgotten,
}


def most_to_join(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    return lambda given: regions.join(given, *names)


def most_to_list(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    """In every index, more of one version than are asked for."""
    regions.join(bucket, *names)
    mark, _, _ = regions.told(regions.changes(bucket))
    regions.join(bucket, key("x"), key("y"), key("z"))
    for n in range(len(names)):
        bucket.client.zadd(regions.merged_key(b"r%d" % n), {"0:x": 2, "0:y": 2})
    return lambda given: regions.changes(given, mark, 1, others=len(names))


def most_to_enter(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    """A note for each name, which is looked up."""
    for name in names:
        regions.note(bucket, name, new=True)
    return lambda given: regions.enter(given, len(names))


def most_to_settle(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    made_again(bucket, *names)
    return lambda given: regions.settle(given, *names)


def most_to_read(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    for name in names:
        bucket.client.hset(name, mapping={"d": "gen00.1", "gen00.1.own+": 5})
    return lambda given: (b"", *regions.read(given, *names))


def most_to_digest(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    most_to_read(bucket, names)
    return lambda given: regions.digest(given, *names)


def most_to_merge(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    """Into counters that expire some time after they have, by the source's clock."""
    regions.join(bucket, *names)
    for name in names:
        bucket.client.hset(name, mapping={"d": "gen00.1", "gen00.1.own+": 5})
    later = keyed.now(bucket) + 10_000_000
    return lambda given: regions.merge(given, *((name, b"0 %d us/gen01.0,5" % later) for name in names))


def most_to_drop(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    regions.join(bucket)
    regions.merge(bucket, *((name, b"0 0 us/gen01.0,5,0,5") for name in names))
    return lambda given: regions.drop(given, *names, indexes=[regions.merged_key()])


def most_members(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    told = [value for n in range(len(names)) for value in (b"r%d" % n, b"id", b"member")]
    return lambda given: regions.members(given, b"eu", b"id1", *told)


def most_marks(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    values = [value for n in range(len(names)) for value in (b"<r%d" % n, b"-")]
    return lambda given: regions.set_marks(given, *values)


def most_beats(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    """Exchanges that are gone."""
    for n in range(len(names)):
        bucket.client.hset(regions.MARKS, f"h:us gone.{n}", "1 1 1")
    return regions.beat


def most_to_forget(bucket: Bucket, names: Sequence[bytes]) -> Callable[[Bucket], Answer]:
    for name in names:
        bucket.client.hset(name, mapping={"d": "gen00.1", "@us/gen00.0+": 5, "~@us/gen00.0+": 5})
    return lambda given: regions.forget(given, *names)


REGIONS: dict[Script, Callable[[Bucket, Sequence[bytes]], Callable[[Bucket], Answer]]] = {
    Script.REGION_JOIN: most_to_join,
    Script.CHANGES_LIST: most_to_list,
    Script.NOTES_ENTER: most_to_enter,
    Script.DOTS_SETTLE: most_to_settle,
    Script.ENTRIES_READ: most_to_read,
    Script.ENTRIES_MERGE: most_to_merge,
    Script.ENTRIES_DIGEST: most_to_digest,
    Script.ENTRIES_DROP: most_to_drop,
    Script.MEMBERS_SET: most_members,
    Script.MARKS_SET: most_marks,
    Script.EXCHANGE_BEAT: most_beats,
    Script.ENTRIES_FORGET: most_to_forget,
}


def at_most(bucket: Bucket, script: Script, items: int) -> Callable[[Bucket], Answer]:
    """The bucket is such that the script has as much to do as it ever has; return the call."""
    if script is Script.NAMESPACE_OPEN:
        return opened_namespace
    if script is Script.JANITOR_LEASE:
        opened_namespace(bucket)
        return lambda given: given.lease(0)
    if script in (Script.ACTORS_REAP, Script.ACTORS_CLEAN):
        actors = [bucket.actor(b"owner%08d" % i) for i in range(items)]
        if script is Script.ACTORS_REAP:
            return lambda given: given.reap(0, *actors)
        for each in actors:
            bucket.end(each)
        return lambda given: given.clean(2**40, 0, *actors)
    names = [key(i) for i in range(items)]
    actor = bucket.actor()
    if script is Script.KEYED_OPEN:
        return lambda given: keyed.settle(given, *((name, 4) for name in names))
    if script in (Script.ONCE_APPLY, Script.BOUNDED_APPLY):
        around = keyed.now(bucket) // keyed.LENGTH
        for number in range(around - 3, around + 4):  # whichever slice it will be, its neighbours are there
            bucket.client.hset(keyed.slice_key(number), b"other", b"1 0")
    if script is Script.BOUNDED_APPLY:
        asked = [keyed.Asked(keyed.bounded_key(f"{i}"), "+", b"key %d" % i, 1, 0, 5) for i in range(items)]
        return lambda given: keyed.bounded(given, *asked)
    if script is Script.ONCE_APPLY:
        return lambda given: keyed.once(given, *((name, b"key %d" % i, 1) for i, name in enumerate(names)))
    if script is Script.LIKES_APPLY:
        return lambda given: keyed.like(given, *((n, keyed.users(f"{i}"), b"+", b"x") for i, n in enumerate(names)))
    if script is Script.SLOTS_SEED:
        for name in names:
            bucket.client.hset(name, b"s.x-", 5)
        return lambda given: keyed.seed(given, *((name, b"s.x", 3) for name in names))
    if script is Script.ACTOR_OPEN:
        bucket.close(actor)
        return opened
    if script is Script.ACTOR_CLOSE:
        return lambda given: given.close(actor)
    if script is Script.SLOTS_MERGE:
        return lambda given: given.merge(actor, 1, floored_plus=[(name, 2, 1) for name in names])
    if script is Script.SHARDS_WIDEN:
        return lambda given: given.widen(*names)
    if script in (Script.NARROW_OPEN, Script.NARROW_APPLY):
        bucket.widen(A)
        if script is Script.NARROW_OPEN:
            return lambda given: given.narrow(A)
        id = bucket.narrow(A)[1]
        assert isinstance(id, bytes)
        copies: list[bytes | int] = []
        for i in range(items):
            copies += (b"s.%d.gen00.9" % i, 5, 6)
        return lambda given: given.apply(A, id, 1, *copies)
    if script in (Script.SHARD_SEAL, Script.SHARD_UNSEAL):
        folded(bucket)
        if script is Script.SHARD_SEAL:
            return lambda given: given.seal(A)
        bucket.seal(A)
        return lambda given: given.unseal(A)
    if script in REGIONS:
        return REGIONS[script](bucket, names)
    if script is Script.SHARD_FLOOR:
        folded(bucket)
        regions.join(bucket, A)
        return lambda given: given.call(Script.SHARD_FLOOR, [REGISTRY, INDEX, A], [b"gen00.2", 1, 0])
    if script is Script.SHARD_RENEW:
        merged(bucket)
        bucket.client.hset(A, "+", 5)
        bucket.client.hset(REGISTRY, "v", 1)
        return lambda given: given.renew(A)
    if script is Script.SHARD_RESET:
        merged(bucket)
        bucket.client.hset(A, "+", 5)
        bucket.client.hset(REGISTRY, "v", 1)
        return lambda given: given.reset(A, delete=1)
    told = [(name, 2, 1) for name in names]
    bucket.merge(actor, 1, floored_plus=told, floored_minus=told)
    bucket.close(actor)
    if script is Script.SLOTS_FOLD:
        return lambda given: given.fold(actor, *names)
    return lambda given: given.read(*names)


@contextmanager
def full_memory(bucket: Bucket) -> Iterator[None]:
    """The server has no memory left and evicts nothing."""
    bucket.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        bucket.client.config_set("maxmemory", 0)


@contextmanager
def read_only(bucket: Bucket) -> Iterator[None]:
    """The server is a follower, as a primary is after it lost a fail-over; its own primary is nowhere."""
    bucket.ask("REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        bucket.ask("REPLICAOF", "NO", "ONE")


@contextmanager
def denied(bucket: Bucket, *commands: str) -> Iterator[Bucket]:
    """A bucket whose user may do everything but these commands."""
    client = bucket.client
    bucket.ask("ACL", "SETUSER", "partly", "on", ">secret", "~*", "+@all", *(f"-{c}" for c in commands))
    place = client.connection_pool.connection_kwargs
    other = type(client)(host=place["host"], port=place["port"], username="partly", password="secret")  # noqa: S106 - a server of this test
    try:
        yield Bucket(other)
    finally:
        other.close()
        bucket.ask("ACL", "DELUSER", "partly")
