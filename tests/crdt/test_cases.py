"""Cases from papers and from other implementations, played by the bare algebra.

A case is a line of a file in ``tests/cases``: steps in order, on states of replicas that hear of nothing but by a step.
``merge a b``: b hears a. ``snap a tag``, ``deliver tag b``: the same with a copy that may be old. ``restore a tag
name``: a's store falls back to a copy (null: to nothing), and goes on under a new name if one is given. ``settle``:
everybody hears everybody. ``reset a``: a resets what it has seen; ``fresh a``: what a counts from now on is not reset
by who has not seen it, which is so anyway. ``error [step]``: the step is refused. ``load``, ``state``: raw states.
Bounded: ``try_inc``, ``try_dec``, ``transfer``, ``transfer_inc`` (room) end with the answer that is expected; ``rights
a b n``, ``inc_rights a b n`` (room): those of b, as a knows them. ``lo``, ``hi``, ``creator``: the bounds (else a floor
at 0); ``init``: rights that all know of. ``hazard``: what goes wrong if a name's own state goes back, which no test of
the library's promises may show. Cases with ids in ``own-`` are this library's.
``here``: where this library differs from what the case expects, in the bare algebra and in real regions, and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redis_counters.crdt.bounded import BoundedCounter, Bounds
from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.crdt.resettable import ResettableCounter
from redis_counters.errors import UsageError

CASES = [
    json.loads(line)
    for name in ("pncounter_cases.jsonl", "resettable_cases.jsonl", "bounded_cases.jsonl")
    for line in (Path(__file__).parent.parent / "cases" / name).read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    """Every assertion of the case holds, and so does what it expects at the end."""
    player = BoundedPlayer(case) if case["kind"] == "bounded" else Player(case["kind"], case["replicas"])
    for op, *arguments in case["steps"]:
        getattr(player, op)(*arguments)
    expected = {**case["expect"]["value"], **case.get("here", {}).get("algebra", {}).get("value", {})}
    for replica, value in expected.items():
        player.value(replica, value)
    for replica, amount in case["expect"].get("rights", {}).items():
        assert isinstance(player, BoundedPlayer)
        player.rights(replica, replica, amount)
    if "converged" in case["expect"]:
        assert (len(set(player.states.values())) == 1) == case["expect"]["converged"]


class Player:
    """A method for each step of the case language. A G-counter plays as a PN-counter that refuses to count down."""

    states: dict[str, Any]
    copies: dict[str | None, Any]

    def __init__(self, kind: str, replicas: list[str]) -> None:
        self.only_grows = kind == "gcounter"
        bottom = ResettableCounter() if kind == "resettable" else PNCounter()
        self.states = dict.fromkeys(replicas, bottom)
        self.actors = {replica: replica.encode() for replica in replicas}
        self.copies = {None: bottom}

    def inc(self, replica: str, amount: int) -> None:
        self.states[replica] = self.states[replica].increment(self.actors[replica], amount)

    def dec(self, replica: str, amount: int) -> None:
        state, actor = self.states[replica], self.actors[replica]
        if self.only_grows:
            state.plus.increment(actor, -amount)
        self.states[replica] = state.decrement(actor, amount)

    def reset(self, replica: str) -> None:
        self.states[replica] = self.states[replica].reset()

    def fresh(self, replica: str) -> None:
        """It is so anyway."""

    def merge(self, source: str, to: str) -> None:
        self.states[to] = self.states[to].merge(self.states[source])

    def snap(self, replica: str, tag: str) -> None:
        self.copies[tag] = self.states[replica]

    def deliver(self, tag: str, to: str) -> None:
        self.states[to] = self.states[to].merge(self.copies[tag])

    def restore(self, replica: str, tag: str | None, name: str | None = None) -> None:
        self.states[replica] = self.copies[tag]
        self.actors[replica] = (name or replica).encode()

    def settle(self) -> None:
        for _ in range(2):
            for source in self.states:
                for to in self.states:
                    self.merge(source, to)

    def error(self, step: list[Any]) -> None:
        before = dict(self.states)
        op, *arguments = step
        if arguments[-1] == 0:  # allowed, and nothing comes of it
            getattr(self, op)(*arguments)
        else:
            with pytest.raises(UsageError):
                getattr(self, op)(*arguments)
        assert {r: each.value for r, each in self.states.items()} == {r: each.value for r, each in before.items()}

    def value(self, replica: str, value: int) -> None:
        assert self.states[replica].value == value

    def load(self, replica: str, raw: dict[str, dict[str, int]]) -> None:
        self.states[replica] = _state(raw)

    def state(self, replica: str, raw: dict[str, dict[str, int]]) -> None:
        assert self.states[replica] == _state(raw)


class BoundedPlayer(Player):
    """The steps of a bounded counter: each may be refused, and says whether it is."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__("bounded", case["replicas"])
        params = case.get("params", {})
        creator = params["creator"].encode() if "creator" in params else None
        bottom = BoundedCounter(Bounds(params.get("lo", 0), params.get("hi"), creator))
        self.states = dict.fromkeys(case["replicas"], bottom)
        self.copies = {None: bottom}
        for replica, amount in params.get("init", {}).items():
            self.try_inc(replica, amount, True)
        self.settle()

    def try_inc(self, replica: str, amount: int, expected: bool) -> None:
        self._step(replica, expected, self.states[replica].try_inc(self.actors[replica], amount))

    def try_dec(self, replica: str, amount: int, expected: bool) -> None:
        self._step(replica, expected, self.states[replica].try_dec(self.actors[replica], amount))

    def transfer(self, replica: str, to: str, amount: int, expected: bool) -> None:
        self._step(replica, expected, self.states[replica].transfer(self.actors[replica], to.encode(), amount))

    def transfer_inc(self, replica: str, to: str, amount: int, expected: bool) -> None:
        self._step(replica, expected, self.states[replica].transfer_room(self.actors[replica], to.encode(), amount))

    def rights(self, replica: str, holder: str, amount: int) -> None:
        assert self.states[replica].rights(holder.encode()) == amount

    def inc_rights(self, replica: str, holder: str, amount: int) -> None:
        assert self.states[replica].room(holder.encode()) == amount

    def drop(self, tag: str) -> None:
        """It is lost if no step delivers it."""

    def error(self, step: list[Any]) -> None:
        op, *arguments = step
        before = dict(self.states)
        with pytest.raises(UsageError):
            getattr(self, op)(*arguments)
        assert self.states == before

    def _step(self, replica: str, expected: bool, after: BoundedCounter | None) -> None:
        assert (after is not None) == expected
        self.states[replica] = after or self.states[replica]


def _state(raw: dict[str, dict[str, int]]) -> PNCounter:
    plus, minus = ({actor.encode(): total for actor, total in raw[half].items()} for half in ("p", "n"))
    return PNCounter(GCounter(plus), GCounter(minus))
