"""For every word that a script may answer, a way to get it; and the states of a server in which scripts must refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis_counters.protocol.commands import Script
from tests.lua import keyed
from tests.lua.calls import GENERATION, META, OWNER, REGISTRY, Answer, Bucket, key

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
    if script is Script.ONCE_APPLY:
        around = keyed.now(bucket) // keyed.LENGTH
        for number in range(around - 3, around + 4):  # whichever slice it will be, its neighbours are there
            bucket.client.hset(keyed.slice_key(number), b"other", b"1 0")
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
        bucket.merge(actor, 1, fresh_plus=[(name, 1) for name in names])
        return lambda given: given.merge(actor, 2, fresh_plus=[(name, 2) for name in names])
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
