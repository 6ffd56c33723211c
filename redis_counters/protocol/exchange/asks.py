"""What a piece of the exchange wants: commands to one of the two regions; and several such pieces going on at once.

`together` is what the drivers run: it yields what to send to which region, and of which to receive the next answer.
Both servers work at the same time, on different buckets, and within one bucket everything is in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redis_counters.errors import CounterError
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command, ErrorReply

SOURCE, DESTINATION = 0, 1

WINDOW = 6  # buckets that are under way at once: a page of each; more gains nothing, and holds the servers up longer

T = TypeVar("T")


class Ask(NamedTuple):
    """Commands to one of the two regions, in order."""

    side: int
    commands: Sequence[Command]


Asks = Generator[Ask, list[object], T]


class Send(NamedTuple):
    """Send a command to one of the two; with ``text``, the script's text instead of its hash."""

    side: int
    command: Command
    text: bool = False


class Receive(NamedTuple):
    """Wait for the next answer of one of the two: a value, an `ErrorReply`, or a `NoAnswer`."""

    side: int


Steps = Generator[Send | Receive, object, None]


class Meter:
    """Bytes as the protocol of Redis has them; lengths of texts are taken for numbers of two digits."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0

    def sent(self, commands: Sequence[Command]) -> None:
        for command in commands:
            # EVALSHA, its hash and the number of keys; or the command's name
            head = 5 + (13 + 47 + 7 if command.script is not None else 7 + len(command.plain))
            self.bytes += head + _size(command.keys) + _size(command.args)

    def received(self, answers: Sequence[object]) -> None:
        self.bytes += _size(answers)


def _size(parts: Sequence[Any]) -> int:
    """Return what texts, numbers, and lists and maps of them take."""
    if len(parts) > 20:
        try:
            return len(b"".join(parts)) + 7 * len(parts)
        except TypeError:
            pass  # not all of them are texts
    size = 0
    for part in parts:
        if isinstance(part, bytes):
            size += len(part) + (7 if len(part) > 9 else 6)
        elif isinstance(part, list):
            size += 5 + _size(part)
        elif isinstance(part, dict):
            size += 5 + _size([*part, *part.values()])
        elif isinstance(part, int):
            size += len(str(part)) + 6
        else:
            size += len(part.text) + 3 if isinstance(part, ErrorReply) else 5
    return size


class Job(NamedTuple):
    """A piece that is under way: what counts its bytes, and who is told the error that ends it, and who was asked."""

    asks: Asks[object]
    failed: Callable[[CounterError, int], None]
    meter: Meter


class _Flying(NamedTuple):
    """What was asked for, and from which command on no answer was taken yet."""

    job: Job
    ask: Ask
    answers: list[object]
    text: bool


def together(jobs: Iterator[Job], window: int = WINDOW) -> Steps:
    """Run these pieces, some at a time. One that fails ends alone, unless the connection is gone.

    Each has one question on its way, and answers are read in the order of the questions: so on each of the two
    connections they come as they were asked for.
    """
    flying: deque[_Flying] = deque()
    running: set[Asks[object]] = set()
    try:
        while True:
            while len(flying) < window and (job := next(jobs, None)) is not None:
                running.add(job.asks)
                yield from _advance(job, None, flying, running)
            if not flying:
                return
            job, ask, answers, text = flying.popleft()
            wanted = ask.commands[len(answers) :]
            came: list[object] = []
            for _ in wanted:
                answer = yield Receive(ask.side)
                came.append(answer)
            unknown = None if text else _first_unknown(came)
            if unknown is not None:
                # From there on all of it again: what follows may rely on it (a confirmation does).
                answers += came[:unknown]
                for command in ask.commands[len(answers) :]:
                    yield Send(ask.side, command, command.script is not None)
                flying.append(_Flying(job, ask, answers, True))
                continue
            job.meter.received(came)
            yield from _advance(job, answers + came, flying, running, ask.side)
    finally:
        for asks in running:
            asks.close()


def _advance(
    job: Job, answers: list[object] | None, flying: deque[_Flying], running: set[Asks[object]], side: int = SOURCE
) -> Steps:
    """Take the job on to its next question, or to its end."""
    try:
        ask = next(job.asks) if answers is None else job.asks.send(answers)
    except StopIteration:
        running.discard(job.asks)
        return
    except CounterError as error:
        running.discard(job.asks)
        job.failed(error, side)
        return
    job.meter.sent(ask.commands)
    for command in ask.commands:
        yield Send(ask.side, command)
    flying.append(_Flying(job, ask, [], False))


def _first_unknown(answers: Sequence[object]) -> int | None:
    """Return which of these commands is the first whose script Redis did not know."""
    for n, answer in enumerate(answers):
        if isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT":
            return n
    return None


def on(side: int, steps: Generator[list[Command], list[object], T]) -> Asks[T]:
    """Ask one side what a generator of plain lists asks for. Raises what a missing answer is missing for."""
    answers: list[object] | None = None
    while True:
        try:
            commands = next(steps) if answers is None else steps.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answers = all_answered((yield Ask(side, commands)))
