"""redis-py, spoken to: commands in, answers out, in both faces; and the one place where its exceptions become ours.

Flushing holds one connection of the client's pool and keeps several commands on their way on it (a *lane*). A lane
never repeats a command by itself: a repetition is harmless, but it would hide what is unanswered.
Reading takes a connection of the pool too: what ``execute_command`` does besides costs as much as the answer. Only
where that connection breaks it is asked again through ``execute_command``, with whatever retries the client has:
reading twice is safe. (asyncio reads always go that way, because redis-py knows how to be cancelled.)
A connection to a server that is no primary (any more) is given up, and with it the idle ones of the pool: a new one may
lead elsewhere, by Sentinels, by DNS, by an address that has moved.
Answers are never decoded: a client's ``decode_responses`` and ``encoding`` make no difference.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, cast

from redis import exceptions

from redis_counters.drivers import lua_files
from redis_counters.errors import CounterError, NotPermitted, Refused, Unavailable, UsageError
from redis_counters.protocol.commands import Command, ErrorReply
from redis_counters.protocol.refusals import from_the_wrong_server

pack_command: Callable[..., bytes] | None
try:
    from hiredis import pack_command
except ImportError:  # it is required, but where it cannot be built redis-py's own packer does
    pack_command = None

REPLY_TIMEOUT = 10.0  # seconds that a lane waits for an answer where the client sets no limit

_CODES: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.NoScriptError, "NOSCRIPT"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
)


class Connection(Protocol):
    """What a lane needs of a connection of redis-py, blocking; the asyncio one has the same, awaited."""

    socket_timeout: float | None

    def pack_command(self, *args: object) -> Any: ...
    def send_packed_command(self, command: Any, check_health: bool = True) -> Any: ...
    def read_response(self, disable_decoding: bool = False) -> Any: ...
    def can_read(self, timeout: float = 0) -> Any: ...
    def disconnect(self) -> Any: ...


class Pool(Protocol):
    """What a lane needs of a connection pool of redis-py."""

    def get_connection(self, *args: str) -> Any: ...
    def release(self, connection: Any) -> Any: ...
    def disconnect(self) -> Any: ...


class Client(Protocol):
    """What is needed of a client: a pool to take a connection from, and commands."""

    connection_pool: Any

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


def pool_of(client: object) -> Pool:
    """Return the client's pool. Raises UsageError for what is not a client of one Redis server."""
    pool = getattr(client, "connection_pool", None)
    if pool is None or not hasattr(client, "execute_command") or hasattr(client, "command_stack"):  # a pipeline has one
        raise UsageError(f"client must be a redis-py client of one server (or Sentinel), not {type(client).__name__}")
    return cast(Pool, pool)


def is_asyncio(client: object) -> bool:
    """True for a client of redis.asyncio."""
    return inspect.iscoroutinefunction(getattr(type(client), "execute_command", None))


def words(command: Command, *, text: bool = False) -> list[Any]:
    """Return the command as Redis takes it: EVALSHA, or EVAL where the script's text has to go along."""
    if command.script is None:
        return [command.plain, *command.keys, *command.args]
    call = [b"EVAL", lua_files.text(command.script)] if text else [b"EVALSHA", lua_files.digest(command.script)]
    return [*call, len(command.keys), *command.keys, *command.args]


def packed(connection: Connection, command: Command, *, text: bool) -> Any:
    """Return the command as it goes over the wire; a flush has hundreds of arguments, and redis-py looks at each."""
    if pack_command is None:
        return connection.pack_command(*words(command, text=text))
    return [pack_command(tuple(words(command, text=text)))]


def translate(error: BaseException) -> CounterError | None:
    """Return our error for one of redis-py's (or of the network), None if it is neither."""
    if isinstance(error, CounterError):
        return error
    if isinstance(error, exceptions.AuthenticationError):
        return NotPermitted(f"Redis does not accept the connection: {error}")
    if isinstance(error, exceptions.BusyLoadingError):  # to redis-py this is a broken connection
        text = str(error)
        return Unavailable(text if text.startswith("LOADING") else f"LOADING {text}")
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError)):
        return Unavailable(f"Redis is not reachable: {error or type(error).__name__}")
    if isinstance(error, exceptions.RedisError):
        return Refused(f"Redis answered: {error}")
    return None


def no_connection_left(error: Unavailable) -> bool:
    """True if the pool would not give a connection because all of them are in use."""
    return isinstance(error.__cause__, exceptions.ConnectionError) and "Too many connections" in str(error.__cause__)


