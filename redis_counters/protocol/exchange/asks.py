"""Questions of the exchange: commands to one of the two regions; and several jobs that ask at once.

The drivers run `together`. It yields what to send to which region, and from which to receive the next answer. Both
servers work at the same time, on different buckets; within one bucket everything is in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redis_counters.errors import CounterError
from redis_counters.protocol.wire.answers import all_answered, reply_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, is_unknown_script
from redis_counters.protocol.wire.replies import BadReply, Reply

SOURCE, DESTINATION = 0, 1

MAX_IN_FLIGHT = 6  # buckets in flight, a page of each: more gains nothing, and holds the servers up longer

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
    """A generator of questions. ``failed`` is called with the error that ends it, and the side that was asked."""

    asks: Asks[object]
    failed: Callable[[CounterError, int], None]
    meter: Meter


class _InFlight(NamedTuple):
    """A question on its way. ``answers``: to its first commands; ``text``: the others were sent with scripts' texts."""

    job: Job
    ask: Ask
    answers: list[object]
    text: bool


def together(jobs: Iterator[Job], window: int = MAX_IN_FLIGHT) -> Steps:
    """Run these jobs, some at a time. One that fails ends alone, unless the connection is gone.

    Each has one question in flight, and answers are read in the order of the questions: so on each of the two
    connections they come as they were asked for.
    """
    flying: deque[_InFlight] = deque()
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
            unknown = None if text else next((n for n, each in enumerate(came) if is_unknown_script(each)), None)
            if unknown is not None:
                # From there on all of it again: what follows may rely on it (a confirmation does).
                answers += came[:unknown]
                for command in ask.commands[len(answers) :]:
                    yield Send(ask.side, command, command.script is not None)
                flying.append(_InFlight(job, ask, answers, True))
                continue
            job.meter.received(came)
            yield from _advance(job, answers + came, flying, running, ask.side)
    finally:
        for asks in running:
            asks.close()


def _advance(
    job: Job, answers: list[object] | None, flying: deque[_InFlight], running: set[Asks[object]], side: int = SOURCE
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
    flying.append(_InFlight(job, ask, [], False))


class Unjoined(BadReply):
    """A bucket that has joined before does not stamp its changes any more: it lost all that it had."""

    def __init__(self, side: int) -> None:
        super().__init__("the namespace there is new: it was emptied, or it fell back behind its joining")
        self.side = side


def ask(side: int, *commands: Command) -> Asks[list[object]]:
    """Return the answers of one side. Raises the error of one that is missing."""
    return all_answered((yield Ask(side, commands)))


def run(side: int, command: Command) -> Asks[Reply]:
    """Run a script at one side, and return its reply. Raises Unjoined, and what Redis refuses."""
    (raw,) = yield Ask(side, [command])
    return reply_from(side, raw, command)


def reply_from(side: int, raw: object, command: Command) -> Reply:
    """Return the reply in an answer of that side. Raises Unjoined, and what Redis refuses."""
    assert command.script is not None
    reply = reply_of(raw, command.script)
    if reply.word == "UNJOINED":
        raise Unjoined(side)
    return reply


def on(side: int, steps: Generator[list[Command], list[object], T]) -> Asks[T]:
    """Ask one side what a generator of lists of commands asks for. Raises the error of an answer that is missing."""
    answers: list[object] | None = None
    while True:
        try:
            commands = next(steps) if answers is None else steps.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answers = all_answered((yield Ask(side, commands)))
