"""Questions that may be repeated: reading.

A question takes a connection of the pool: ``execute_command`` costs as much as the answer besides. Only if that
connection breaks, the question is repeated through ``execute_command``, with the retries that the client has.
(asyncio always sends one short command that way, because redis-py handles its cancellation.)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence

from redis import exceptions

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py.cancelling import within as within_asyncio
from redis_counters.drivers.redis_py.clients import (
    MAX_PAUSE_S,
    MIN_PAUSE_S,
    Client,
    Connection,
    KnownConnections,
    Pool,
    disconnect_idle_asyncio,
    disconnect_now,
    no_half_open,
    no_half_open_asyncio,
    take_connection,
)
from redis_counters.drivers.redis_py.errands import within
from redis_counters.drivers.redis_py.errors import (
    all_in_use,
    garbled,
    misled,
    no_connection_left,
    reply_to_one,
    translate,
)
from redis_counters.drivers.redis_py.hashes import Hashes, answers_of, keys_of
from redis_counters.drivers.redis_py.lanes import AsyncioLane
from redis_counters.drivers.redis_py.watching import Watched
from redis_counters.drivers.redis_py.wire import packed, undecoded, words
from redis_counters.errors import Unavailable
from redis_counters.protocol.wire.commands import Command, ErrorReply, is_unknown_script, sent

MANY_KEYS = 20  # from here on this packs a command: redis.asyncio does it argument by argument, in Python


def ask(client: Client, commands: Sequence[Command], hashes: Hashes, deadline: Deadline) -> list[object]:
    """Return the answers to commands that only read (or may be repeated), in order. Raises our errors."""
    try:
        try:
            return _ask_at_once(client.connection_pool, commands, hashes, deadline)
        except exceptions.ConnectionError as error:
            if all_in_use(error):
                raise
            # it need not be in the traceback of what follows
        return within(deadline, lambda: [_ask_one(client, command) for command in commands])
    except (exceptions.RedisError, OSError) as error:
        raise translate(error) or error from error


def _ask_at_once(pool: Pool, commands: Sequence[Command], hashes: Hashes, deadline: Deadline) -> list[object]:
    connection = take_connection(pool, deadline)
    whole = False
    try:
        with Watched(connection, deadline):
            keys = keys_of(commands)
            if keys is not None and (found := hashes.ask(connection, keys, commands)) is not None:
                answers = answers_of(commands, found)
            else:
                answers = _exchange_all(connection, commands)
        whole = not any(map(misled, answers))
    finally:
        if not whole:  # an answer may still come, which belongs to no other question; or it is the wrong server
            connection.disconnect()
        pool.release(connection)
    return answers


def _exchange_all(connection: Connection, commands: Sequence[Command]) -> list[object]:
    """Return the answers; a script that Redis does not know is sent with its text."""
    answers = _exchange(connection, commands, text=False)
    if any(isinstance(answer, ErrorReply) for answer in answers):
        unknown = [n for n, answer in enumerate(answers) if is_unknown_script(answer)]
        for n, answer in zip(unknown, _exchange(connection, [commands[n] for n in unknown], text=True), strict=True):
            answers[n] = answer
    return answers


def _exchange(connection: Connection, commands: Sequence[Command], *, text: bool) -> list[object]:
    """All commands are sent before the first answer is read."""
    for command in commands:
        connection.send_packed_command(packed(connection, command, text=text), check_health=command is commands[0])
    sent(commands)
    answers: list[object] = []
    for _ in commands:
        try:
            answers.append(connection.read_response(disable_decoding=True))
        except exceptions.ConnectionError:  # some of them are errors of Redis too, as LOADING is
            raise
        except exceptions.ResponseError as error:
            answers.append(reply_to_one(error))
        except ValueError as error:
            raise garbled(error) from error
    return answers


def _ask_one(client: Client, command: Command) -> object:
    answer: object = None
    for text in (False, True):
        try:
            with no_half_open(client.connection_pool):
                answer = client.execute_command(*words(command, text=text), NEVER_DECODE=True)
        except exceptions.ResponseError as error:
            answer = reply_to_one(error)
        except ValueError as error:
            raise garbled(error) from error
        if not is_unknown_script(answer):
            break
    return answer


async def ask_asyncio(client: Client, commands: Sequence[Command], deadline: Deadline) -> list[object]:
    """The same over redis.asyncio; only several commands, or a long one, go over a connection that is taken for them.

    All are sent before the first answer.
    """
    pause = MIN_PAUSE_S
    full: Unavailable | None = None
    while True:
        try:
            return await within_asyncio(deadline, _ask_asyncio(client, commands, deadline))
        except exceptions.TimeoutError as error:
            raise full or translate(error) or error from error
        except Unavailable as error:
            if not no_connection_left(error) or deadline.left() <= pause:
                raise
            full = error
        await asyncio.sleep(pause * random.random())
        pause = min(2 * pause, MAX_PAUSE_S)


async def _ask_asyncio(client: Client, commands: Sequence[Command], deadline: Deadline) -> list[object]:
    answers: list[object] = []
    try:
        if len(commands) > 1 or len(commands[0].keys) > MANY_KEYS:
            try:
                async with AsyncioLane(client, KnownConnections(), deadline, alone=True) as lane:
                    return await lane.exchange(commands)
            except exceptions.ConnectionError as error:
                if all_in_use(error):
                    raise
        for command in commands:
            answer = await _ask_one_asyncio(client, command, text=False)
            if is_unknown_script(answer):
                answer = await _ask_one_asyncio(client, command, text=True)
            answers.append(answer)
        if any(map(misled, answers)):
            await disconnect_idle_asyncio(client.connection_pool)
            if (held := getattr(client, "connection", None)) is not None:  # with single_connection_client
                await disconnect_now(held)
    except (exceptions.RedisError, OSError, asyncio.TimeoutError) as error:
        raise translate(error) or error from error
    return answers


async def _ask_one_asyncio(client: Client, command: Command, *, text: bool) -> object:
    try:
        async with no_half_open_asyncio(client.connection_pool):
            call: Awaitable[object] = client.execute_command(*words(command, text=text), NEVER_DECODE=True)
            return undecoded(await call, client)
    except exceptions.ResponseError as error:
        return reply_to_one(error)
    except ValueError as error:
        raise garbled(error) from error
