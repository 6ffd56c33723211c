"""Whole hashes, many at once. An answer that came before, byte for byte, is not parsed again.

The script slots_read costs the server two to three times as much as HGETALLs in a row: Lua makes a string of each field
and each value. To the client these are an answer each, and redis-py takes longer for one than the server does. So they
are read off the connection's socket, which is redis-py's own. Anything else that comes there is handed over to its
parser, and the caller asks in the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import exceptions

from redis_counters.drivers.redis_py import compat
from redis_counters.drivers.redis_py.clients import Connection
from redis_counters.protocol.wire.commands import Command, Script, sent

try:
    import hiredis
except ImportError:  # as in wire.py
    hiredis = None  # type: ignore[assignment]

MAX_KNOWN = 2**20  # bytes of questions and answers that are kept; what is parsed of them takes a few times as much
MAX_KNOWN_ANSWER = 2**16  # bytes of one of them
CHUNK_SIZE = 2**16  # bytes taken from the socket at once

_MORE = object()  # a reader has no whole answer yet


class Hashes:
    """Answers to the questions asked last. Threads may share it: an entry comes in, and all are thrown out, at once."""

    __slots__ = ("_known", "_size")

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], tuple[bytes, bytes, list[object]]] = {}
        self._size = 0

    def ask(self, connection: Connection, keys: Sequence[bytes], commands: Sequence[Command]) -> list[object] | None:
        """Return the hashes, in order: maps or flat lists. None if one is no hash, or for a connection that is odd.

        The caller must not change the answer: the next same question gets it too. Raises what redis-py raises.
        """
        if hiredis is None or compat.hiredis_reader(connection) is None:
            return None
        if not hasattr(compat.socket_of(connection), "recv"):  # of a server in this process
            return None
        asked = tuple(keys)
        question, before, hashes = self._known.get(asked) or (_question(keys), b"", [])
        connection.send_packed_command([question])
        sent(commands)
        sock, theirs = compat.socket_of(connection), compat.hiredis_reader(connection)
        if sock is None or theirs is None:
            raise exceptions.ConnectionError("the connection was closed by somebody else")
        came = b"" if theirs.has_data() else _take(sock, len(before) or CHUNK_SIZE)
        # What may become the same is no whole answer yet: none is the beginning of another one.
        while len(came) < len(before) and before.startswith(came):
            came += _take(sock, len(before) - len(came))
        if before and came == before:
            return hashes
        kind = dict if getattr(connection, "protocol", 2) in (3, "3") else list
        pieces = [came]
        if came and _parse(pieces, hashes := [], len(keys), kind, sock):
            self._keep(asked, question, b"".join(pieces), hashes)
            return hashes
        for piece in pieces:
            theirs.feed(piece)
        for _ in keys:
            try:
                connection.read_response(disable_decoding=True)
            except exceptions.ConnectionError:
                raise
            except exceptions.ResponseError:
                pass
        return None

    def _keep(self, keys: tuple[bytes, ...], question: bytes, answer: bytes, hashes: list[object]) -> None:
        size = len(question) + len(answer)
        if size > MAX_KNOWN_ANSWER:
            return
        self._size += size
        if self._size > MAX_KNOWN:
            self._known.clear()
            self._size = size
        self._known[keys] = question, answer, hashes


def keys_of(commands: Sequence[Command]) -> Sequence[bytes] | None:
    """Return the keys, if all that is asked for are hashes as they are."""
    if len(commands) == 1 and (commands[0].plain == b"HGETALL" or commands[0].script is Script.SLOTS_READ):
        return commands[0].keys
    if all(command.script is Script.SLOTS_READ for command in commands):
        return [key for command in commands for key in command.keys]
    return None


def answers_of(commands: Sequence[Command], hashes: list[object]) -> list[object]:
    """Return the answers to the commands that `keys_of` has the keys of."""
    if commands[0].plain:
        return hashes
    if len(commands) == 1:
        return [hashes]
    rest = iter(hashes)
    return [[next(rest) for _key in command.keys] for command in commands]


def _question(keys: Sequence[bytes]) -> bytes:
    return b"".join([b"*2\r\n$7\r\nHGETALL\r\n$%d\r\n%b\r\n" % (len(key), key) for key in keys])


def _parse(pieces: list[bytes], hashes: list[object], count: int, kind: type, sock: Any) -> bool:
    """Read so many answers; False for anything else but hashes. ``pieces`` are what has come, ``hashes`` what it is."""
    reader = hiredis.Reader(notEnoughData=_MORE)
    try:
        reader.feed(pieces[0])
        while True:
            answer = reader.gets()
            if answer is _MORE:
                pieces.append(_take(sock, CHUNK_SIZE))
                reader.feed(pieces[-1])
            elif type(answer) is not kind:
                return False
            else:
                hashes.append(answer)
                if len(hashes) == count:
                    return not reader.has_data()
    except hiredis.ProtocolError:
        return False


def _take(sock: Any, most: int) -> bytes:
    """Return what comes from the socket. Raises what redis-py raises."""
    try:
        piece: bytes = sock.recv(most)
    except TimeoutError:
        raise exceptions.TimeoutError("Timeout reading from socket") from None
    except OSError as error:
        raise exceptions.ConnectionError(f"Error while reading from socket: {error.args}") from None
    if not piece:
        raise exceptions.ConnectionError("Connection closed by server.")
    return piece
