"""All orders in which somebody narrows a counter and somebody else counts in what is to go, with any command once more.

Not random: of two processes with a few commands each, every interleaving is run, and in each of them every command
arrives a second time, at every later moment. Afterwards the counter is narrowed again, for that may meet a copy too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import NamedTuple

from redis_counters.protocol.upkeep import reshard
from redis_counters.protocol.upkeep.folding import Upkeep
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.writer import Writer
from tests.simulation.ledger import Violation, whole
from tests.simulation.server import LuaServer

NAME = b"x"
KEYS = KeySpace(b"t", 4)
DELAY, TTL = 40, 3600
THERE, MORE = 5, 3  # counted before, and meanwhile
COUNTING = 4  # commands of who counts: he is refused, tells shard 0, unseals, and counts
NARROWING = 5  # commands of who narrows: he begins, seals, and after a time finds both done, and applies it


class Copy(NamedTuple):
    """The command that is sent as number ``which`` arrives again before number ``before``."""

    which: int
    before: int


class Scene:
    """A counter with two shards and something in both; a writer that knows of them, and has nothing there any more."""

    def __init__(self, texts: Mapping[Script, bytes] | None) -> None:
        self.now = 1_000_000.0
        self.server = LuaServer(lambda: self.now, texts)
        numbers = itertools.count()
        settings = make_settings(namespace="t", buckets=4, shards=2, reassert_window=DELAY / 2)
        self.writer = Writer(settings, Buffer(), lambda: f"{next(numbers):012x}")
        self.writer.router.choice = 1
        self.writer.settle(KEYS, 0.0)
        self._count(NAME, THERE)
        self._fold_all()
        self.other = next(
            name for name in (b"%d" % n for n in range(99)) if KEYS.bucket(name, 0) == KEYS.bucket(NAME, 1)
        )
        self._count(self.other, 1)
        self.writer.accumulator.buffer.amounts.append((NAME, MORE))
        self.writer.new_round()
        self.state = self.server.database.snapshot()
        self.counting, self.started = deepcopy(self.writer), self.now

    def _count(self, name: bytes, amount: int) -> None:
        self.writer.accumulator.buffer.amounts.append((name, amount))
        for _ in range(4):
            self.writer.new_round()
            while (request := self.writer.next_request(0.0)) is not None:
                self.writer.answered(request, self.ask(request.command), 0.0)

    def _fold_all(self) -> None:
        database = self.server.database
        for bucket, registry in enumerate(KEYS.registries):
            actors = [field for field in database.fields(registry) if field.count(b".") == 2 and field[:1] != b"@"]
            shards = [key for key in database.keys if key.startswith(b"{t:%d}:c:" % bucket)]
            for actor in actors:
                self.ask(Command(Script.ACTORS_REAP, (registry,), (0, actor)))
                self.ask(Command(Script.SLOTS_FOLD, (registry, *shards), (actor, 0)))

    def ask(self, command: Command) -> object:
        return self.server.run(command, text=command.script is not None)

    # -- one order

    def play(self, order: tuple[int, ...], copy: Copy | None) -> list[Command]:
        """Run it; return what was sent. ``order``: which moves are of who narrows. Raises Violation."""
        self.server.database.restore(self.state)
        self.now, self.copy = self.started, copy
        self.writer = deepcopy(self.counting)
        self.sent: list[Command] = []
        self.value = 0
        narrowing = self._narrowing()
        for move in range(COUNTING + NARROWING):
            if move in order:
                next(narrowing, None)
            elif (request := self.writer.next_request(0.0)) is not None:
                self.writer.answered(request, self._send(request.command), 0.0)
            else:
                self.writer.new_round()
        for _ in range(6):  # to its end
            self.writer.new_round()
            while (request := self.writer.next_request(0.0)) is not None:
                self.writer.answered(request, self._send(request.command), 0.0)
        self._expect(THERE + MORE)
        self._fold_all()
        for _ in range(3 * NARROWING):
            next(narrowing, None)
        self._expect(THERE + MORE)
        return self.sent

    def _narrowing(self) -> Iterator[None]:
        """One attempt after the other, a move at a time; time passes where there is something to wait for."""
        while True:
            steps = reshard.narrow(KEYS, NAME, 1, Upkeep(TTL, DELAY, TTL))
            commands = next(steps)
            while True:
                answers = [self._send(command) for command in commands]
                if any(command.script is not None for command in commands):
                    yield
                try:
                    commands = steps.send(answers)
                except StopIteration as stop:
                    self.now += stop.value.wait
                    if stop.value.shards == 1:
                        return
                    break

    def _send(self, command: Command) -> object:
        copy = self.copy
        if copy is not None and copy.before == len(self.sent) and copy.which < copy.before:
            self.ask(self.sent[copy.which])
            self._check(self.sent[copy.which])
        self.sent.append(command)
        answer = self.ask(command)
        self._check(command)
        return answer

    def _check(self, command: Command) -> None:
        """Whatever there is, is where readers look, and a value never falls."""
        keys = self.server.database.keys
        told = int(self.server.database.fields(KEYS.shard_key(NAME, 0)[1]).get(b"k", b"1"))
        seen, there = whole(keys, NAME, told), whole(keys, NAME)
        open_ones = [
            key for key, value in keys.items() if b":c:" in key and isinstance(value, dict) and name_of(key) == NAME
        ]
        if any(shard_of(key) >= told for key in open_ones):
            raise Violation(f"after {command}: {open_ones} are there, and {told} are told of")
        if seen != there or seen[0] < self.value or seen[0] > THERE + MORE:
            raise Violation(f"after {command}: {seen} in {told} shards, {there} in all, {self.value} before")
        self.value = seen[0]

    def _expect(self, value: int) -> None:
        found = whole(self.server.database.keys, NAME)
        if found != (value, 0):
            raise Violation(f"{found} instead of {value}")


def all_orders(
    texts: Mapping[Script, bytes] | None = None, begin: int = 0, every: int = 1, part: int = 0
) -> Iterator[None]:
    """Play all of them from this one on, one at a time; of the copies in each every so-manieth. Raises Violation."""
    scene = Scene(texts)
    orders = itertools.combinations(range(COUNTING + NARROWING), NARROWING)
    for number, order in enumerate(itertools.islice(orders, begin, None)):
        sent = scene.play(order, None)
        yield
        scripts = [which for which, command in enumerate(sent) if command.script is not None]
        copies = [Copy(which, before) for which in scripts for before in range(which + 1, len(sent))]
        for copy in copies[(number + part) % every :: every]:
            scene.play(order, copy)
            yield
