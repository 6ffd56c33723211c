"""The cases of the algebra, played by clients and scripts on a server: a replica is a region, with its own namespace.

Steps are those of `tests.crdt.test_cases`. A region counts with a client of its own, and flushes; a copy of its state
is what entries_read tells, and arrives by entries_merge. ``restore``: its key is lost, it finds the copy as its peers
would have told it, and another process goes on. ``load``: a copy with entries of several regions arrives.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redis_counters import Counters, UsageError
from redis_counters.crdt.regional import parse_text
from redis_counters.drivers import lua_files
from redis_counters.protocol.commands import Script
from redis_counters.protocol.keys import SCHEMA, KeySpace, meta_key
from tests.servers import RealServer

NAME = b"n"
CASES = [
    json.loads(line)
    for name in ("pncounter_cases.jsonl", "resettable_cases.jsonl")
    for line in (Path(__file__).parent.parent / "cases" / name).read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(server: RealServer, case: dict[str, Any]) -> None:
    """Every assertion of the case holds, and so does what it expects at the end."""
    player = Player(server, case["replicas"])
    try:
        for op, *arguments in case["steps"]:
            getattr(player, op)(*arguments)
        for replica, value in case["expect"]["value"].items():
            player.value(replica, value)
        if case["expect"].get("converged"):
            assert len({region.text() for region in player.regions.values()}) == 1
    finally:
        for region in player.regions.values():
            region.counters.close()


class Region:
    """A deployment that is joined, as far as one counter needs it."""

    def __init__(self, server: RealServer, name: str) -> None:
        self.server, self.name = server, name.encode()
        self.keys = KeySpace(self.name, 1)
        self.client: Any = server.client()
        self.shard, (self.registry,) = self.keys.shard_key(NAME, 0)[1], self.keys.registries
        self.counters = self._opened()
        self._call(Script.NAMESPACE_OPEN, [meta_key(self.name)], SCHEMA, 1, self.name)
        self._call(Script.REGION_JOIN, [self.registry, self.keys.index(0)], b"gen00")

    def _opened(self) -> Counters:
        namespace, client = self.name.decode(), self.client
        return Counters(client, namespace=namespace, region=namespace, buckets=1, flush_interval=60)

    def _call(self, script: Script, keys: list[bytes], *args: Any) -> Any:
        return self.client.eval(lua_files.text(script).decode(), len(keys), *keys, *args)

    def add(self, amount: int) -> None:
        self.counters.add(NAME, amount)
        self.counters.flush()

    def reset(self) -> None:
        before = self.value()
        assert self.counters.reset(NAME) == before

    def text(self) -> bytes:
        (text,) = self._call(Script.ENTRIES_READ, [self.keys.index(0), self.shard], self.name, b"", b"0")
        assert isinstance(text, bytes)
        return text

    def hear(self, text: bytes) -> None:
        keys = [self.registry, self.keys.marks(0), self.keys.index(0), self.keys.merged(0, b"peer"), self.shard]
        word, *rest = self._call(Script.ENTRIES_MERGE, keys, b"peer", b"-", b"", self.name, text)
        assert (word, rest[2:]) == (b"OK", [])

    def fall_back(self, text: bytes) -> None:
        """The key is lost; the process that had counted in it is gone, and what is left of it is no more than this."""
        self.counters.close()
        self.client.delete(self.shard)
        self.hear(text)
        self.counters = self._opened()

    def value(self) -> int:
        return int(self.counters.get(NAME, max_age=0))


class Player:
    """A method for each step of the case language."""

    def __init__(self, server: RealServer, replicas: list[str]) -> None:
        self.regions = {replica: Region(server, replica) for replica in replicas}
        self.copies: dict[str | None, bytes] = {None: b""}

    def inc(self, replica: str, amount: int) -> None:
        self.regions[replica].add(amount)

    def dec(self, replica: str, amount: int) -> None:
        self.regions[replica].add(-amount)

    def error(self, step: list[Any]) -> None:
        op, replica, amount = step
        with pytest.raises(UsageError):
            self.regions[replica].counters.incr(NAME, -amount if op == "dec" else amount)

    def reset(self, replica: str) -> None:
        self.regions[replica].reset()

    def merge(self, source: str, to: str) -> None:
        self.regions[to].hear(self.regions[source].text())

    def snap(self, replica: str, tag: str) -> None:
        self.copies[tag] = self.regions[replica].text()

    def deliver(self, tag: str, to: str) -> None:
        self.regions[to].hear(self.copies[tag])

    def restore(self, replica: str, tag: str | None, _name: str | None = None) -> None:
        self.regions[replica].fall_back(self.copies[tag])

    def settle(self) -> None:
        for _ in range(2):
            for source in self.regions:
                for to in self.regions:
                    if source != to:
                        self.merge(source, to)

    def load(self, replica: str, raw: dict[str, dict[str, int]]) -> None:
        told = [f"{actor}/0,{total},{raw['n'][actor]}" for actor, total in raw["p"].items()]
        self.regions[replica].hear(" ".join(["0 0", *told]).encode())

    def state(self, replica: str, raw: dict[str, dict[str, int]]) -> None:
        found = parse_text(self.regions[replica].text())
        told = {actor: found.entry(f"{actor}/0".encode())[:2] for actor in raw["p"]}
        assert told == {actor: [total, raw["n"][actor]] for actor, total in raw["p"].items()}

    def value(self, replica: str, value: int) -> None:
        assert self.regions[replica].value() == value
