"""The process that owns the demo: the server, the link, the crowd and the web servers; all of them end with it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import redis
import redis.asyncio

from redis_counters.asyncio import Counters
from redis_counters.demo.web.board import Board, Click, Facts
from redis_counters.demo.web.clicks import Plain, settle
from redis_counters.demo.web.crowd import CONNECTIONS, ROUND, Crowd
from redis_counters.demo.web.live import set_within
from redis_counters.demo.web.posts import COUNTERS, NAMESPACE
from redis_counters.demo.web.settings import Settings
from redis_counters.demo.web.workers import Workers
from redis_counters.drivers.embedded import EmbeddedServer
from redis_counters.errors import Unavailable, UsageError
from redis_counters.testing import LossyLink

LOSS = 0.01  # of the replies, to both ways of counting alike
RATE = 2000  # likes a second that the crowd is held to
_COMMANDS = {"INCRBY", "DECRBY", "EVALSHA"}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IDLE = 0.2  # seconds between two looks at the counts while the crowd is off
_LOOKS = 4  # at the counts, until they are of one moment
_PATIENCE = 5.0  # seconds, after which counts are published as they are; a half-done click of a dead worker takes some
_GRACE = 5.0  # seconds that likes in flight may take at the end, if Redis does not answer
_POINT = 0.5  # seconds between two points of the history
_RATE_OVER = 2.0  # seconds
_SETTLE = 1.0  # seconds after which a click that is not finished may be one of a worker that died


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises: UsageError if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        # Python 3.11 and later add the address to the reason.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise UsageError(f"cannot listen on {host}, port {port}: {reason}; --port 0 takes a free one") from None


def address(listening: socket.socket, host: str) -> str:
    """Return the URL of the page, on this machine."""
    shown = "localhost" if host in ("", "0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104
    return f"http://{shown}:{listening.getsockname()[1]}/"


async def play(
    host: str, port: int, opened: Callable[[str, tuple[int, ...]], object], report: Callable[[str], object]
) -> Facts:
    """Serve the page until SIGINT or SIGTERM; return the counts of the end, when nothing is in flight.

    ``opened`` gets the address and the process ids of the workers, once they serve; ``report`` each event as a line.
    """
    stop = asyncio.Event()
    with (
        _signals(stop),
        listen(host, port) as listening,
        EmbeddedServer.start() as server,
        LossyLink(server.url) as link,
    ):
        settings = Settings(link.url, server.url, secrets.token_hex(32), host)
        async with _Stage(link, server.url) as stage:
            async with Workers(listening, settings, report) as workers:
                await workers.ready()
                opened(address(listening, host), workers.pids)
                await stage.run(stop, workers)
            link.heal()
            return await stage.last()


class _Stage:
    """The crowd, the switches, and the counts."""

    def __init__(self, link: LossyLink, aside: str) -> None:
        self._link = link
        self._aside = redis.asyncio.Redis.from_url(aside, decode_responses=True, socket_timeout=5)
        self._board = Board(self._aside)
        self._plain = Plain(link.url, CONNECTIONS)
        self._counters = Counters.from_url(link.url, namespace=NAMESPACE, actor="crowd")
        # Reads by a client that counts nothing, over a connection that loses nothing: as any other client would.
        self._reader = Counters.from_url(aside, namespace=NAMESPACE, actor="reader")
        self._crowd = Crowd(self._counters, self._plain, random.Random())
        self._facts = Facts()
        self._done: deque[tuple[float, int]] = deque()
        self._point_at = 0.0
        self._of_one_moment = 0.0

    async def __aenter__(self) -> _Stage:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for each in (self._counters.close(), self._reader.close(), self._plain.close(), self._aside.aclose()):
            with contextlib.suppress(Unavailable, redis.RedisError):
                await each

    async def run(self, stop: asyncio.Event, workers: Workers) -> None:
        """Run what is switched on, until the event. Raises: CounterError if workers cannot be started."""
        settling = asyncio.create_task(self._settle_all(), name="settling")
        try:
            while not stop.is_set():
                began = time.monotonic()
                workers.check()
                crowd = False
                with contextlib.suppress(Unavailable, redis.RedisError):  # the next turn tries again
                    wanted = await self._board.switches()
                    crowd = wanted["crowd"]
                    self._lose(wanted["losses"])
                    if crowd and not await _done_before(stop, self._crowd.round()):
                        break
                    await self._publish(crowd, workers.pids)
                pace = ROUND / RATE if crowd else _IDLE
                await set_within(stop, max(0.001, began + pace - time.monotonic()))
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def last(self) -> Facts:
        """Finish all that was begun, and return the counts."""
        await settle(self._counters, self._board, await self._board.begun())
        return await self._count()

    def _lose(self, wanted: bool) -> None:
        if wanted and not self._facts.losses:
            self._link.drop_reply(probability=LOSS, commands=_COMMANDS)
        elif not wanted and self._facts.losses:
            self._link.heal()
        self._facts = replace(self._facts, losses=wanted)

    async def _count(self) -> Facts:
        now = time.monotonic()
        for _ in range(_LOOKS):  # the counts are of one moment if no click was in flight meanwhile
            before = await self._board.counted()
            ours = await self._reader.get_many(COUNTERS, max_age=0)
            issued, plain, in_flight = after = await self._board.counted()
            if before == after and not in_flight:
                self._of_one_moment = now
                break
        else:
            if now - self._of_one_moment < _PATIENCE:  # the last ones that are
                return self._facts
        return replace(self._facts, issued=issued + sum(self._crowd.likes), plain=plain, ours=sum(ours.values()))

    async def _publish(self, crowd: bool, workers: tuple[int, ...]) -> None:
        """Publish the counts of now."""
        facts = replace(
            await self._count(), rate=self._rate(crowd), lost=self._link.dropped, crowd=crowd, workers=workers
        )
        now, point = time.monotonic(), None
        if now >= self._point_at:
            self._point_at = now + _POINT
            point = [round(time.time(), 1), facts.plain - facts.issued, facts.ours - facts.issued]
        if facts != self._facts or point:
            self._facts = facts
            await self._board.publish(facts, point)

    def _rate(self, crowd: bool) -> int:
        now = time.monotonic()
        if not crowd:
            self._done.clear()
            return 0
        self._done.append((now, self._crowd.done))
        while now - self._done[0][0] > _RATE_OVER:
            self._done.popleft()
        since, done = self._done[0]
        return round((self._crowd.done - done) / (now - since)) if now - since > _RATE_OVER / 4 else 0

    async def _settle_all(self) -> None:
        """Finish the clicks that a dead worker had begun: those that are not finished after a while."""
        seen: set[Click] = set()
        while True:
            await asyncio.sleep(_SETTLE)
            with contextlib.suppress(Unavailable, redis.RedisError):
                begun = set(await self._board.begun())
                await settle(self._counters, self._board, begun & seen)
                seen = begun


async def _done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work and return True; False if the event came and the work did not end soon after."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait((working,), timeout=_GRACE)
        if working.done():
            working.result()
        return working.done()
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM only sets the event, so that what was started ends in order; a second interrupts."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
