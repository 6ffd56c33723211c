"""The lossy link: a proxy before a Redis server, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Collection, Coroutine
from contextlib import suppress
from operator import attrgetter
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis_counters.errors import UsageError
from redis_counters.testing.fate import SPARED, Fate, Fault, Struck
from redis_counters.testing.frames import Frames, command_of

_READ = 65536
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_SECOND = Struck(Fate.DUPLICATE)  # of the two answers to a doubled command the client gets the first


class LossyLink:
    """A proxy on a loopback TCP port before the Redis server at ``upstream``; clients connect to ``url``.

    ``upstream`` is ``redis://host:port/db`` or ``unix:///path?db=n``. Without a fault the link changes nothing. A
    context manager; `start` after `stop` listens on the same port again. It does not speak TLS, and it cannot tell
    replies from messages where these are not marked as such: publish/subscribe in RESP2, ``CLIENT REPLY``, ``MONITOR``.

    ``forwarded`` counts the requests passed on, ``commands`` the same by command name: the server applies every one of
    them, also those whose client was cut off meanwhile. ``dropped`` counts the replies swallowed by `drop_reply`,
    ``cut`` the requests that `cut_before` kept back, ``delayed`` the single replies that `delay` held up,
    ``duplicated`` the requests that `duplicate` forwarded twice (both are in ``forwarded``), ``replaced`` the replies
    that `replace_reply` exchanged, ``dripped`` those that `drip` sent byte by byte.

    The methods that name a fault share their parameters. ``every``: the n-th, 2n-th, ... command that matches
    ``commands`` (names; None: all), counted over all connections; or each with ``probability``, by ``seed``. ``times``
    bounds how often. redis-py sends INCRBY for ``incr()``; this library EVALSHA (EVAL where the script is not loaded).
    In a pipeline each command is one: those before it in the batch are forwarded.
    """

    def __init__(self, upstream: str) -> None:
        self._port = 0
        self._upstream(upstream)
        self._faults: tuple[Fault, ...] = ()
        self._delay = 0.0
        self._drip = 0.0
        self.dripped = 0
        self._switch = threading.RLock()  # starting and stopping, from any thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.forwarded = 0
        self.dropped = 0
        self.cut = 0
        self.delayed = 0
        self.duplicated = 0
        self.replaced = 0
        self.commands: Counter[str] = Counter()
        self.start()

    def _upstream(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "valkey", "unix"):
            raise UsageError(f"a lossy link leads to redis:// or unix://, not to {parts.scheme}://")
        self._path = unquote(parts.path) if parts.scheme == "unix" else None
        self._host, self._upstream_port = parts.hostname or "localhost", parts.port or 6379
        self._db = parse_qs(parts.query).get("db", ["0"])[0] if self._path else parts.path.strip("/") or "0"
        self._user = parts.netloc.rpartition("@")[0]

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
        """From now on these commands are applied, but their reply is swallowed and the client's connection closed."""
        self._faults += (Fault(Struck(Fate.DROP_REPLY), every, probability, seed, commands, times),)

    def cut_before(
        self,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on the client's connection is closed before these commands are forwarded: they are not applied."""
        self._faults += (Fault(Struck(Fate.CUT_BEFORE), every, probability, seed, commands, times),)

    def duplicate(
        self,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on these commands are forwarded twice; the client gets the first of the two replies."""
        self._faults += (Fault(Struck(Fate.DUPLICATE), every, probability, seed, commands, times),)

    def replace_reply(
        self,
        reply: bytes,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on these commands are applied, but the client gets these bytes instead of their reply.

        ``b"-ERR proxy timeout\\r\\n"`` is an error of the protocol, as proxies answer; or the bytes of a broken peer.
        """
        struck = Struck(Fate.REPLACE_REPLY, reply=reply)
        self._faults += (Fault(struck, every, probability, seed, commands, times),)

    def delay(
        self,
        seconds: float,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on the replies to these commands, and all behind them, arrive this many seconds later.

        With ``seconds`` alone all replies are late, and an earlier such delay is replaced.
        """
        if (every, probability, seed, commands, times) == (None,) * 5:
            self._delay = seconds
        else:
            every = 1 if every is None and probability is None else every
            self._faults += (Fault(Struck(Fate.DELAY, seconds), every, probability, seed, commands, times),)

    def drip(
        self,
        seconds: float,
        *,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        commands: Collection[str] | None = None,
        times: int | None = None,
    ) -> None:
        """From now on the replies to these commands arrive byte by byte, so many seconds apart.

        With ``seconds`` alone everything from the server does, and an earlier such drip is replaced.
        """
        if (every, probability, seed, commands, times) == (None,) * 5:
            self._drip = seconds
        else:
            every = 1 if every is None and probability is None else every
            self._faults += (Fault(Struck(Fate.DRIP, seconds), every, probability, seed, commands, times),)

    def heal(self) -> None:
        """From now on nothing is lost, late or doubled; the counts stay."""
        self._faults, self._delay, self._drip = (), 0.0, 0.0

    def lead_to(self, upstream: str, *, keep: bool = False) -> None:
        """From now on new connections lead to another server, at the same `url`: a fail-over behind one address.

        Connections that exist are closed; with ``keep`` they stay with the server that they have. Raises: UsageError.
        """
        with self._switch:
            self._upstream(upstream)
            if self._thread is not None and not keep:
                self._call(self._disconnect())

    def start(self) -> None:
        """Listen, at the address it had if it was stopped before."""
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
        """Listen no longer, and close all connections; idempotent."""
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
            for listening in self._server.sockets:  # connections accepted just now must have begun: a server that is
                asyncio.get_running_loop().remove_reader(listening.fileno())  # closed meanwhile would leave it open
            for _ in range(4):
                await asyncio.sleep(0)
            self._server.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await asyncio.sleep(0)  # lets closed transports go

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also if it was cancelled before it began

    async def _serve(self, client: _Streams) -> None:
        writers = [client[1]]
        requests: asyncio.Future[None] | None = None
        try:
            if self._path:
                server = await asyncio.open_unix_connection(self._path)
            else:
                server = await asyncio.open_connection(self._host, self._upstream_port)
            writers.append(server[1])
            fates: deque[Struck] = deque()
            requests = asyncio.ensure_future(self._requests(client, server, fates))
            # Ends at the server's end of file: forwarded requests are applied even if the client is gone.
            await self._replies(client, server, fates)
        except (OSError, ValueError):
            pass  # a client of a server that is away sees its connection closed
        except asyncio.CancelledError:
            for writer in writers:
                writer.transport.abort()  # a client that does not read is not waited for
            raise
        finally:
            for writer in writers:
                writer.close()
            while requests is not None and not requests.done():
                requests.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({requests})

    async def _requests(self, client: _Streams, server: _Streams, fates: deque[Struck]) -> None:
        frames = Frames()
        try:
            while (data := await client[0].read(_READ)) and not client[1].is_closing():
                for request in frames.feed(data):
                    command = command_of(request)
                    struck = max((each.judge(command) for each in self._faults), key=attrgetter("fate"), default=SPARED)
                    if struck.fate is Fate.CUT_BEFORE:
                        self.cut += 1
                        client[1].close()
                        return
                    self._forward(request, command, server[1])
                    fates.append(struck)
                    if struck.fate is Fate.DUPLICATE:
                        self.duplicated += 1
                        self._forward(request, command, server[1])
                        fates.append(_SECOND)
                await server[1].drain()
        except (OSError, ValueError):
            client[1].close()
        finally:
            if server[1].can_write_eof() and not server[1].is_closing():
                server[1].write_eof()

    def _forward(self, request: bytes, command: str, server: asyncio.StreamWriter) -> None:
        self.forwarded += 1
        self.commands[command] += 1
        server.write(request)

    async def _replies(self, client: _Streams, server: _Streams, fates: deque[Struck]) -> None:
        frames = Frames()
        while data := await server[0].read(_READ):
            if self._delay:
                await asyncio.sleep(self._delay)
            for reply in frames.feed(data):
                pushed = reply.startswith(b">")  # RESP3: a message, not the answer to a request
                struck = fates.popleft() if fates and not pushed else SPARED
                if client[1].is_closing() or struck is _SECOND:
                    continue
                if struck.fate is Fate.DROP_REPLY:
                    self.dropped += 1
                    client[1].close()
                    continue
                if struck.fate is Fate.REPLACE_REPLY:
                    self.replaced += 1
                    client[1].write(struck.reply)
                    continue
                if struck.fate is Fate.DELAY:
                    self.delayed += 1
                    await asyncio.sleep(struck.seconds)
                    if client[1].is_closing():
                        continue
                if struck.fate is Fate.DRIP or self._drip:
                    self.dripped += 1
                    await self._byte_by_byte(client[1], reply, struck.seconds or self._drip)
                    continue
                client[1].write(reply)
            if not client[1].is_closing():
                try:
                    await client[1].drain()
                except OSError:
                    client[1].close()

    async def _byte_by_byte(self, client: asyncio.StreamWriter, reply: bytes, seconds: float) -> None:
        healthy = self._faults, self._drip  # until it is healed: then the rest comes at once
        for n in range(len(reply)):
            if client.is_closing():
                return
            if (self._faults, self._drip) != healthy:
                client.write(reply[n:])
                return
            client.write(reply[n : n + 1])
            await asyncio.sleep(seconds)
