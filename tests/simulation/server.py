"""A Redis server in this process: the real scripts, run by the real Lua 5.1, on hashes kept as dicts.

fakeredis runs scripts too, at 290 microseconds a flush of two counters; this takes a tenth of that, and its whole state
can be copied and rolled back. It knows just the commands that the scripts and the reads use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from lupa import lua51

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from tests.simulation.hashes import Database, Failure

Run = Callable[[Command], object]


SMALL = {b"FEW, MOST = 50, 20000": b"FEW, MOST = 2, 4"}
"""What is large in life, and has to happen with the few counters of a schedule, too."""


@functools.cache
def script_texts() -> Mapping[Script, bytes]:
    """Return the scripts as they are in `lua/`, with smaller limits."""
    texts = {script: scripts.text(script) for script in Script}
    for limits, smaller in SMALL.items():
        assert any(limits in text for text in texts.values())
        texts = {script: text.replace(limits, smaller) for script, text in texts.items()}
    return texts


class LuaServer:
    """Runs commands one at a time. ``texts`` replaces scripts, for tests that break them."""

    def __init__(self, clock: Callable[[], float], texts: Mapping[Script, bytes] | None = None) -> None:
        self.database = Database(clock)
        self._lua = _Lua.with_texts(tuple((texts or script_texts()).items()))
        self.known: set[Script] = set()  # what EVALSHA finds

    def run(self, command: Command, *, text: bool = False) -> object:
        """Return what Redis answers: int, bytes, None, list, or an `ErrorReply`."""
        script = command.script
        try:
            if script is None:
                return self.database.commands[command.plain](*command.keys, *map(_as_bytes, command.args))
            if text:
                self.known.add(script)
            elif script not in self.known:
                return ErrorReply("NOSCRIPT No matching script. Please use EVAL.")
            return self._lua.run(script, self.database, command.keys, command.args)
        except Failure as failure:
            return ErrorReply(failure.text)
        except lua51.LuaError as error:
            return ErrorReply(f"ERR user_script: {error}")


class _Lua:
    """A Lua state with the scripts compiled; databases take turns in being the one that they work on."""

    def __init__(self, texts: tuple[tuple[Script, bytes], ...]) -> None:
        lua = self.lua = lua51.LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        self.database: Database
        self.table: Any = lua.table_from
        redis = lua.table_from(
            {b"call": self.call, b"pcall": self.pcall, b"error_reply": self.error_reply, b"sha1hex": None}
        )
        lua.globals()[b"redis"] = redis
        for name in (b"python", b"os", b"io", b"require", b"dofile", b"loadfile", b"loadstring", b"load", b"pcall"):
            lua.globals()[name] = None  # as Redis has no such, or as no script should need
        self.scripts: dict[Script, Any] = {}
        for script, text in texts:
            self.scripts[script] = lua.execute(b"return function(KEYS, ARGV) " + text + b"\nend")

    @classmethod
    @functools.cache
    def with_texts(cls, texts: tuple[tuple[Script, bytes], ...]) -> _Lua:
        return cls(texts)

    def run(self, script: Script, database: Database, keys: Any, args: Any) -> object:
        self.database = database
        answer = self.scripts[script](self.table(keys), self.table([_as_bytes(arg) for arg in args]))
        return _from_lua(answer)

    def call(self, name: bytes, *args: bytes) -> object:
        return self._to_lua(self.database.commands[name](*args))

    def pcall(self, name: bytes, *args: bytes) -> object:
        try:
            return self._to_lua(self.database.commands[name](*args))
        except Failure as failure:
            return self.error_reply(failure.text.encode())

    def error_reply(self, text: bytes) -> object:
        return self.table({b"err": text})

    def _to_lua(self, reply: object) -> object:
        """As Redis converts: nil becomes false, a list a table."""
        if reply is None:
            return False
        if isinstance(reply, list):
            return self.table([False if part is None else part for part in reply])
        return self.table({b"ok": reply.encode()}) if isinstance(reply, str) else reply


def _as_bytes(argument: bytes | int) -> bytes:
    return argument if isinstance(argument, bytes) else b"%d" % argument


def _from_lua(answer: Any) -> object:
    """As Redis converts: numbers are cut to integers, false is nil, a list ends at its first nil."""
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, bool):
        return 1 if answer else None
    if answer is None or isinstance(answer, (int, float)):
        return None if answer is None else int(answer)
    error = answer[b"err"]
    if error is not None:
        raise Failure(error.decode("utf-8", "replace"))
    return [_from_lua(answer[i]) for i in range(1, len(answer) + 1)]
