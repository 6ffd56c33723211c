"""Commands as redis-py sends them, and its answers in bytes.

Answers are never decoded: a client's ``decode_responses`` and ``encoding`` (if it is like ASCII) make no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis_counters.drivers.redis_py.clients import Client, Connection
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Command

pack_command: Callable[..., bytes] | None
try:
    from hiredis import pack_command
except ImportError:  # it is required, but where it cannot be built redis-py's own packer does
    pack_command = None


def words(command: Command, *, text: bool = False) -> list[Any]:
    """Return the command as Redis takes it: EVALSHA, or EVAL where the script's text has to go along."""
    if command.script is None:
        return [command.plain, *command.keys, *command.args]
    call = [b"EVAL", scripts.text(command.script)] if text else [b"EVALSHA", scripts.digest(command.script)]
    return [*call, len(command.keys), *command.keys, *command.args]


def packed(connection: Connection, command: Command, *, text: bool) -> Any:
    """Return the command as it goes over the wire; a flush has hundreds of arguments, and redis-py looks at each."""
    if pack_command is None:
        return connection.pack_command(*words(command, text=text))
    return [pack_command(tuple(words(command, text=text)))]


def undecoded(answer: object, client: Client) -> object:
    """Return the answer in bytes: some versions of redis-py with hiredis decode it though they were asked not to.

    redis.asyncio 5.0 always does, and redis up to 7 where it was asked before whether there is one.
    """
    if isinstance(answer, str):
        encoder = client.connection_pool.get_encoder()
        return answer.encode(encoder.encoding, encoder.encoding_errors)
    if isinstance(answer, list):
        return [undecoded(part, client) for part in answer] if str in set(map(type, answer)) else answer
    if isinstance(answer, dict):
        return {undecoded(key, client): undecoded(value, client) for key, value in answer.items()}
    return answer
