"""The globals that a Lua text reads and writes, as Lua's own compiler finds them."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from lupa import lua51

GIVEN = frozenset({"redis", "KEYS", "ARGV", "string", "table", "math", "unpack", "tonumber", "type", "pairs", "next"})
"""What a script finds there. (Not Lua's ``pcall``, which would take the name of a command for a function.)"""

_GETGLOBAL, _SETGLOBAL = 5, 7  # of Lua 5.1


def read_and_written(text: str) -> tuple[set[str], set[str]]:
    """Return the names of the globals that the text reads, and of those that it writes, in all its functions."""
    code = _Code(_compiler()(text.encode()))
    code.skip(12)  # the header
    code.function()
    return code.read, code.written


def imported(text: str) -> set[str]:
    """Return the names that have to come from elsewhere: neither local, nor given by Redis; or that are written."""
    read, written = read_and_written(text)
    return (read - GIVEN) | written


@cache
def _compiler() -> Any:
    lua = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True)
    return lua.execute(b"return function(text) return string.dump(assert(loadstring(text))) end")


class _Code:
    """A reader of what ``string.dump`` returns, on a machine of 64 bits; it collects the globals' names."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self.read: set[str] = set()
        self.written: set[str] = set()

    def skip(self, count: int) -> None:
        self._at += count

    def function(self) -> None:
        self._text()
        self.skip(4 + 4 + 4)  # its lines; how many upvalues, parameters, registers
        code = [self._number("I") for _ in range(self._number("i"))]
        constants = [self._constant() for _ in range(self._number("i"))]
        for instruction in code:
            if instruction & 63 == _GETGLOBAL:
                self.read.add(constants[instruction >> 14])
            elif instruction & 63 == _SETGLOBAL:
                self.written.add(constants[instruction >> 14])
        for _ in range(self._number("i")):
            self.function()
        self.skip(4 * self._number("i"))  # the line of each instruction
        for _ in range(self._number("i")):  # locals
            self._text()
            self.skip(8)
        for _ in range(self._number("i")):  # upvalues
            self._text()

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def _text(self) -> str:
        size = self._number("Q")
        self._at += size
        return self._data[self._at - size : self._at - 1].decode() if size else ""

    def _constant(self) -> str:
        kind = self._number("B")
        if kind == 4:
            return self._text()
        self.skip({0: 0, 1: 1, 3: 8}[kind])
        return ""