def error_reply(error: exceptions.ResponseError) -> ErrorReply:
    """Return a Redis error with its code in front again: redis-py cuts off the codes that it knows."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            text = str(error)
            return ErrorReply(text if text.startswith(code) else f"{code} {text}")
    return ErrorReply(str(error) or "ERR")


@functools.cache
def _needs_name(pool: type[Pool]) -> bool:
    """redis-py before 5.3 wants the name of a command when it gives a connection; later ones warn of it."""
    parameter = inspect.signature(pool.get_connection).parameters.get("command_name")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _take_connection(pool: Pool) -> Any:
    return pool.get_connection("EVALSHA") if _needs_name(type(pool)) else pool.get_connection()


@functools.cache
def _can_spare_those_in_use(pool: type[Pool]) -> bool:
    return "inuse_connections" in inspect.signature(pool.disconnect).parameters  # not in some of redis-py 5


def _disconnect_idle(pool: Pool) -> Any:
    """The pool's idle connections are closed (to be awaited in asyncio): whoever takes one next connects anew."""
    disconnect: Any = pool.disconnect
    return disconnect(inuse_connections=False) if _can_spare_those_in_use(type(pool)) else None


def _misled(answer: object) -> bool:
    return isinstance(answer, ErrorReply) and from_the_wrong_server(answer)


class BlockingLane:
    """One connection for one round of flushing. Leaving it with unread answers closes the connection."""

    def __init__(self, client: Client) -> None:
        self._pool = pool_of(client)
        self._unread = 0
        self._misled = False  # the server says that it is no primary
        self._connection: Connection | None = None

    def __enter__(self) -> BlockingLane:
        self._connection = _take_connection(self._pool)
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
            _disconnect_idle(self._pool)

    def send(self, command: Command, text: bool) -> None:
        """Send a command; its answer is the next but ``unread``."""
        connection = self._connection
        assert connection is not None
        # A health check would read our answers as its own.
        connection.send_packed_command(packed(connection, command, text=text), check_health=not self._unread)
        self._unread += 1

    def receive(self, meanwhile: Callable[[], None], every: float) -> object:
        """Return the next answer, or an `ErrorReply`; while there is none, ``meanwhile`` is called now and then.

        Raises what redis-py raises when the connection breaks.
        """
        connection = self._connection
        assert connection is not None
        limit = connection.socket_timeout or REPLY_TIMEOUT
        end = time.monotonic() + limit
        while not connection.can_read(timeout=min(every, limit)):
            if time.monotonic() >= end:
                raise exceptions.TimeoutError(f"no answer within {limit:g} s")
            meanwhile()
        answer: object
        try:
            answer = connection.read_response(disable_decoding=True)
        except exceptions.ResponseError as error:
            answer = error
        self._unread -= 1
        if isinstance(answer, exceptions.ResponseError):
            answer = error_reply(answer)
            self._misled = self._misled or _misled(answer)
        return answer

    def exchange(self, commands: Sequence[Command], meanwhile: Callable[[], None], every: float) -> list[object]:
        """Return the answers to commands, in order; a script that Redis does not know is sent with its text."""
        for command in commands:
            self.send(command, text=False)
        answers = [self.receive(meanwhile, every) for _ in commands]
        for n, answer in enumerate(answers):
            if isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT":
                self.send(commands[n], text=True)
                answers[n] = self.receive(meanwhile, every)
        return answers


