"""One round of flushing, as a generator: it yields what to send and when to receive; the drivers do it.

Several commands are on their way at once, at most one per bucket: the next is built while the last is answered. On one
connection answers come in the order of the commands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from redis_counters.errors import CounterError
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.wire.acl import denied_of, lacks_name, named, trials
from redis_counters.protocol.wire.commands import Command, NoAnswer, Script, is_unknown_script
from redis_counters.protocol.wire.namespace import open_namespace, opened_keys
from redis_counters.protocol.write.actor_set import Request
from redis_counters.protocol.write.writer import Writer

MAX_IN_FLIGHT = 6  # commands on their way: with fewer the server waits now and then, more gains nothing


class SendStep(NamedTuple):
    """Send a command; with ``text``, the script's text instead of its hash (EVAL loads it for the next time)."""

    command: Command
    text: bool = False


class ReceiveStep:
    """Wait for the next answer: a value, an `ErrorReply`, or a `NoAnswer`."""


RECEIVE = ReceiveStep()
RESENT = object()


class RecordStep(NamedTuple):
    """Keep in the journal what changed (only where there is one). The answer: whether that went well."""

    recorder: Recorder


Steps = Generator[SendStep | ReceiveStep | RecordStep, object, None]

RECORDED_FIRST = (Script.SLOTS_MERGE, Script.SLOTS_FOLD)  # what the journal has to know of first


def run_flush(writer: Writer, clock: Callable[[], float], recorder: Recorder | None = None) -> Steps:
    """Send what there is, until nothing is left that can be sent; failed buckets wait for the next round.

    A script that Redis does not know is repaired alone: of the commands on their way only those that did not run are
    sent again. If the generator is closed early, the commands on their way count as unanswered.
    """
    if writer.interrupted_round:
        writer.requeue_all()
    try:
        yield from _send_all(writer, clock, recorder)
    except (CounterError, GeneratorExit):
        raise
    except BaseException:  # of a signal handler, in the middle of something
        writer.interrupted_round = True
        raise


def _send_all(writer: Writer, clock: Callable[[], float], recorder: Recorder | None) -> Steps:
    if writer.router.keys is None:
        yield from _settle(writer, clock)
    writer.new_round(clock())
    in_flight: deque[Request] = deque()
    denied: list[tuple[Request, object]] = []  # by answers that do not say which command was denied
    try:
        while True:
            writer.place_some()
            if writer.doubtful and not in_flight:
                yield from _settle(writer, clock)
            while (
                len(in_flight) < MAX_IN_FLIGHT
                and not writer.doubtful
                and (request := writer.next_request(clock())) is not None
            ):
                in_flight.append(request)
                if recorder is not None and request.command.script in RECORDED_FIRST:
                    recorded = yield RecordStep(recorder)
                    if not recorded and recorder.holds(request.actor):
                        writer.unrecorded(in_flight.pop())
                        continue
                yield SendStep(request.command)
            if not in_flight:
                if denied:
                    names = yield from _denied([request.command for request, _raw in denied])
                    while denied:
                        request, raw = denied.pop()
                        writer.answered(request, named(raw, names), clock())
                    continue
                if writer.round_open:
                    continue
                break
            raw = yield from _receive(in_flight[0].command)
            if raw is RESENT:
                in_flight.rotate(-1)
                continue
            request = in_flight.popleft()
            if isinstance(raw, NoAnswer):
                writer.lost(request, raw.error)
            elif request.command.script is not None and lacks_name(raw):
                denied.append((request, raw))
            else:
                writer.answered(request, raw, clock())
        if recorder is not None:  # what was acknowledged, so that a restart need not send it again
            yield RecordStep(recorder)
        command = writer.confirmation.command(writer.flushes)
        if command is not None:
            yield SendStep(command)
            writer.answered_confirmation((yield RECEIVE))
    finally:
        for request in (*in_flight, *(request for request, _raw in denied)):
            writer.unanswered(request)


def _receive(command: Command) -> Generator[SendStep | ReceiveStep, object, object]:
    """Return the answer to a command; RESENT if Redis did not know its script, so that another answer will come."""
    raw = yield RECEIVE
    if is_unknown_script(raw):
        yield SendStep(command, text=True)
        return RESENT
    return raw


def _settle(writer: Writer, clock: Callable[[], float]) -> Steps:
    settings = writer.settings
    keys = writer.router.keys
    command = open_namespace(settings, keys.buckets if keys is not None else settings.buckets)
    yield SendStep(command)
    raw = yield from _receive(command)
    if raw is RESENT:
        raw = yield RECEIVE
    if isinstance(raw, NoAnswer):
        raise raw.error
    if lacks_name(raw):
        raw = named(raw, (yield from _denied([command])))
    writer.settle(opened_keys(raw, settings), clock())
    if not writer.memory_seen:
        writer.memory_seen = True  # once, whatever becomes of it: some proxies hang up on what they do not know
        yield SendStep(Command(None, (), (b"memory",), b"INFO", command.keys[0]))
        writer.see_memory((yield RECEIVE))


def _denied(commands: Sequence[Command]) -> Generator[SendStep | ReceiveStep, object, list[str]]:
    """Return the names of the commands that the user may not run, of those that these scripts call."""
    tried = trials(commands)
    answers = []
    for trial in tried:
        yield SendStep(trial)
        answers.append((yield RECEIVE))
    return denied_of(tried, answers)
