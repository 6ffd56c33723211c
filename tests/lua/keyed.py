"""Calls of the scripts behind keyed increments, likes, seeds and bounded counters, as tests want to make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redis_counters.protocol.wire.commands import Argument, Script
from tests.lua.calls import GENERATION, INDEX, REGISTRY, Answer, Bucket

LENGTH = 10_000  # milliseconds of a slice
TTL = 20_000  # milliseconds: the longest for such slices
BRIEF_LENGTH, BRIEF_TTL = 5_000, 10_000  # milliseconds

Item = tuple[bytes, bytes, int]  # a shard, a digest, an amount
Liked = tuple[bytes, bytes, bytes, bytes]  # a shard, its users, "+" or "-", a user
Seeded = tuple[bytes, bytes, int]  # a shard, a slot, a total


def users(name: str, shard: int = 0) -> bytes:
    """Return the key of the users of a shard in the bucket of these tests."""
    return f"{{rc:0}}:l:{shard}:{name}".encode()


def slice_key(number: int, ttl: int = TTL) -> bytes:
    return f"{{rc:0}}:o:{ttl}:{number}".encode()


def now(bucket: Bucket) -> int:
    """Return the server's time in milliseconds."""
    seconds, micros = bucket.ask("TIME")
    return 1000 * int(seconds) + int(micros) // 1000


def settle(bucket: Bucket, *wanted: tuple[bytes, int], generation: bytes = GENERATION) -> Answer:
    keys = [REGISTRY, INDEX, *(key for key, _ in wanted)]
    return bucket.call(Script.KEYED_OPEN, keys, [generation, *(shards for _, shards in wanted)])


def once(
    bucket: Bucket,
    *items: Item,
    number: int | None = None,
    ttl: int = TTL,
    length: int = LENGTH,
    generation: bytes = GENERATION,
) -> Answer:
    """Call once_apply; without a number, with that of the slice of now, whichever that is when it arrives."""
    while True:
        guess = now(bucket) // length if number is None else number
        keys = [
            REGISTRY,
            INDEX,
            *(slice_key(guess + n, ttl) for n in (1, 0, -1, -2)),
            *(shard for shard, _, _ in items),
        ]
        values = [value for _, digest, amount in items for value in (digest, amount)]
        answer = bucket.call(Script.ONCE_APPLY, keys, [generation, length, guess, ttl, *values])
        if answer[0] != "SLICE" or number is not None:
            return answer


@dataclass(frozen=True)
class Asked:
    """An item of bounded_apply: "+" add, "-" spend, "r" give back; of the latter the amount is an id."""

    key: bytes
    verb: str
    digest: bytes
    amount: int | bytes
    floor: int | None = 0
    cap: int | None = None
    brief: bool = False

    @property
    def values(self) -> list[Argument]:
        start = min(0, self.cap or 0) if self.floor is None else self.floor
        bounds: list[Argument] = [b"" if bound is None else bound for bound in (self.floor, self.cap)]
        room: Argument = b"" if self.cap is None else self.cap - start
        return [self.verb.encode(), self.digest, self.amount, *bounds, room, b"b" if self.brief else b""]


def bounded_key(name: str) -> bytes:
    """Return the key of a bounded counter in the bucket of these tests."""
    return f"{{rc:0}}:b:{name}".encode()


def bounded(bucket: Bucket, *items: Asked, number: int | None = None, generation: bytes = GENERATION) -> Answer:
    """Call bounded_apply, as `once` does."""
    while True:
        guesses = [now(bucket) // length if number is None else number for length in (LENGTH, BRIEF_LENGTH)]
        (long, brief) = guesses
        keys = [REGISTRY, INDEX]
        keys += [slice_key(long + n, TTL) for n in (1, 0, -1, -2)]
        keys += [slice_key(brief + n, BRIEF_TTL) for n in (1, 0, -1, -2)]
        keys += [item.key for item in items]
        leading: list[Argument] = [generation, LENGTH, long, TTL, BRIEF_LENGTH, brief, BRIEF_TTL]
        values: list[Argument] = [value for item in items for value in item.values]
        answer = bucket.call(Script.BOUNDED_APPLY, keys, [*leading, *values])
        if answer[0] != "SLICE" or number is not None:
            return answer


def answered(bucket: Bucket, *items: Asked) -> list[bytes]:
    """Return what bounded_apply answers to each item."""
    return answers(bounded(bucket, *items))[1:]


def answers(answer: Answer) -> list[bytes]:
    """Return what was answered to each item; the whole was OK."""
    word, *values = answer
    assert word == "OK"
    assert all(isinstance(value, bytes) for value in values)
    return values  # type: ignore[return-value] # just asserted


def counted(bucket: Bucket, *items: Item, ttl: int = TTL) -> list[bytes]:
    """Return what once_apply answers to each item."""
    return answers(once(bucket, *items, ttl=ttl))[1:]


def like(bucket: Bucket, *items: Liked, generation: bytes = GENERATION) -> Answer:
    keys = [REGISTRY, INDEX, *(key for shard, members, _, _ in items for key in (shard, members))]
    return bucket.call(Script.LIKES_APPLY, keys, [generation, *(v for _, _, sign, user in items for v in (sign, user))])


def seed(bucket: Bucket, *items: Seeded, generation: bytes = GENERATION) -> Answer:
    keys = [REGISTRY, INDEX, *(shard for shard, _, _ in items)]
    return bucket.call(Script.SLOTS_SEED, keys, [generation, *(v for _, slot, total in items for v in (slot, total))])


def slices(bucket: Bucket) -> list[bytes]:
    """Return the keys of all slices, in order of time."""
    found: list[bytes] = bucket.ask("KEYS", "*:o:*")
    return sorted(found, key=lambda key: int(key.rpartition(b":")[2]))


def age(bucket: Bucket, digest: bytes, milliseconds: int, ttl: int = TTL, length: int = LENGTH) -> None:
    """The key's record is that much older, in the slice where it would lie if it had been written then."""
    (old,) = [key for key in slices(bucket) if bucket.client.hexists(key, digest)]
    text, _, offset = bucket.fields(old)[digest].rpartition(b" ")
    written = int(old.rpartition(b":")[2]) * length + int(offset) - milliseconds
    bucket.client.hdel(old, digest)
    new = slice_key(written // length, ttl)
    bucket.client.hset(new, digest, b"%b %d" % (text, written % length))


def batch(count: int, shard: bytes) -> Sequence[Item]:
    return [(shard, b"key %d" % i, 1) for i in range(count)]