class AsyncioLane:
    """The same over redis.asyncio."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pool = pool_of(client)
        self._unread = 0
        self._misled = False  # the server says that it is no primary
        self._connection: Connection | None = None

    async def __aenter__(self) -> AsyncioLane:
        self._connection = await _take_connection(self._pool)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if self._unread or self._misled or error is not None:
                await _disconnect_now(connection)
        finally:
            await self._pool.release(connection)
        if self._misled:
            await (_disconnect_idle(self._pool) or _nothing())

    async def send(self, command: Command, text: bool) -> None:
        connection = self._connection
        assert connection is not None
        await connection.send_packed_command(packed(connection, command, text=text), check_health=not self._unread)
        self._unread += 1

    async def receive(self) -> object:
        connection = self._connection
        assert connection is not None
        answer: object
        try:
            if connection.socket_timeout:
                answer = await connection.read_response(disable_decoding=True)
            else:
                answer = await _within(connection.read_response(disable_decoding=True), REPLY_TIMEOUT)
        except exceptions.ResponseError as error:
            answer = error
        self._unread -= 1
        if isinstance(answer, exceptions.ResponseError):
            answer = error_reply(answer)
            self._misled = self._misled or _misled(answer)
        return answer

    async def exchange(self, commands: Sequence[Command]) -> list[object]:
        """As in `BlockingLane`."""
        for command in commands:
            await self.send(command, text=False)
        answers = [await self.receive() for _ in commands]
        for n, answer in enumerate(answers):
            if isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT":
                await self.send(commands[n], text=True)
                answers[n] = await self.receive()
        return [_undecoded(answer, self._client) for answer in answers]


async def _within(answer: Awaitable[object], seconds: float | None) -> object:
    """As asyncio.wait_for, which up to Python 3.11 loses a cancellation that comes together with the result."""
    task = asyncio.ensure_future(answer)
    task.add_done_callback(_seen)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        task.cancel()
    raise exceptions.TimeoutError(f"no answer within {seconds:g} s")


async def _cancellable(work: Awaitable[object]) -> object:
    """Await work of redis-py that uses asyncio.wait_for."""
    return await work if sys.version_info >= (3, 12) else await _within(work, None)


def _seen(task: asyncio.Future[object]) -> None:
    """Nobody need be told how it ended after all."""
    if not task.cancelled():
        task.exception()


async def _nothing() -> None: ...


async def _disconnect_now(connection: Any) -> None:
    await connection.disconnect(nowait=True)


def ask(client: Client, commands: Sequence[Command]) -> list[object]:
    """Return the answers to commands that only read (or may be repeated), in order. Raises our errors."""
    try:
        try:
            return _ask_at_once(client.connection_pool, commands)
        except exceptions.ConnectionError:
            return [_ask_one(client, command) for command in commands]
    except (exceptions.RedisError, OSError) as error:
        raise translate(error) or error from error


def _ask_at_once(pool: Pool, commands: Sequence[Command]) -> list[object]:
    connection = _take_connection(pool)
    whole = False
    try:
        answers = _exchange(connection, commands, text=False)
        lost = [n for n, answer in enumerate(answers) if isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT"]
        for n, answer in zip(lost, _exchange(connection, [commands[n] for n in lost], text=True), strict=True):
            answers[n] = answer
        whole = not any(map(_misled, answers))
    finally:
        if not whole:  # an answer may still come, and is nobody else's; or it is the wrong server
            connection.disconnect()
        pool.release(connection)
    return answers


def _exchange(connection: Connection, commands: Sequence[Command], *, text: bool) -> list[object]:
    """All commands are sent before the first answer is read."""
    for command in commands:
        connection.send_packed_command(packed(connection, command, text=text), check_health=command is commands[0])
    answers: list[object] = []
    for _ in commands:
        try:
            answers.append(connection.read_response(disable_decoding=True))
        except exceptions.ConnectionError:  # some of them are errors of Redis too, as LOADING is
            raise
        except exceptions.ResponseError as error:
            answers.append(error_reply(error))
    return answers


def _ask_one(client: Client, command: Command) -> object:
    answer: object = None
    for text in (False, True):
        try:
            answer = client.execute_command(*words(command, text=text), NEVER_DECODE=True)
        except exceptions.ResponseError as error:
            answer = error_reply(error)
        if not isinstance(answer, ErrorReply) or answer.code != "NOSCRIPT":
            break
    return answer


async def ask_asyncio(client: Client, commands: Sequence[Command]) -> list[object]:
    """The same over redis.asyncio; only several commands go over one connection, all sent before the first answer."""
    answers: list[object] = []
    try:
        if len(commands) > 1:
            try:
                async with AsyncioLane(client) as lane:
                    return await lane.exchange(commands)
            except exceptions.ConnectionError:
                pass
        for command in commands:
            answer = await _ask_one_asyncio(client, command, text=False)
            if isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT":
                answer = await _ask_one_asyncio(client, command, text=True)
            answers.append(answer)
        if any(map(_misled, answers)):
            await (_disconnect_idle(client.connection_pool) or _nothing())
            if (held := getattr(client, "connection", None)) is not None:  # with single_connection_client
                await _disconnect_now(held)
    except (exceptions.RedisError, OSError, asyncio.TimeoutError) as error:
        raise translate(error) or error from error
    return answers


def _undecoded(answer: object, client: Client) -> object:
    """Return the answer in bytes: redis.asyncio 5.0 with hiredis decodes it though it was asked not to."""
    if isinstance(answer, str):
        encoder = client.connection_pool.get_encoder()
        return answer.encode(encoder.encoding, encoder.encoding_errors)
    if isinstance(answer, list):
        return (
            [_undecoded(part, client) for part in answer] if any(isinstance(part, str) for part in answer) else answer
        )
    if isinstance(answer, dict):
        return {_undecoded(key, client): _undecoded(value, client) for key, value in answer.items()}
    return answer


async def _ask_one_asyncio(client: Client, command: Command, *, text: bool) -> object:
    try:
        call: Awaitable[object] = client.execute_command(*words(command, text=text), NEVER_DECODE=True)
        return _undecoded(await _cancellable(call), client)
    except exceptions.ResponseError as error:
        return error_reply(error)
