"""A warning where related processes open ``embedded://`` each: every one has a server, and counts, of its own.

Who opens it holds a lock on two files, one that its siblings try and one that its children try.
"""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_held: dict[int, list[int]] = {}  # by the process that took them, for a fork inherits this table


def warn_if_not_alone() -> None:
    """It is logged if the parent, or another child of it, has opened ``embedded://`` too and still runs."""
    me = os.getpid()
    if me in _held:
        return
    try:
        import fcntl
    except ImportError:  # then nobody knows
        return
    files = _held[me] = []
    shared = False
    for parent in (os.getppid(), me):
        path = Path(tempfile.gettempdir(), f"redis-counters-embedded-{os.getuid()}-{parent}")
        with suppress(OSError):
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                shared = True
    if shared:
        logging.getLogger("redis_counters").warning(
            "embedded:// is a server of this process alone (%d), and a related process has opened one of its own: "
            "they do not share counts; several workers need one Redis, by its URL",
            me,
        )
