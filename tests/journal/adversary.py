"""Random schedules against the write side: the real protocol and the real scripts, with everything lossy in between.

A schedule is made from its seed alone. It mixes increments and decrements with commands that are lost, delayed past
their time-out and delivered again, lost replies, fail-overs to an earlier state, a lost registry, actors closed or
folded behind their owner, counters deleted by hand, rotation, closing.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field
from typing import Any

import redis

from redis_counters.crdt.slotmap import parse
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.scripts import text
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.actor_set import Request
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.states import Phase
from redis_counters.protocol.write.writer import Writer

NAMES = (b"x", b"y", b"z")
BUCKETS = 2
WINDOW = 20.0  # seconds
LATEST = 4 * WINDOW  # no command arrives later than that


class Server:
    """A real Redis whose whole state can be rolled back: what a fail-over does to a primary's latest writes."""

    def __init__(self, client: Any) -> None:
        self.client = client
        client.flushdb()
        self.history: list[dict[bytes, dict[bytes, bytes]]] = [{}]
        self.times = [0.0]
        self.now = 0.0
        self.keys = KeySpace(b"t", BUCKETS)

    def run(self, command: Command) -> Any:
        assert command.script is not None
        try:
            reply = self.client.execute_command(
                "EVAL", text(command.script), len(command.keys), *command.keys, *command.args, NEVER_DECODE=True
            )
        except redis.ResponseError as error:
            reply = ErrorReply(str(error))
        self.keep()
        return reply

    def state(self) -> dict[bytes, dict[bytes, bytes]]:
        return {key: self.client.hgetall(key) for key in self.client.keys("*") if not key.endswith(b"}:x")}

    def keep(self) -> None:
        self.history.append(self.state())
        self.times.append(self.now)
        del self.history[:-60], self.times[:-60]

    def fail_over(self, lost: int) -> None:
        """The latest writes are lost; none that is older than the re-assert window, which is what that is for."""
        while lost and len(self.history) > 1 and self.now - self.times[-1] < WINDOW:
            self.history.pop(), self.times.pop()
            lost -= 1
        self.client.flushdb()
        for key, fields in self.history[-1].items():
            self.client.hset(key, mapping=dict(fields))

    def value(self, name: bytes, shards: int = 4) -> int:
        return sum(parse(self.client.hgetall(self.keys.shard_key(name, i)[1])).value for i in range(shards))

    def records(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (registry, actor, state) of every actor."""
        found = []
        for registry in self.keys.registries:
            for actor, record in self.client.hgetall(registry).items():
                if b"." in actor and not actor.startswith(b"@"):
                    found.append((registry, actor, record[:1]))
        return found

    def set_state(self, registry: bytes, actor: bytes, state: bytes) -> None:
        record = self.client.hget(registry, actor)
        assert record is not None
        self.client.hset(registry, actor, state + record[1:])
        self.keep()

    def long_closed(self, registry: bytes, actor: bytes) -> bool:
        """True if no fail-over could open the actor again: what a janitor's delay is for."""
        recent = [s for s, t in zip(self.history, self.times, strict=True) if self.now - t < 2 * WINDOW]
        return all(actor not in s.get(registry, {}) or s[registry][actor][:1] != b"o" for s in recent)


@dataclass
class Client:
    """One process: its writer, and what it was asked to count."""

    writer: Writer
    issued: dict[bytes, int] = field(default_factory=dict)
    waiting: list[Request] = field(default_factory=list)

    def count(self, name: bytes, amount: int) -> None:
        self.issued[name] = self.issued.get(name, 0) + amount
        self.writer.accumulator.buffer.amounts.append((name, amount))
        self.writer.accumulator.drain()


@dataclass
class Outcome:
    issued: dict[bytes, int]
    values: dict[bytes, int]
    deleted: bool
    uncertain: int


class Schedule:
    """One run. ``decrements`` off keeps a bound that can be checked at every step."""

    def __init__(self, client: Any, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.server = Server(client)
        self.now = 0.0
        self.late: list[tuple[float, Command]] = []  # when they were sent; the network forgets them some day
        self.fail_overs = rng.random() < 0.5
        self.registry_loss = rng.random() < 0.15
        self.deletions = rng.random() < 0.15 and not self.fail_overs and not self.registry_loss
        self.decrements = rng.random() < 0.3
        self.deleted = False
        self.lost_registry = False
        chance = random.Random(-seed - 1)
        self.clients = []
        for _ in range(rng.randint(1, 3)):
            settings = make_settings(
                namespace="t",
                shards=rng.choice([1, 1, 2, 4]),
                max_batch=rng.choice([1, 2, 9]),
                # A lost registry forgets what was folded: see docs/design.md, "Limits".
                rotate_slots=100 if self.registry_loss else rng.choice([1, 2, 100]),
                reassert_window=WINDOW,
                buckets=BUCKETS,
            )
            writer = Writer(settings, Buffer(), lambda: "".join(chance.choices(string.ascii_letters, k=12)))
            writer.settle(self.server.keys, self.now)
            self.clients.append(Client(writer))

    def run(self, steps: int = 120) -> Outcome:
        for _ in range(steps):
            self._pass(self.rng.choice([0.1, 0.1, 1.0, 7.0]))
            self._step(self.rng.choice(self.clients))
            self._check_bound()
        self._heal()
        names = set(NAMES)
        return Outcome(
            {n: sum(c.issued.get(n, 0) for c in self.clients) for n in names},
            {n: self.server.value(n) for n in names},
            self.deleted,
            sum(c.writer.uncertain for c in self.clients),
        )

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.server.now = self.now

    def _step(self, client: Client) -> None:
        rng, event = self.rng, self.rng.random()
        if event < 0.35:
            sign = -1 if self.decrements and rng.random() < 0.4 else 1
            client.count(rng.choice(NAMES), sign * rng.randint(1, 5))
        elif event < 0.72:
            self._exchange(client)
        elif event < 0.78 and self.late:
            self._deliver_late()
        elif event < 0.81 and self.fail_overs:
            self.server.fail_over(rng.randint(1, 6))
        elif event < 0.85:
            self._janitor()
        elif event < 0.86 and self.registry_loss:
            self.server.client.delete(*self.server.keys.registries)
            self.server.history, self.server.times = [self.server.state()], [self.now]
        elif event < 0.88 and self.deletions:
            name = rng.choice(NAMES)
            self.server.client.delete(*(self.server.keys.shard_key(name, i)[1] for i in range(4)))
            self.server.keep()
            self.deleted = True

    def _exchange(self, client: Client) -> None:
        rng = self.rng
        client.writer.new_round()
        request = client.writer.next_request(self.now)
        if request is None or not self._may_send(client, request):
            return
        fate = rng.random()
        if fate < 0.15:  # delayed past its time-out
            self.late.append((self.now, request.command))
            client.writer.unanswered(request)
        elif fate < 0.22:  # lost
            client.writer.unanswered(request)
        else:
            reply = self.server.run(request.command)
            if fate < 0.30:  # its reply is lost
                client.writer.unanswered(request)
            else:
                if fate < 0.36:  # a copy stays behind
                    self.late.append((self.now, request.command))
                client.writer.answered(request, reply, self.now)

    def _may_send(self, client: Client, request: Request) -> bool:
        """For schedules with a journal: what it has to do before."""
        return True

    def _deliver_late(self) -> None:
        sent, command = self.late.pop(self.rng.randrange(len(self.late)))
        if self.now - sent < LATEST:
            self.server.run(command)

    def _janitor(self) -> None:
        """Close an actor that lives, or fold one that was closed long enough ago."""
        records = self.server.records()
        if not records:
            return
        registry, actor, state = self.rng.choice(records)
        if state == b"o":
            self.server.set_state(registry, actor, b"c")
        elif not self.registry_loss and (not self.fail_overs or self.server.long_closed(registry, actor)):
            self._fold(registry, actor)

    def _fold(self, registry: bytes, actor: bytes) -> None:
        tag = registry[: registry.index(b"}") + 1]
        keys = [key for key in self.server.client.keys("*") if key.startswith(tag + b":c:")]
        before = {n: self.server.value(n) for n in NAMES}
        self.server.run(Command(Script.SLOTS_FOLD, (registry, *keys), (actor, 0)))
        assert before == {n: self.server.value(n) for n in NAMES}, "folding changed a value"

    def _check_bound(self) -> None:
        if self.decrements:
            return
        for name in NAMES:
            issued = sum(c.issued.get(name, 0) for c in self.clients)
            assert self.server.value(name) <= issued, f"over-count of {name!r}"

    def _heal(self) -> None:
        """Everything is answered again, while late copies still arrive; then every client closes."""
        for client in self.clients:
            client.writer.accumulator.drain()
        for turn in range(4000):
            if self.late and self.rng.random() < 0.3:
                self._deliver_late()
            self._pass(1.0)
            busy = False
            for client in self.clients:
                writer = client.writer
                writer.closing = turn > 100
                writer.new_round()
                request = writer.next_request(self.now)
                if request is not None:
                    writer.answered(request, self.server.run(request.command), self.now)
                    assert not writer.errors, writer.errors
                busy |= request is not None or not writer.closed
            if not busy and not self.late:
                break
        else:
            raise AssertionError(
                "no end: " + repr([[(a.state.phase, a.clean) for a in c.writer.router.actors()] for c in self.clients])
            )
        assert all(a.state.phase is Phase.NEW for c in self.clients for a in c.writer.router.actors())
