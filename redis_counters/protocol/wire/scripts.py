"""The texts and hashes of the scripts, and the commands that they call, read once from the files of ``lua/``."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path

from redis_counters.protocol.wire.commands import Script

_PACKAGE = Path(__file__).resolve().parents[2]
_CALL = re.compile(rb"\bp?call\('([A-Z]+)'")
_INCLUDE = re.compile(rb"^-- include (parts/\w+\.lua)\n", re.MULTILINE)


def folder() -> Path:
    """Return the folder of the scripts: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "lua"
    return installed if installed.is_dir() else _PACKAGE.parent / "lua"


@cache
def text(script: Script) -> bytes:
    """Return a script's text, with its parts in the places of the lines that include them."""
    return _with_parts(f"{script.value}.lua", set())


def _with_parts(name: str, included: set[str]) -> bytes:
    """Return a file's text with its parts, and theirs; but for those that are ``included`` before."""

    def part(line: re.Match[bytes]) -> bytes:
        name = line[1].decode()
        if name in included:
            return b""
        included.add(name)
        return _with_parts(name, included)

    return _INCLUDE.sub(part, (folder() / name).read_bytes())


@cache
def digest(script: Script) -> bytes:
    """Return the hash that EVALSHA calls the script by."""
    return sha1(text(script), usedforsecurity=False).hexdigest().encode()


@cache
def calls(script: Script) -> tuple[str, ...]:
    """Return the names of the commands that a script calls, in their order."""
    return tuple(sorted({name.decode() for name in _CALL.findall(text(script))}))
