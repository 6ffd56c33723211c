"""Lines from files and standard input, as bytes, in blocks, such that a signal interrupts even an endless wait."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import UsageError

BLOCK = 1 << 20
# Memory is bounded even for an input without any newline.
MAX_LINE = 1 << 20
STDIN = b"-"


class LineTooLongError(OSError):
    """A line is longer than MAX_LINE. It was not counted; the lines before it were."""

    def __str__(self) -> str:
        return f"the next line is longer than {MAX_LINE:,} bytes, too long for a name"


@dataclass(frozen=True, slots=True)
class Source:
    """An input that could be read when it was checked. ``size``: bytes, None where it is not known (a pipe)."""

    path: bytes
    size: int | None

    @property
    def title(self) -> str:
        return "standard input" if self.path == STDIN else os.fsdecode(self.path)

    def open(self) -> int:
        """Return a file descriptor, not blocking for a named pipe: a signal can interrupt the wait for its writer."""
        if self.path == STDIN:
            return os.dup(0)
        return os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))


def check(path: bytes) -> Source:
    """Return the source of this path, which is not read yet. Raises UsageError if it cannot be read."""
    shown = os.fsdecode(path)
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise UsageError("standard input is closed")
            status = os.fstat(0)
        else:
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                os.close(os.open(path, os.O_RDONLY))
            elif not stat.S_ISDIR(status.st_mode) and not os.access(path, os.R_OK):
                # Opening a pipe only to look at it would disturb its writer.
                raise PermissionError(None, "Permission denied")
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"cannot read {shown}: it is a directory")
    return Source(path, status.st_size if stat.S_ISREG(status.st_mode) else None)


def blocks(source: Source, stop: Stop, tick: float | None = None) -> Iterator[tuple[list[bytes], int]]:
    """Yield whole lines without their newlines, and the number of bytes that they take; end after a signal.

    After ``tick`` seconds of silence the block is empty. The last line counts without a newline too; a line of which
    only a part was read when the signal came does not.
    """
    fd = source.open()
    try:
        rest = b""
        while not stop:
            if source.size is None and not stop.wait_readable(fd, tick):
                yield [], 0
                continue
            try:
                read = os.read(fd, BLOCK)
            except BlockingIOError:
                continue
            if not read:
                if rest:
                    yield [rest], len(rest)
                return
            end = read.rfind(b"\n") + 1
            if end:
                lines = (rest + read[: end - 1]).split(b"\n")
                if len(lines[0]) > MAX_LINE:
                    raise LineTooLongError
                size = len(rest) + end
                rest = read[end:]
                yield lines, size
            else:
                rest += read
            if len(rest) > MAX_LINE:
                raise LineTooLongError
    finally:
        os.close(fd)
