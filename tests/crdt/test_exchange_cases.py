"""Cases of deltas and of collected actors, played by what an exchange between regions is made of.

A replica is a region. ``delta`` cases: its state, with a stamp on each entry that changed (the change index), and for
each peer a mark; ``send a b tag`` is what changed since the mark, and its ``tag.ack`` is the new one; ``drop tag``: it
never arrives. ``buffered a n``: so many entries wait for some peer, and ``collect`` is nothing to be done: there is no
buffer but the index. ``gc`` cases: a region counts in the slots of its actors, which it folds by itself; its peers have
one entry of it. An evicted region's entries stay with its peers, so ``evict`` and ``gc`` do no more than that.
``rejoin`` brings it back, under its own name. What it tells late is refused by the marks, which are no part of the
algebra: in the case of that, values in between are those of `tests.regions.test_cases` alone (``here``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from redis_counters.crdt.regional import RegionalShard, as_text, parse_fields, parse_text
from redis_counters.crdt.shard_fields import Entry
from redis_counters.crdt.slotmap import SlotMap, fold, format_fields, raise_slots

CASES = [
    json.loads(line)
    for name in ("delta_cases.jsonl", "gc_cases.jsonl")
    for line in (Path(__file__).parent.parent / "cases" / name).read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    """Every assertion of the case holds, and so does what it expects at the end."""
    player: Deltas | Sites = (Deltas if case["kind"] == "delta" else Sites)(case["replicas"])
    loose = "algebra" in case.get("here", {})
    for op, *arguments in case["steps"]:
        if not (loose and op == "value"):
            getattr(player, op)(*arguments)
    for replica, value in case["expect"]["value"].items():
        player.value(replica, value)
    for replica, most in case["expect"].get("slots", {}).items():
        assert isinstance(player, Sites)
        player.slots_at_most(replica, most)
    if "converged" in case["expect"]:
        assert (len({as_text(player.state(r)) for r in player.replicas}) == 1) == case["expect"]["converged"]


class Deltas:
    """Entries with stamps; messages are canonical texts."""

    def __init__(self, replicas: Iterable[str]) -> None:
        self.replicas = list(replicas)
        self.states = dict.fromkeys(self.replicas, RegionalShard())
        self.stamps: dict[str, dict[bytes, int]] = {replica: {} for replica in self.replicas}
        self.marks: dict[tuple[str, str], int] = {}
        self.messages: dict[str, tuple[str, str, int, bytes | None]] = {}

    def state(self, replica: str) -> RegionalShard:
        return self.states[replica]

    def _change(self, replica: str, state: RegionalShard) -> None:
        before, stamps = self.states[replica], self.stamps[replica]
        version = max(stamps.values(), default=0) + 1
        changed = [place for place in state.places() if state.entry(place) != before.entry(place)]
        stamps.update(dict.fromkeys(changed, version))
        self.states[replica] = state

    def inc(self, replica: str, amount: int) -> None:
        self._change(replica, self.states[replica].increment(_place(replica), amount))

    def dec(self, replica: str, amount: int) -> None:
        self._change(replica, self.states[replica].decrement(_place(replica), amount))

    def reset(self, replica: str) -> None:
        self._change(replica, self.states[replica].reset())

    def send(self, source: str, to: str, tag: str) -> None:
        mark, stamps = self.marks.get((source, to), 0), self.stamps[source]
        changed = {place: self.states[source].entry(place) for place, stamp in stamps.items() if stamp > mark}
        version = max(stamps.values(), default=0)
        self.messages[tag] = (source, to, version, _text(changed) if changed else None)

    def msgtype(self, tag: str, kind: str) -> None:
        assert (self.messages[tag][3] is None) == (kind == "none")

    def deliver(self, tag: str) -> None:
        source, to, version, text = self.messages[tag.removesuffix(".ack")]
        if tag.endswith(".ack"):
            self.marks[source, to] = max(version, self.marks.get((source, to), 0))
        elif text is not None:
            self._change(to, self.states[to].merge(parse_text(text)))

    def drop(self, _tag: str) -> None:
        """It is not delivered."""

    def collect(self, _replica: str) -> None:
        """There is no buffer to be collected."""

    def buffered(self, replica: str, count: int) -> None:
        marks = [self.marks.get((replica, to), 0) for to in self.replicas if to != replica]
        assert sum(stamp > min(marks) for stamp in self.stamps[replica].values()) == count

    def evict(self, replica: str) -> None:
        """There is no buffer to be emptied."""

    def backstop(self, one: str, other: str) -> None:
        for source, to in ((one, other), (other, one)):
            self._change(to, self.states[to].merge(self.states[source]))

    def settle(self) -> None:
        for _ in range(3):
            for source in self.replicas:
                for to in self.replicas:
                    if source != to:
                        self.send(source, to, "settling")
                        self.deliver("settling")
                        self.deliver("settling.ack")

    def value(self, replica: str, value: int) -> None:
        assert self.states[replica].value == value


class Sites:
    """Each counts by the slots of its actors, under a dot, and holds entries of the others."""

    def __init__(self, replicas: Iterable[str]) -> None:
        self.replicas = list(replicas)
        self.own = {replica: SlotMap(dot=b"0") for replica in self.replicas}
        self.others = dict.fromkeys(self.replicas, RegionalShard())
        self.regions = {replica: replica.encode() for replica in self.replicas}
        self.retired: set[tuple[str, str]] = set()
        self.copies: dict[str, tuple[SlotMap, bytes]] = {}
        self.away: set[str] = set()

    def state(self, replica: str) -> RegionalShard:
        return parse_fields(format_fields(self.own[replica]), self.regions[replica]).merge(self.others[replica])

    def inc(self, site: str, actor: str, amount: int) -> None:
        if (site, actor) in self.retired:
            raise RefusedError
        total = self.own[site].plus.slots.get(actor.encode() + b".1.x", 0) + amount
        self.own[site] = raise_slots(self.own[site], actor.encode() + b".1.x", "+", total)

    def retire(self, site: str, actor: str) -> None:
        self.retired.add((site, actor))
        self.own[site] = fold(self.own[site], actor.encode() + b".1.x")

    def error(self, step: list[Any]) -> None:
        op, *arguments = step
        with pytest.raises(RefusedError):
            getattr(self, op)(*arguments)

    def gc(self, site: str) -> None:
        """Folding needs nobody else: it was done at once."""

    def merge(self, source: str, to: str) -> None:
        self._tell(as_text(self.state(source)), to)

    def _tell(self, text: bytes, to: str) -> None:
        self.others[to] = self.others[to].merge(parse_text(text))

    def snap(self, site: str, tag: str) -> None:
        self.copies[tag] = self.own[site], as_text(self.state(site))

    def deliver(self, tag: str, to: str) -> None:
        self._tell(self.copies[tag][1], to)

    def evict(self, _site: str, _dead: str, _survivors: list[str], _successor: str) -> None:
        """Its entries stay."""

    def down(self, site: str) -> None:
        self.away.add(site)

    def up(self, site: str) -> None:
        self.away.remove(site)
        self.replicas.append(site)

    def rejoin(self, site: str, name: str) -> None:
        """The same region, which the case goes on to call by another name."""
        self.replicas[self.replicas.index(site)] = name
        self.own[name], self.others[name] = self.own.pop(site), self.others.pop(site)
        self.regions[name] = self.regions.pop(site)

    def amnesia(self, site: str, tag: str, name: str, _others: list[str]) -> None:
        """Its store has fallen back; it goes on under a new dot, which is no new region: its peers have the old one."""
        self.replicas[self.replicas.index(site)] = name
        self.regions[name] = self.regions.pop(site)
        self.own[name], self.others[name] = SlotMap(dot=b"1"), parse_text(self.copies[tag][1])
        del self.own[site], self.others[site]

    def settle(self) -> None:
        here = [site for site in self.replicas if site not in self.away]
        for _ in range(2):
            for source in here:
                for to in here:
                    self.merge(source, to)
        self.replicas = here

    def slots_at_most(self, site: str, most: int) -> None:
        assert len(self.own[site].actors) <= most

    def value(self, site: str, value: int) -> None:
        assert self.state(site).value == value


class RefusedError(Exception):
    """The registry says so of whoever is folded."""


def _place(replica: str) -> bytes:
    return replica.encode() + b"/0"


def _text(entries: dict[bytes, Entry]) -> bytes:
    told = [b"%b,%b" % (place, b",".join(b"%d" % n for n in entry)) for place, entry in entries.items()]
    return b" ".join([b"0 0", *told])
