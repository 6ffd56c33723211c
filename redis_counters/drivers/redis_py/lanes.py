"""One connection of the client's pool on which several commands are on their way (a *lane*), for a round of flushing.

A lane never repeats a command by itself: a repetition is harmless, but it would hide what is unanswered.
"""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import Any

from redis import exceptions

from redis_counters.drivers.deadline import GRACE_S, Deadline
from redis_counters.drivers.redis_py.cancelling import within
from redis_counters.drivers.redis_py.clients import (
    Client,
    Connection,
    KnownConnections,
    disconnect_idle,
    disconnect_idle_asyncio,
    disconnect_now,
    pool_of,
    take_connection,
    take_connection_asyncio,
)
from redis_counters.drivers.redis_py.errors import error_reply, garbled, misled, reply_to_one
from redis_counters.drivers.redis_py.exchanging import Exchanging
from redis_counters.drivers.redis_py.exchanging_asyncio import AwaitedExchanging
from redis_counters.drivers.redis_py.watching import Watched
from redis_counters.drivers.redis_py.wire import packed, undecoded
from redis_counters.drivers.transport import Meanwhile
from redis_counters.protocol.wire.commands import Command

REPLY_TIMEOUT_S = 10.0  # that a lane waits for an answer: all of it; its beginning, as the client says


class _Lane:
    """The state of a lane, of either face."""

    def __init__(
        self,
        client: Client,
        known: KnownConnections,
        deadline: Deadline | None = None,
        *,
        alone: bool = False,
        patient: bool = True,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        self.client = client
        self._known = known
        self._deadline = deadline  # of all that is done on it; without one, of each answer
        self._asked_about = False  # whether the connection is new
        self.patient = patient  # with another connection in hand none is waited for: two would wait for each other
        self.meanwhile = meanwhile  # in threads: a task is cancelled instead
        self._reply_of = reply_to_one if alone else error_reply  # alone: the client knows of no other server
        self._pool = pool_of(client)
        self._unread = 0
        self._misled = False  # the server says that it is no primary
        self._connection: Connection | None = None

    def on_new_connection(self) -> bool:
        """True if its connection was never asked about before."""
        if self._asked_about or self._connection is None:
            return False
        self._asked_about = True
        return self._known.is_new(self._connection)

    def _until(self) -> Deadline:
        return self._deadline or Deadline(REPLY_TIMEOUT_S)

    def _read(self, answer: object) -> object:
        """Return an answer that was read; an error of Redis as an `ErrorReply`."""
        self._unread -= 1
        if isinstance(answer, exceptions.ResponseError):
            answer = self._reply_of(answer)
            self._misled = self._misled or misled(answer)
        return answer


class BlockingLane(_Lane, Exchanging):
    """One connection for one round of flushing. Leaving it with unread answers closes the connection."""

    def __enter__(self) -> BlockingLane:
        self._connection = take_connection(self._pool, self._until(), patient=self.patient)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if self._unread or self._misled or error is not None:
                connection.disconnect()
        finally:
            self._pool.release(connection)
        if self._misled:
            disconnect_idle(self._pool)

    def send(self, command: Command, text: bool) -> None:
        """Send a command. Its answer comes after those of the commands that were sent before."""
        connection = self._connection
        assert connection is not None
        with Watched(connection, self._until()):
            # A health check would read our answers as its own.
            connection.send_packed_command(packed(connection, command, text=text), check_health=not self._unread)
        self._unread += 1

    def receive(self) -> object:
        """Return the next answer, or an `ErrorReply`. Raises what redis-py raises when the connection breaks."""
        connection = self._connection
        assert connection is not None
        until = self._until()
        silence = Deadline(connection.socket_timeout or REPLY_TIMEOUT_S)
        every = self.meanwhile.every if self.meanwhile is not None else REPLY_TIMEOUT_S
        while not connection.can_read(timeout=min(every, silence.seconds, until.left())):
            for limit in (silence, until):
                if not limit.left():
                    raise exceptions.TimeoutError(limit.words)
            if self.meanwhile is not None:
                self.meanwhile.call()
        answer: object
        with Watched(connection, until):
            try:
                answer = connection.read_response(disable_decoding=True)
            except exceptions.ResponseError as error:
                answer = error
            except ValueError as error:
                raise garbled(error) from error
        return self._read(undecoded(answer, self.client))


class AsyncioLane(_Lane, AwaitedExchanging):
    """The same over redis.asyncio."""

    async def __aenter__(self) -> AsyncioLane:
        self._connection = await take_connection_asyncio(self._pool, self._until(), patient=self.patient)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if self._unread or self._misled or error is not None:
                await disconnect_now(connection)
        finally:
            await self._pool.release(connection)
        if self._misled:
            await disconnect_idle_asyncio(self._pool)

    async def send(self, command: Command, text: bool) -> None:
        connection = self._connection
        assert connection is not None
        sending = connection.send_packed_command(packed(connection, command, text=text), check_health=not self._unread)
        await self._in_time(connection, sending)  # a server that reads no more is waited for as one that is silent
        self._unread += 1

    async def receive(self) -> object:
        connection = self._connection
        assert connection is not None
        answer: object
        try:
            answer = await self._in_time(connection, connection.read_response(disable_decoding=True))
        except exceptions.ResponseError as error:
            answer = error
        except ValueError as error:
            raise garbled(error) from error
        return self._read(undecoded(answer, self.client))

    async def _in_time(self, connection: Connection, work: Awaitable[Any]) -> Any:
        """Return what comes of sending or reading. Raises TimeoutError."""
        until = self._until()
        if connection.socket_timeout and connection.socket_timeout <= until.left():
            return await work
        return await within(until if until.left() > GRACE_S else Deadline(GRACE_S), work)
