"""For tests of code that counts: a link to a Redis server that loses what it is told to lose, exactly then.

A reply is lost after its command was applied (`LossyLink.drop_reply`), or a connection breaks before a command arrives
(`LossyLink.cut_before`). The link knows where each request and each reply ends: its counts say what the server applied.
"""

from __future__ import annotations

import asyncio
import enum
import random
import threading
from collections import Counter, deque
from collections.abc import Collection, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis_counters.errors import UsageError

__all__ = ["LossyLink"]

_READ = 65536
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Frames:
    """Bytes in, whole RESP2 or RESP3 values (and inline commands) out, each as the bytes it came in."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # where the next header line begins
        self._owed = 1  # values that the current frame still lacks

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        begin = 0
        while (line_end := self._buffer.find(b"\r\n", self._at)) >= 0:
            kind, size, end = self._buffer[self._at], 0, line_end + 2
            if kind in b"$=!*~>%|":
                size = int(self._buffer[self._at + 1 : line_end])
            if kind in b"$=!" and size >= 0:
                end += size + 2
                if len(self._buffer) < end:
                    break
            elif kind in b"*~>":
                self._owed += max(size, 0)
            elif kind in b"%|":
                self._owed += 2 * size + (kind == ord("|"))  # an attribute stands before the value it describes
            self._at = end
            self._owed -= 1
            if not self._owed:
                yield bytes(self._buffer[begin:end])
                begin, self._owed = end, 1
        del self._buffer[:begin]
        self._at -= begin


def _command(request: bytes) -> str:
    """The upper-case name of the command in this request."""
    name = request.split(b"\r\n", 3)[2] if request.startswith(b"*") else (request.split() or [b""])[0]
    return name.decode("ascii", "replace").upper()


class _Fate(enum.IntEnum):
    """What becomes of one command; the greater one wins where several faults meet."""

    PASS = 0
    DROP_REPLY = 1
    CUT_BEFORE = 2


@dataclass(slots=True)
class _Fault:
    """Strikes every n-th matching command, or each with a probability, at most ``times`` times."""

    fate: _Fate
    every: int | None
    probability: float | None
    chance: random.Random
    commands: frozenset[str] | None
    times: int | None
    seen: int = 0

    def __post_init__(self) -> None:
        if (self.every is None) == (self.probability is None):
            raise UsageError("give one of every=N and probability=p")
        if self.every is not None and self.every < 1:
            raise UsageError(f"every must be at least 1, not {self.every}")
        if self.probability is not None and not 0 <= self.probability <= 1:
            raise UsageError(f"probability must be from 0 to 1, not {self.probability}")

    def judge(self, command: str) -> _Fate:
        if self.times == 0 or (self.commands is not None and command not in self.commands):
            return _Fate.PASS
        self.seen += 1
        strikes = self.chance.random() < (self.probability or 0) if self.every is None else self.seen % self.every == 0
        if not strikes:
            return _Fate.PASS
        if self.times is not None:
            self.times -= 1
        return self.fate


class LossyLink:
    """A proxy on a loopback TCP port before the Redis server at ``upstream``; clients connect to ``url``.

    ``upstream`` is ``redis://host:port/db`` or ``unix:///path?db=n``. Without a fault the link changes nothing. A
    context manager; `start` after `stop` listens on the same port again. It does not speak TLS, and it cannot tell
    replies from messages where these are not marked as such: publish/subscribe in RESP2, ``CLIENT REPLY``, ``MONITOR``.

    ``forwarded`` counts the requests passed on, ``commands`` the same by command name: the server applies every one of
    them, also those whose client was cut off meanwhile. ``dropped`` counts the replies swallowed by `drop_reply`,
    ``cut`` the requests that `cut_before` kept back.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        if parts.scheme not in ("redis", "valkey", "unix"):
            raise UsageError(f"a lossy link leads to redis:// or unix://, not to {parts.scheme}://")
        self._path = unquote(parts.path) if parts.scheme == "unix" else None
        self._host, self._upstream_port = parts.hostname or "localhost", parts.port or 6379
        self._db = parse_qs(parts.query).get("db", ["0"])[0] if self._path else parts.path.strip("/") or "0"
        self._user = parts.netloc.rpartition("@")[0]
        self._port = 0
        self._faults: tuple[_Fault, ...] = ()
        self._delay = 0.0
        self._switch = threading.RLock()  # starting and stopping, from whatever thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.forwarded = 0
        self.dropped = 0
        self.cut = 0
        self.commands: Counter[str] = Counter()
        self.start()

    @property
    def url(self) -> str:
        """Where clients connect: the upstream's user, password and database at the link's own address."""
        return f"redis://{self._user + '@' if self._user else ''}127.0.0.1:{self._port}/{self._db}"

    def __repr__(self) -> str:
        return f"<LossyLink 127.0.0.1:{self._port} forwarded={self.forwarded} dropped={self.dropped} cut={self.cut}>"

    def drop_reply(
        self,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on these commands are applied, but their reply is swallowed and the client's connection closed.

        ``every``: the n-th, 2n-th, ... command that matches ``commands`` (names; None: all), counted over all
        connections; or each with ``probability``. ``times`` bounds how often. redis-py sends INCRBY for ``incr()``.
        """
        self._add(_Fate.DROP_REPLY, every, probability, seed, commands, times)

    def cut_before(
        self,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on the client's connection is closed before these commands are forwarded: they are not applied.

        The parameters are those of `drop_reply`.
        """
        self._add(_Fate.CUT_BEFORE, every, probability, seed, commands, times)

    def _add(
        self,
        fate: _Fate,
        every: int | None,
        probability: float | None,
        seed: int | None,
        commands: Collection[str] | None,
        times: int | None,
    ) -> None:
        names = None if commands is None else frozenset(name.upper() for name in commands)
        self._faults += (_Fault(fate, every, probability, random.Random(seed), names, times),)

    def delay(self, seconds: float) -> None:
        """From now on replies arrive this many seconds later."""
        self._delay = seconds

    def heal(self) -> None:
        """From now on nothing is lost or late; the counts stay."""
        self._faults, self._delay = (), 0.0

    def start(self) -> None:
        """The link listens, at the address it had if it was stopped before."""
        with self._switch:
            if self._thread is not None:
                return
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="lossy-link", daemon=True)
            self._thread.start()
            try:
                self._call(self._listen())
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Nothing listens and all connections are closed; idempotent."""
        with self._switch:
            if self._thread is None or self._loop is None:
                return
            self._call(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def __enter__(self) -> LossyLink:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # In the link's own thread, except _call:

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: _Streams) -> None:
        try:
            if self._path:
                server = await asyncio.open_unix_connection(self._path)
            else:
                server = await asyncio.open_connection(self._host, self._upstream_port)
        except OSError:
            client[1].close()  # as a client of a server that is away sees it
            return
        fates: deque[_Fate] = deque()
        requests = asyncio.ensure_future(self._requests(client, server, fates))
        try:
            # Ends at the server's end of file: what was forwarded is applied even if the client is gone.
            await self._replies(client, server, fates)
        except (OSError, ValueError):
            pass
        finally:
            requests.cancel()
            for _, writer in (client, server):
                writer.close()
            await asyncio.gather(requests, return_exceptions=True)

    async def _requests(self, client: _Streams, server: _Streams, fates: deque[_Fate]) -> None:
        frames = _Frames()
        try:
            while (data := await client[0].read(_READ)) and not client[1].is_closing():
                for request in frames.feed(data):
                    command = _command(request)
                    fate = max((fault.judge(command) for fault in self._faults), default=_Fate.PASS)
                    if fate is _Fate.CUT_BEFORE:
                        self.cut += 1
                        client[1].close()
                        return
                    fates.append(fate)
                    self.forwarded += 1
                    self.commands[command] += 1
                    server[1].write(request)
                await server[1].drain()
        except (OSError, ValueError):
            client[1].close()
        finally:
            if server[1].can_write_eof() and not server[1].is_closing():
                server[1].write_eof()

    async def _replies(self, client: _Streams, server: _Streams, fates: deque[_Fate]) -> None:
        frames = _Frames()
        while data := await server[0].read(_READ):
            if self._delay:
                await asyncio.sleep(self._delay)
            for reply in frames.feed(data):
                pushed = reply.startswith(b">")  # RESP3: a message, not the answer to a request
                fate = fates.popleft() if fates and not pushed else _Fate.PASS
                if client[1].is_closing():
                    continue
                if fate is _Fate.DROP_REPLY:
                    self.dropped += 1
                    client[1].close()
                else:
                    client[1].write(reply)
            if not client[1].is_closing():
                try:
                    await client[1].drain()
                except OSError:
                    client[1].close()
