"""The texts and hashes of the scripts, read once from the files of ``lua/``."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path

from redis_counters.protocol.wire.commands import Script

_PACKAGE = Path(__file__).resolve().parent.parent
_INCLUDE = re.compile(rb"^-- include (parts/\w+\.lua)\n", re.MULTILINE)


def lua_folder() -> Path:
    """Return the folder of the scripts: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "lua"
    return installed if installed.is_dir() else _PACKAGE.parent / "lua"


@cache
def text(script: Script) -> bytes:
    """Return a script's text, with each part that it includes in the place of the line that says so."""
    folder = lua_folder()
    own = (folder / f"{script.value}.lua").read_bytes()
    return _INCLUDE.sub(lambda line: (folder / line[1].decode()).read_bytes(), own)


@cache
def digest(script: Script) -> bytes:
    """Return the hash that EVALSHA calls the script by."""
    return sha1(text(script), usedforsecurity=False).hexdigest().encode()
