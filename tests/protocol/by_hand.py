"""A writer whose requests a test carries to a real server, and back, one at a time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import redis

from redis_counters.crdt.slotmap import parse
from redis_counters.drivers.redis_py.errors import error_reply
from redis_counters.drivers.redis_py.wire import words
from redis_counters.protocol.flush.round import SendStep, run_flush
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.actor_set import Request
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.writer import Writer

MOST_REQUESTS = 200  # of a round: one that takes more has no end


def run(client: redis.Redis, command: Command) -> Any:
    """Return the server's answer to a command."""
    try:
        return client.execute_command(*words(command, text=True), NEVER_DECODE=True)  # type: ignore[no-untyped-call]
    except redis.ResponseError as error:
        return error_reply(error)


class ByHand:
    """One process's write side. ``choice``: the number that its shards are chosen by, as the rest of a division."""

    def __init__(self, client: redis.Redis, *, choice: int = 0, **options: Any) -> None:
        numbers = itertools.count()
        self.client = client
        self.buffer = Buffer()
        settings = make_settings(**options)
        self.writer = Writer(settings, self.buffer, lambda: f"{next(numbers):012x}")
        self.writer.router.choice = choice
        self.keys = KeySpace(settings.namespace, settings.buckets)
        self.writer.settle(self.keys, 0.0)
        self.sent: Counter[Script] = Counter()

    def count(self, name: bytes, amount: int) -> None:
        """Count, so that the totals have it."""
        self.buffer.amounts.append((name, amount))
        self.writer.accumulator.drain()

    def request(self, now: float = 0.0) -> Request | None:
        return self.writer.next_request(now)

    def answer(self, request: Request, now: float = 0.0) -> None:
        """The request reaches the server, and its answer the writer."""
        if request.command.script is not None:
            self.sent[request.command.script] += 1
        self.writer.answered(request, run(self.client, request.command), now)

    def go_on(self, now: float = 0.0, each: Callable[[], None] = lambda: None) -> None:
        """Send what may be sent in this round, one request at a time."""
        for _ in range(MOST_REQUESTS):
            request = self.request(now)
            if request is None:
                return
            self.answer(request, now)
            each()
        raise AssertionError("the round does not end")

    def round(self, now: float = 0.0) -> None:
        """A round with nothing counted meanwhile."""
        self.writer.new_round(now)
        self.go_on(now)

    def pumped_round(self, meanwhile: Callable[[], None]) -> Counter[Script]:
        """A round as the drivers make it; return how often each script was sent. ``meanwhile``: before each answer."""
        sent: Counter[Script] = Counter()
        waiting: list[Any] = []
        steps, answer = run_flush(self.writer, lambda: 0.0), None
        while sent.total() < MOST_REQUESTS:
            try:
                step = steps.send(answer)
            except StopIteration:
                return sent
            answer = None
            if isinstance(step, SendStep):
                assert step.command.script is not None
                sent[step.command.script] += 1
                waiting.append(run(self.client, step.command))
            else:
                meanwhile()
                answer = waiting.pop(0)
        raise AssertionError("the round does not end")

    def key(self, name: bytes, shard: int = 0) -> bytes:
        return self.keys.shard_key(name, shard)[1]

    def value(self, name: bytes, shards: int = 8) -> int:
        """Return what the server holds in all the shards that there could be, whether it tells of them or not."""
        fields: list[Any] = [self.client.hgetall(self.key(name, shard)) for shard in range(shards)]
        return sum(parse(each).value for each in fields)
