"""How far a journal was written, in its lock file: a witness outside of the file that may be damaged.

A file that was cut between two transactions is a whole, older one, and so is a log behind a bit that flipped, for
SQLite drops all that follows. Only another place knows that there was more, and whether it matters: what was in the
older state may have moved to another place since, and been sent from there.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import NamedTuple
from zlib import crc32

_FORM = struct.Struct(">5Q")
_CHECK = struct.Struct(">I")


class Mark(NamedTuple):
    """The state of the journal when it was written last. Rounds are transactions, but for those of single calls."""

    rounds: int = 0
    calls: int = 0  # the number of the last call that is recorded by itself, or was
    counted: int = 0  # calls up to this one are in the totals
    turn: int = 0  # the last round that was to be there before something new is sent
    moved: int = 0  # the last round that took slots away, for they are at another place now

    def write(self, descriptor: int) -> None:
        """It stands in the file, all of it or as before. If not, a loss may go unnoticed: no reason to fail."""
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, self.packed(), 0)

    def packed(self) -> bytes:
        """Return it as it stands in the file."""
        content = _FORM.pack(*self)
        return content + _CHECK.pack(crc32(content))


def read_mark(descriptor: int) -> Mark | None:
    """Return what stands in the file, None if that is not what was written."""
    content = os.pread(descriptor, _FORM.size + _CHECK.size + 1, 0)
    if len(content) != _FORM.size + _CHECK.size or content != (mark := Mark(*_FORM.unpack_from(content))).packed():
        return None
    return mark
