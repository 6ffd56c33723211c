"""Clients of redis-py and their pools: taking a connection in time, giving it back, and closing idle ones."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, cast
from weakref import WeakSet

from redis import exceptions

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py import compat
from redis_counters.drivers.redis_py.at_hand import begin_taking, end_taking
from redis_counters.drivers.redis_py.cancelling import within as within_asyncio
from redis_counters.drivers.redis_py.errands import TooLate, within
from redis_counters.drivers.redis_py.errors import all_in_use, garbled
from redis_counters.errors import UsageError

ALLOWED = "max_connections"  # redis-py's option of a pool
MIN_PAUSE_S, MAX_PAUSE_S = 0.002, 0.05  # between looks whether a connection of the pool is free again

_PRINTABLE = "".join(map(chr, range(32, 127)))


class Connection(Protocol):
    """A connection of redis-py, blocking, as a lane uses it; the asyncio one has the same, awaited."""

    socket_timeout: float | None

    def pack_command(self, *args: object) -> Any: ...
    def send_packed_command(self, command: Any, check_health: bool = True) -> Any: ...
    def read_response(self, disable_decoding: bool = False) -> Any: ...
    def can_read(self, timeout: float = 0) -> Any: ...
    def disconnect(self) -> Any: ...


class Pool(Protocol):
    """A connection pool of redis-py, as a lane uses it."""

    def get_connection(self, *args: str) -> Any: ...
    def release(self, connection: Any) -> Any: ...
    def disconnect(self) -> Any: ...


class Client(Protocol):
    """A client of redis-py: a pool to take a connection from, and commands."""

    connection_pool: Any

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


class KnownConnections:
    """The network connections that were used. redis-py keeps its objects, and connects them anew unseen."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakSet[Any] = WeakSet()

    def is_new(self, connection: object) -> bool:
        """True the first time."""
        link = compat.link_of(connection)
        if link in self._known:
            return False
        self._known.add(link)
        return True


def pool_of(client: object) -> Pool:
    """Return the client's pool. Raises UsageError for what is not a client of one server, as it seems."""
    pool = getattr(client, "connection_pool", None)
    if pool is None or not hasattr(client, "execute_command") or hasattr(client, "command_stack"):  # a pipeline has one
        hint = "; from_url takes a URL" if isinstance(client, str) else ""
        kind = type(client).__name__
        raise UsageError(f"client must be a redis-py client (of a server, Sentinels or a cluster), not {kind}{hint}")
    return cast(Pool, pool)


def new_connection(client: Client) -> Any:
    """Return a connection as the client's pool makes them, not opened. Raises what redis-py raises for its options."""
    pool = client.connection_pool
    return pool.connection_class(**pool.connection_kwargs)


def check_encoding(options: Mapping[str, Any]) -> None:
    """Raises UsageError if redis-py would not send its own commands (AUTH, CLIENT) so that Redis understands them."""
    encoding = options.get("encoding") or "utf-8"
    try:
        if _PRINTABLE.encode(encoding) == _PRINTABLE.encode("ascii"):
            return
    except (LookupError, TypeError, UnicodeError):
        pass
    raise UsageError(f"client: its option encoding has to be one that leaves ASCII as it is, got {encoding!r}")


def is_asyncio(client: object) -> bool:
    """True for a client of redis.asyncio."""
    return inspect.iscoroutinefunction(getattr(type(client), "execute_command", None))


def take_connection(pool: Pool, deadline: Deadline, *, patient: bool = True) -> Any:
    """Return a connection that is logged in, to the client's database, with nothing unread.

    Where all of the pool are in use, one of them is waited for, unless the caller is not ``patient``. Raises
    TimeoutError when that, or connecting, takes too long.
    """
    pause = MIN_PAUSE_S
    while True:
        connection: Any = None
        try:
            try:
                if begin_taking(pool):
                    connection = _take_connection(pool)
                else:
                    connection = within(
                        deadline, functools.partial(_take_connection, pool), functools.partial(_put_back, pool)
                    )
            finally:
                end_taking(pool)
            return connection
        except exceptions.ConnectionError as error:
            if not patient or not all_in_use(error) or deadline.left() <= pause:
                raise
        except TooLate as error:
            raise _late(pool, error) from None
        except BaseException:
            if connection is not None:  # a signal handler has raised: the caller never gets it
                pool.release(connection)
            raise
        time.sleep(pause * random.random())
        pause = min(2 * pause, MAX_PAUSE_S)


def _late(pool: Any, error: exceptions.TimeoutError) -> exceptions.TimeoutError:
    """Return the error of a connection that did not come in time; it says so if the pool is exhausted."""
    if not compat.is_exhausted(pool):
        return error
    allowed = f"{ALLOWED}={pool.max_connections}"
    return exceptions.TimeoutError(f"{error}, and all connections of the client's pool are in use ({allowed})")


