"""Writers that come and go, and a janitor that a test drives step by step; nothing here waits for time to pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import redis

from redis_counters.crdt.slotmap import parse
from redis_counters.drivers.redis_py.errors import error_reply
from redis_counters.drivers.redis_py.wire import words
from redis_counters.protocol.upkeep.janitor import JanitorReport, Steps, Upkeep, one_pass
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import KeySpace, meta_key
from redis_counters.protocol.wire.registry import ActorRecord, RegistryPage

UPKEEP = Upkeep(actor_ttl=3600, delay=120, retention=86_400)
LONG = 10 * 86_400  # longer than anything that a janitor waits for


def answers(client: Any, commands: list[Command]) -> list[Any]:
    """Return the server's answers, from one round trip; a script goes with its text where it is not known."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*words(command), NEVER_DECODE=True)
    found = pipeline.execute(raise_on_error=False)
    for n, answer in enumerate(found):
        if isinstance(answer, redis.exceptions.NoScriptError):
            try:
                found[n] = client.execute_command(*words(commands[n], text=True), NEVER_DECODE=True)
            except redis.ResponseError as error:
                found[n] = error
    return [error_reply(a) if isinstance(a, redis.ResponseError) else a for a in found]


def drive(client: Any, steps: Steps, each: Callable[[list[Command]], None] = lambda _: None) -> int:
    """Drive a generator of the janitor to its end; return how many steps it took. ``each``: after every step."""
    count, told = 0, None
    while True:
        try:
            commands = next(steps) if told is None else steps.send(told)
        except StopIteration:
            return count
        told = answers(client, commands)
        count += 1
        each(commands)


class House:
    """A namespace on a server, with actors made by calls of the scripts."""

    def __init__(self, client: Any, *, buckets: int = 4, namespace: bytes = b"rc") -> None:
        self.client: Any = client
        self.keys = KeySpace(namespace, buckets)
        self.numbers = itertools.count()
        self.call(Script.NAMESPACE_OPEN, [meta_key(namespace)], 1, buckets, b"main")

    def call(self, script: Script, keys: list[bytes], *args: bytes | int) -> list[Any]:
        (reply,) = answers(self.client, [Command(script, keys, args)])
        assert isinstance(reply, list), reply
        return reply

    def open(self, bucket: int) -> bytes:
        """Return a new actor."""
        owner = b"owner%010d" % next(self.numbers)
        reply = self.call(
            Script.ACTOR_OPEN,
            [self.keys.registries[bucket], self.keys.index(bucket)],
            owner,
            b"",
            b"gen%02d" % bucket,
            b"test",
            120,
        )
        assert isinstance(reply[1], bytes)
        return reply[1]

    def tell(self, bucket: int, actor: bytes, seq: int, totals: dict[bytes, int]) -> bytes:
        """The actor flushes these totals, by key; return what word was answered."""
        head = (actor, seq, 0, 0, len(totals), 0, 0, 0, 0, 0, 0, 0)
        keys = [self.keys.registries[bucket], self.keys.index(bucket), *totals]
        word = self.call(Script.SLOTS_MERGE, keys, *head, *totals.values())[0]
        assert isinstance(word, bytes)
        return word

    def short_lived(self, name: bytes, amount: int = 1, shard: int = 0) -> tuple[int, bytes]:
        """A client has counted that, and is gone without closing; return its bucket and actor."""
        bucket, key = self.keys.shard_key(name, shard)
        actor = self.open(bucket)
        assert self.tell(bucket, actor, 1, {key: amount}) == b"OK"
        return bucket, actor

    def records(self) -> Iterator[tuple[int, ActorRecord]]:
        for bucket, registry in enumerate(self.keys.registries):
            for record in RegistryPage(self.client.hgetall(registry).items()).records:
                yield bucket, record

    def states(self, display: bytes = b"") -> str:
        """Return the states of all actors, as letters in order; or of those with that name for people."""
        return "".join(sorted(r.state.decode() for _, r in self.records() if display in (b"", r.display)))

    def age(self, seconds: int = LONG, display: bytes = b"") -> None:
        """That much time has passed, as far as records and walks tell; or records with that name for people."""
        age(self.client, self.keys, seconds, display)

    def value(self, name: bytes, shards: int = 1) -> int:
        fields: list[Any] = [self.client.hgetall(self.keys.shard_key(name, shard)[1]) for shard in range(shards)]
        return sum(parse(each).value for each in fields)

    def fields(self) -> int:
        """Return how many fields there are in all keys but the namespace's record, and the indexes, which are empty."""
        found: list[bytes] = self.client.keys("{*")
        return sum(int(self.client.hlen(key)) for key in found if not key.endswith(b"}:x"))

    def hold_back(self) -> None:
        """Somebody has begun a pass just now, as far as others know: for a while none of them begins one."""
        self.client.hset(meta_key(self.keys.namespace), "j", int(self.client.time()[0]))

    def clean_up(self, each: Callable[[list[Command]], None] = lambda _: None, **options: Any) -> JanitorReport:
        """Keep house once."""
        report = JanitorReport()
        drive(self.client, one_pass(self.keys, UPKEEP, report, **options), each)
        return report


def age(client: Any, keys: KeySpace, seconds: int = LONG, display: bytes = b"") -> None:
    """As `House.age`, whoever made the actors."""
    for registry in keys.registries:
        fields: dict[bytes, bytes] = client.hgetall(registry)
        records = [r for r in RegistryPage(fields.items()).records if display in (b"", r.display)]
        older = {r.actor: aged(r, seconds) for r in records}
        if b"w" in fields:
            older[b"w"] = b"%d" % (int(fields[b"w"]) - seconds)
        if older:
            client.hset(registry, mapping=dict(older))
    client.hdel(meta_key(keys.namespace), "j")


def aged(record: ActorRecord, seconds: int) -> bytes:
    """Return the record as it would be had it changed so much earlier."""
    seen = b"%d" % (record.seen - seconds)
    return b" ".join([record.state, b"%d" % record.seq, seen, record.owner, record.display])
