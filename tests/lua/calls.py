"""Scripts called on a real server, every reply held to the contract and to the header."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import redis

from redis_counters.crdt.slotmap import SlotMap, parse
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import CONTRACTS, Argument, Script
from tests.lua.headers import header

Answer = tuple[str | bytes | int, ...]
Items = Sequence[tuple[bytes, int]]
Floored = Sequence[tuple[bytes, int, int]]

REGISTRY = b"{rc:0}:a"
INDEX = b"{rc:0}:x"
META = b"rc:meta"
LONG = b"0:" + 64 * b"-"  # is no shard, and in every index of what was changed here
OWNER = b"aaaaabbbbcccccccc"
GENERATION = b"gen00"
HIGHEST = 2**63 - 1


def key(name: str | int, shard: int = 0) -> bytes:
    """Return the key of a shard in the bucket of these tests."""
    return f"{{rc:0}}:c:{shard}:{name}".encode()


SECTIONS = ("fresh_plus", "fresh_minus", "known_plus", "known_minus", "floored_plus", "floored_minus", "widened")


def items_for(section: str, names: Sequence[bytes]) -> list[tuple[bytes, int] | tuple[bytes, int, int]]:
    """Return an item a name, with 9 as its value and 4 as its floor."""
    return [(name, 9, 4) if section.startswith("floored") else (name, 9) for name in names]


class Bucket:
    """One bucket of a server, as the scripts see it."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.ask: Callable[..., Any] = client.execute_command
        self.called: Script | None = None

    # -- calls

    def call(self, script: Script, keys: Sequence[bytes], args: Sequence[Argument] = ()) -> Answer:
        """Return the reply: its word as str, then values. Raises: ResponseError."""
        self.called = script
        contract, head = CONTRACTS[script], header(script)
        assert len(keys) == len(contract.keys) or (contract.more_keys and len(keys) > len(contract.keys))
        assert len(args) == len(contract.args) or (contract.more_args and len(args) > len(contract.args))
        sha = scripts.digest(script)
        try:
            raw = self.ask("EVALSHA", sha, len(keys), *keys, *args)
        except redis.exceptions.NoScriptError:
            raw = self.ask("EVAL", scripts.text(script), len(keys), *keys, *args)
        assert isinstance(raw, list)
        if not contract.replies:
            return tuple(raw)
        word, values = raw[0].decode(), raw[1:]
        assert word in contract.replies, f"{script.value} answers {word}, which is not in its contract"
        assert head.replies[word].fits(len(values)), f"{script.value} answers {raw}, not as its header says"
        return (word, *values)

    def open(
        self,
        owner: bytes = OWNER,
        want: bytes = b"",
        generation: bytes = GENERATION,
        display: bytes = b"test",
        delay: Argument = 120,
    ) -> Answer:
        return self.call(Script.ACTOR_OPEN, [REGISTRY, INDEX], [owner, want, generation, display, delay])

    def actor(self, owner: bytes = OWNER) -> bytes:
        """Return the id of a newly opened actor."""
        word, actor, seq = self.open(owner)
        assert isinstance(actor, bytes)
        assert (word, seq) == ("OPEN", 0)
        return actor

    def merge(
        self,
        actor: bytes,
        seq: int,
        base: int = 0,
        *,
        exact: bool = False,
        fresh_plus: Items = (),
        fresh_minus: Items = (),
        known_plus: Items = (),
        known_minus: Items = (),
        floored_plus: Floored = (),
        floored_minus: Floored = (),
        widened: Items = (),
        expiring: Mapping[bytes, int] | None = None,
    ) -> Answer:
        """``expiring``: of keys among the items, when they expire."""
        groups: tuple[Items | Floored, ...] = (
            fresh_plus,
            fresh_minus,
            known_plus,
            known_minus,
            floored_plus,
            floored_minus,
            widened,
        )
        keys: list[bytes] = [REGISTRY, INDEX]
        values: list[int] = []
        for group in groups:
            for name, *told in group:
                keys.append(name)
                values.extend(told)
        expiries = [(n, expiring[name]) for n, name in enumerate(keys[2:], 1) if expiring and name in expiring]
        head: list[Argument] = [actor, seq, base, int(exact), *map(len, groups), len(expiries)]
        return self.call(Script.SLOTS_MERGE, keys, [*head, *values, *itertools.chain.from_iterable(expiries)])

    def close(self, actor: bytes, base: int = 0) -> Answer:
        return self.call(Script.ACTOR_CLOSE, [REGISTRY], [actor, base])

    def fold(self, actor: bytes, *keys: bytes, delay: int = 0) -> Answer:
        return self.call(Script.SLOTS_FOLD, [REGISTRY, *keys], [actor, delay])

    def reap(self, ttl: int, *actors: bytes) -> Answer:
        return self.call(Script.ACTORS_REAP, [REGISTRY], [ttl, *actors])

    def clean(self, walked: int, retention: int, *actors: bytes) -> Answer:
        return self.call(Script.ACTORS_CLEAN, [REGISTRY], [walked, retention, *actors])

    def lease(self, period: int) -> Answer:
        return self.call(Script.JANITOR_LEASE, [META], [period])

    def read(self, *keys: bytes) -> Answer:
        return self.call(Script.SLOTS_READ, keys)

    def widen(self, *keys: bytes, wanted: Argument = 4, generation: bytes = GENERATION) -> Answer:
        return self.call(Script.SHARDS_WIDEN, [REGISTRY, INDEX, *keys], [generation, wanted])

    def narrow(self, shard: bytes, wanted: Argument = 1) -> Answer:
        return self.call(Script.NARROW_OPEN, [REGISTRY, shard], [wanted])

    def seal(self, shard: bytes, id: Argument = b"gen00.7") -> Answer:
        return self.call(Script.SHARD_SEAL, [shard], [id])

    def unseal(self, shard: bytes, id: Argument = b"gen00.7") -> Answer:
        return self.call(Script.SHARD_UNSEAL, [shard], [id])

    def apply(self, shard: bytes, id: bytes, wanted: Argument, *copies: Argument) -> Answer:
        return self.call(Script.NARROW_APPLY, [REGISTRY, shard], [id, wanted, *copies])

    def reset(self, shard: bytes, *, delete: Argument = 0) -> Answer:
        users = shard.replace(b":c:", b":l:", 1)
        return self.call(Script.SHARD_RESET, [REGISTRY, b"{rc:0}:x", shard, users], [delete])

    def renew(self, shard: bytes, *, generation: Argument = b"newer") -> Answer:
        return self.call(Script.SHARD_RENEW, [REGISTRY, INDEX, shard], [generation])

    def end(self, actor: bytes, *keys: bytes, base: int = 0) -> Answer:
        """Close and fold."""
        assert self.close(actor, base)[0] == "OK"
        return self.fold(actor, *keys)

    # -- a look at what is there

    def fields(self, shard: bytes) -> dict[bytes, bytes]:
        raw = self.ask("HGETALL", shard)
        assert isinstance(raw, dict)
        return raw

    def map(self, shard: bytes) -> SlotMap:
        return parse(self.fields(shard))

    def value(self, shard: bytes) -> int:
        return self.map(shard).value

    def now(self) -> int:
        """Return the server's time."""
        return int(self.ask("TIME")[0])

    def age(self, actor: bytes, seconds: int) -> None:
        """The actor's record is older by that much."""
        state, seq, seen, owner, display = self.record(actor)
        self.client.hset(REGISTRY, actor, b" ".join([state, seq, b"%d" % (int(seen) - seconds), owner, display]))

    def registry(self) -> dict[bytes, bytes]:
        return self.fields(REGISTRY)

    def record(self, actor: bytes) -> list[bytes]:
        """Return state, seq, time of the last change, owner, display."""
        return self.registry()[actor].split(b" ", 4)

    def everything(self) -> dict[bytes, bytes | dict[bytes, bytes]]:
        """Return the content of every key: fields of hashes, DUMP of others."""
        keys: list[bytes] = self.ask("KEYS", "*")
        return {name: self._content(name) for name in keys}

    def shards(self) -> dict[bytes, bytes | dict[bytes, bytes]]:
        """Return the content of every key but the registry, with its times, and an index that is empty."""
        left_out = {REGISTRY, INDEX} if self.ask("ZRANGE", INDEX, 0, -1) in ([], [LONG]) else {REGISTRY}
        return {name: content for name, content in self.everything().items() if name not in left_out}

    def _content(self, name: bytes) -> bytes | dict[bytes, bytes]:
        if self.ask("TYPE", name) == b"hash":
            return self.fields(name)
        dumped = self.ask("DUMP", name)
        assert isinstance(dumped, bytes)
        return dumped