def _take_connection(pool: Pool) -> Any:
    connection: Any = None
    try:  # as in no_half_open, whose `with` would take as long as the look
        connection = compat.get_connection(pool)
        if compat.gives_unread(pool) and connection.can_read(timeout=0):
            connection.disconnect()
            connection.connect()
    except BaseException as error:
        if connection is not None:  # else the pool has it back, or never gave it
            connection.disconnect()
            pool.release(connection)
        if not isinstance(error, exceptions.RedisError):
            disconnect_idle(pool)
        if isinstance(error, ValueError):
            raise garbled(error) from error
        raise
    return connection


async def take_connection_asyncio(pool: Pool, deadline: Deadline, *, patient: bool = True) -> Any:
    """The same in asyncio."""
    pause = MIN_PAUSE_S
    if _is_at_hand(pool):  # a task would let others go first
        return await _take_connection_asyncio(pool)
    while True:
        taking = asyncio.ensure_future(_take_connection_asyncio(pool))
        try:
            return await within_asyncio(deadline, taking)
        except exceptions.ConnectionError as error:
            if not patient or not all_in_use(error) or deadline.left() <= pause:
                raise
        except exceptions.TimeoutError as error:
            taking.add_done_callback(functools.partial(_put_back_asyncio, pool))
            raise _late(pool, error) from None
        except BaseException:
            taking.add_done_callback(functools.partial(_put_back_asyncio, pool))
            raise
        await asyncio.sleep(pause * random.random())
        pause = min(2 * pause, MAX_PAUSE_S)


def _is_at_hand(pool: Any) -> bool:
    """True if the next connection of the pool is connected, as far as can be seen: taking it waits for nothing."""
    idle = compat.idle_connections(pool)
    return idle is not None and bool(idle) and compat.is_open(idle[-1])


async def _take_connection_asyncio(pool: Pool) -> Any:
    try:
        async with no_half_open_asyncio(pool):
            connection = await compat.get_connection(pool)
            try:
                if compat.gives_unread(pool) and await connection.can_read():
                    await disconnect_now(connection)
                    await connection.connect()
            except BaseException:
                await disconnect_now(connection)
                await pool.release(connection)
                raise
    except ValueError as error:
        raise garbled(error) from error
    return connection


def _put_back(pool: Pool, connection: Any) -> None:
    """Close a connection that came too late, and put it back: the client may have been closed meanwhile."""
    connection.disconnect()
    pool.release(connection)


def _put_back_asyncio(pool: Pool, taking: asyncio.Future[Any]) -> None:
    """As `_put_back`, in asyncio, where it may come in spite of a cancellation."""

    async def put_back() -> None:
        await disconnect_now(taking.result())
        await pool.release(taking.result())

    if not taking.cancelled() and taking.exception() is None:
        _putting_back.add(putting := asyncio.ensure_future(put_back()))
        putting.add_done_callback(_putting_back.discard)


_putting_back: set[asyncio.Future[Any]] = set()  # a loop holds no tasks


@contextmanager
def no_half_open(pool: Pool) -> Iterator[None]:
    """An interrupted connecting leaves no connection in the pool that has not logged in, or is in another database.

    redis-py closes it for its own errors alone. What a signal handler raises (Ctrl-C) may come up at any point.
    """
    try:
        yield
    except exceptions.RedisError:
        raise
    except BaseException:
        disconnect_idle(pool)
        raise


@asynccontextmanager
async def no_half_open_asyncio(pool: Pool) -> AsyncIterator[None]:
    """The same in asyncio. Where a cancellation may come up, redis-py closes the connection."""
    try:
        yield
    except (exceptions.RedisError, asyncio.CancelledError):
        raise
    except BaseException:
        await disconnect_idle_asyncio(pool)
        raise


def disconnect_idle(pool: Pool) -> None:
    """The pool's idle connections are closed: the next one taken connects anew."""
    disconnect: Any = pool.disconnect
    if compat.can_spare_those_in_use(pool):
        disconnect(inuse_connections=False)
    else:
        for connection in list(compat.idle_connections(pool) or ()):
            if connection is not None:
                connection.disconnect()


async def disconnect_idle_asyncio(pool: Pool) -> None:
    """The same in asyncio."""
    disconnect: Any = pool.disconnect
    await disconnect(inuse_connections=False)


async def disconnect_now(connection: Any) -> None:
    """It is closed, also if the server does not take what was sent: closing alone would wait for that, for ever."""
    compat.abort(connection)
    await connection.disconnect(nowait=True)
