"""The cases of the algebra, played by clients and scripts on a server: a replica is a region, with its own namespace.

Steps are those of `tests.crdt.test_cases`. A region counts with a client of its own, and flushes; a copy of its state
is what entries_read tells, and arrives by entries_merge. ``restore``: its key is lost, it finds the copy as its peers
would have told it, and another process goes on. ``load``: a copy with entries of several regions arrives.

Deltas: ``send`` is changes_list with the mark that was acknowledged, and what entries_read tells of that; it arrives
with its mark, or, if that was overtaken, as a repair. Collected actors: each is a client of its own, which ``retire``
closes; ``evict`` makes the marks of a region void with the others, ``rejoin`` begins them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redis_counters import Counters, UsageError
from redis_counters.crdt.regional import parse_text
from redis_counters.crdt.slotmap import parse
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.keys import SCHEMA, KeySpace, meta_key
from redis_counters.protocol.wire.marks import EVICTED
from tests.servers import RealServer

NAME = b"n"
CASES = [
    json.loads(line)
    for name in ("pncounter_cases.jsonl", "resettable_cases.jsonl", "delta_cases.jsonl", "gc_cases.jsonl")
    for line in (Path(__file__).parent.parent / "cases" / name).read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(server: RealServer, case: dict[str, Any]) -> None:
    """Every assertion of the case holds, and so does what it expects at the end."""
    player = PLAYERS.get(case["kind"], Player)(server, case["replicas"])
    try:
        for op, *arguments in case["steps"]:
            getattr(player, op)(*arguments)
        expected = {**case["expect"]["value"], **case.get("here", {}).get("regions", {}).get("value", {})}
        for replica, value in expected.items():
            player.value(replica, value)
        for replica, most in case["expect"].get("slots", {}).items():
            player.slots_at_most(replica, most)
        if case["expect"].get("converged"):
            assert len({player.regions[replica].text() for replica in expected}) == 1
    finally:
        for region in player.regions.values():
            region.close()


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
        return self.client.eval(scripts.text(script).decode(), len(keys), *keys, *args)

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
        assert self.told(b"peer", b"-", b"", text)

    def told(self, source: bytes, since: bytes, mark: bytes, text: bytes) -> bool:
        """Whether it was taken, with the mark that is held: ``since``."""
        keys = [self.registry, self.keys.marks(0), self.keys.index(0), self.keys.merged(0, source), self.shard]
        word, *rest = self._call(Script.ENTRIES_MERGE, keys, source, since, mark, self.name, text)
        assert word == b"OTHER" or (word, rest[2:]) == (b"OK", [])
        return bool(word == b"OK")

    def held(self, source: bytes) -> bytes:
        """The mark that is held of another region."""
        mark = self.client.hget(self.keys.marks(0), b"<" + source)
        return mark if isinstance(mark, bytes) else b"-"

    def set_mark(self, source: bytes, mark: bytes) -> None:
        self._call(Script.MARKS_SET, [self.keys.marks(0)], b"<" + source, mark)

    def changes(self, peer: bytes, mark: bytes, others: list[bytes]) -> tuple[bytes, bool]:
        """The new mark, and whether anything has changed since that one."""
        merged = [self.keys.merged(0, name) for name in others if name not in (peer, self.name)]
        head = [self.registry, self.keys.marks(0), self.keys.merged(0, peer), self.keys.index(0)]
        word, new, more, _, *members = self._call(Script.CHANGES_LIST, [*head, *merged], peer, mark, 100)
        assert (word, more) == (b"OK", b"0")
        return new, bool(members)

    def renew(self) -> None:
        """It counts on under another dot."""
        assert self._call(Script.SHARD_RENEW, [self.registry, self.keys.index(0), self.shard], b"newer")[0] == b"OK"

    def close(self) -> None:
        self.counters.close()

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
        if not amount:  # allowed, and nothing comes of it
            before = self.regions[replica].text()
            self.regions[replica].counters.incr(NAME, 0)
            self.regions[replica].counters.flush()
            assert self.regions[replica].value() == parse_text(before).value
            return
        with pytest.raises(UsageError):
            self.regions[replica].counters.incr(NAME, -amount if op == "dec" else amount)

    def reset(self, replica: str) -> None:
        self.regions[replica].reset()

    def fresh(self, replica: str) -> None:
        """What is counted from now on is protected from resets that have not seen it: it is so anyway."""

    def slots_at_most(self, replica: str, most: int) -> None:
        region = self.regions[replica]
        assert len(parse(region.client.hgetall(region.shard)).actors) <= most

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


class Deltas(Player):
    """What changed since a mark, with the next one."""

    def __init__(self, server: RealServer, replicas: list[str]) -> None:
        super().__init__(server, replicas)
        self.names = [replica.encode() for replica in replicas]
        self.marks: dict[tuple[str, str], bytes] = {}  # that the source knows to have arrived
        self.messages: dict[str, tuple[str, str, bytes, bytes, bytes]] = {}

    def _since(self, source: str, to: str) -> bytes:
        return self.marks.get((source, to), b"-")

    def send(self, source: str, to: str, tag: str) -> None:
        since = self._since(source, to)
        mark, changed = self.regions[source].changes(to.encode(), since, self.names)
        self.messages[tag] = source, to, since, mark, self.regions[source].text() if changed else b""

    def msgtype(self, tag: str, kind: str) -> None:
        assert bool(self.messages[tag][4]) == (kind != "none")

    def deliver(self, tag: str, _to: str = "") -> None:
        source, to, since, mark, text = self.messages[tag.removesuffix(".ack")]
        if tag.endswith(".ack"):
            self.marks[source, to] = max(self._since(source, to), mark, key=_version)
        elif text and not self.regions[to].told(source.encode(), since, mark, text):
            assert self.regions[to].told(source.encode(), self.regions[to].held(source.encode()), b"", text)

    def drop(self, _tag: str) -> None:
        """It is not delivered."""

    def collect(self, _replica: str) -> None:
        """There is no buffer to be collected."""

    def evict(self, _replica: str) -> None:
        """There is no buffer to be emptied."""

    def buffered(self, replica: str, count: int) -> None:
        """There is one counter: it waits for some peer, or for none."""
        peers = [to for to in self.regions if to != replica]
        waiting = [self.regions[replica].changes(to.encode(), self._since(replica, to), self.names)[1] for to in peers]
        assert max(waiting) == count

    def backstop(self, one: str, other: str) -> None:
        for source, to in ((one, other), (other, one)):
            held = self.regions[to].held(source.encode())
            assert self.regions[to].told(source.encode(), held, b"", self.regions[source].text())

    def settle(self) -> None:
        for _ in range(3):
            for source in self.regions:
                for to in self.regions:
                    if source != to:
                        self.send(source, to, "settling")
                        self.deliver("settling")
                        self.deliver("settling.ack")


class Site(Region):
    """A region with several processes; its own name is told with what it tells."""

    def __init__(self, server: RealServer, name: str) -> None:
        super().__init__(server, name)
        self.actors: dict[str, Counters] = {}

    def count(self, actor: str, amount: int) -> None:
        if actor not in self.actors:
            self.actors[actor] = self._opened()
        self.actors[actor].incr(NAME, amount)
        self.actors[actor].flush()

    def close(self) -> None:
        for counters in (self.counters, *self.actors.values()):
            counters.close()


class Sites(Player):
    """Each actor of a site is a client of its own."""

    def __init__(self, server: RealServer, replicas: list[str]) -> None:
        super().__init__(server, [])
        self.regions: dict[str, Site] = {replica: Site(server, replica) for replica in replicas}  # type: ignore[assignment]
        self.sent: dict[str, tuple[str, bytes, dict[str, bytes], Any]] = {}
        self.away: set[str] = set()

    def inc(self, site: str, actor: str, amount: int) -> None:  # type: ignore[override]
        self.regions[site].count(actor, amount)

    def retire(self, site: str, actor: str) -> None:
        self.regions[site].actors[actor].close()

    def error(self, step: list[Any]) -> None:
        _, site, actor, amount = step
        with pytest.raises(UsageError, match="closed"):
            self.regions[site].count(actor, amount)

    def gc(self, site: str) -> None:
        """Who is closed is folded."""

    def merge(self, source: str, to: str) -> None:
        region, name = self.regions[to], self.regions[source].name
        if source != to:
            assert region.told(name, region.held(name), b"", self.regions[source].text())

    def snap(self, site: str, tag: str) -> None:
        region = self.regions[site]
        held = {to: mark for to, each in self.regions.items() if (mark := each.held(region.name)) != EVICTED}
        self.sent[tag] = site, region.text(), held, region.client.dump(region.shard)

    def deliver(self, tag: str, to: str) -> None:
        """It arrives with the mark that was held before; refused, if there is another."""
        site, text, held, _ = self.sent[tag]
        taken = self.regions[to].told(self.regions[site].name, held.get(to, b"-"), b"", text)
        assert taken != (self.regions[to].held(self.regions[site].name) == EVICTED)

    def evict(self, _site: str, dead: str, survivors: list[str], _successor: str) -> None:
        for each in survivors:
            self.regions[each].set_mark(self.regions[dead].name, EVICTED)

    def down(self, site: str) -> None:
        self.away.add(site)

    def up(self, site: str) -> None:
        self.away.remove(site)

    def rejoin(self, site: str, name: str) -> None:
        """The same region, which the case goes on to call by another name; all begin anew with it."""
        self.regions[name] = self.regions.pop(site)
        for other in self.regions.values():
            other.set_mark(self.regions[name].name, b"anew.x 0 0")

    def amnesia(self, site: str, tag: str, name: str, others: list[str]) -> None:
        """It is restored from a backup, and renewed."""
        region = self.regions[name] = self.regions.pop(site)
        for counters in region.actors.values():
            counters.close()
        region.client.restore(region.shard, 0, self.sent[tag][3], replace=True)
        for other in others:
            self.merge(other, name)
        region.renew()

    def settle(self) -> None:
        here = [site for site in self.regions if site not in self.away]
        for _ in range(2):
            for source in here:
                for to in here:
                    self.merge(source, to)


PLAYERS: dict[str, type[Player]] = {"delta": Deltas, "gc": Sites}


def _version(mark: bytes) -> int:
    return int(mark.split(b" ")[1]) if b" " in mark else 0
