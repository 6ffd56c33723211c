"""The Redis of one command: opened, waited for while it is away, asked, and closed at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from redis_counters import Counters
from redis_counters.cli.stop_signals import Stop
from redis_counters.drivers.redis_py.transports import transport_of
from redis_counters.drivers.transport import Asking, Transport
from redis_counters.drivers.urls import open_url
from redis_counters.errors import CounterError, Outcome, Unavailable, with_outcome
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.namespace import look_up_namespace, settled_keys
from redis_counters.protocol.wire.settings import Settings

T = TypeVar("T")

_PAUSE = 0.25  # seconds between two attempts


@contextmanager
def opened(url: str, namespace: str, region: str) -> Iterator[Counters]:
    """Counters that are closed at the end; after an error at once, so that the error is reported."""
    counters = Counters.from_url(url, namespace=namespace, region=region)
    try:
        yield counters
    except BaseException:
        with suppress(CounterError):
            counters.close(timeout=0)
        raise
    counters.close()


def wait_ready(counters: Counters, seconds: float | None, *, name: bytes = b"", stop: Stop | None = None) -> None:
    """Return when a counter of this name can be read, or when a signal has stopped the waiting.

    Raises: Unavailable, when ``seconds`` are over, or at once if None; any other error of the read at once.
    """
    deadline = time.monotonic() + (seconds or 0.0)
    first: Unavailable | None = None  # later ones may only say that Redis is not asked for a moment
    while not stop:
        try:
            counters.get(name, max_age=0)
        except Unavailable as error:
            first = first or error
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise with_outcome(Unavailable(f"{first}; nothing was counted"), Outcome.NOT_APPLIED) from None
            time.sleep(min(_PAUSE, rest))
        else:
            return


@contextmanager
def connected(url: str, settings: Settings) -> Iterator[tuple[Transport, KeySpace | None]]:
    """A deployment without a client that counts, and the keys of the namespace; None if it was never used."""
    opened = open_url(url, asyncio=False)
    try:
        transport = transport_of(opened.client)
        yield transport, look_up(transport, settings)
    finally:
        opened.stop_all()


def look_up(server: Asking, settings: Settings) -> KeySpace | None:
    """Return the keys of the namespace, None if it was never used. Cost: 1 round trip. Raises: CounterError."""
    (raw,) = server.ask([look_up_namespace(settings)])
    values = list_of(raw)
    return None if None in values else settled_keys(values, settings)


def driven(
    server: Asking, steps: Generator[list[Command], list[object], T], each: Callable[[], object] = lambda: None
) -> T:
    """Return the result of a generator that yields commands; ``each`` is called after every answer."""
    commands = next(steps)
    try:
        while True:
            commands = steps.send(server.ask(commands))
            each()
    except StopIteration as stop:
        found: T = stop.value
        return found
