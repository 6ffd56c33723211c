"""SQLite's log, also behind a frame that is damaged: SQLite itself drops that in silence.

Each frame of a ``-wal`` has a checksum that goes on from the one of the frame before, so a reader stops at the first
that is wrong. Most of what follows is whole, and pages are written again and again. So the log is made anew with
checksums that are right, once with the damaged frames and once without; the rows have their own (`checks`),
and say what became of it. See the section "WAL file format" of SQLite's "Database File Format".
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

HEADER = 32  # bytes: magic, version, page size, checkpoints, two salts, two sums
FRAME = 24  # bytes in front of a page: its number, pages in all after a commit (or 0), two salts, two sums
_MAGIC = 0x377F_0682  # or 1 more: the sums are of big-endian words
_VERSION = 3_007_000
_MASK = 0xFFFF_FFFF
_OWN = _MAGIC + (sys.byteorder == "big")


@dataclass
class Frame:
    """A page as it was written. ``good``: its checksum is right; then SQLite reads it, if all before it are good."""

    number: int
    commit: int
    page: bytes
    good: bool


def repaired(frames: list[Frame], page: int, pages: int) -> Iterator[bytes]:
    """Yield logs of which SQLite reads all, for a file of so many pages; none if all is good anyway."""
    frames = [frame for frame in frames if 0 < frame.number <= pages + len(frames)]
    if all(frame.good for frame in frames):
        return
    yield _made(frames, page, pages)
    without = [frame for frame in frames if frame.good]
    if without:
        yield _made(without, page, pages)


def frames_of(log: bytes, page: int) -> list[Frame]:
    """Return the frames of the log's present use, up to the last commit; what is from an earlier use is not lost."""
    if len(log) < HEADER + FRAME + page:
        return []
    magic, *_, seed0, seed1 = struct.unpack_from(">8I", log)
    order = ">" if magic & 1 else "<"
    whole = magic & ~1 == _MAGIC and _sums(order, log[: HEADER - 8], 0, 0) == (seed0, seed1)
    salts = log[16:24] if whole else log[HEADER + 8 : HEADER + 16]
    if not whole:
        order = ">" if sys.byteorder == "big" else "<"
    frames: list[Frame] = []
    end = 0
    for at in range(HEADER, len(log) - FRAME - page + 1, FRAME + page):
        number, commit = struct.unpack_from(">2I", log, at)
        content = log[at + FRAME : at + FRAME + page]
        sums = _sums(order, content, *_sums(order, log[at : at + 8], seed0, seed1))
        seed0, seed1 = struct.unpack_from(">2I", log, at + 16)
        present = log[at + 8 : at + 16] == salts
        good = present and sums == (seed0, seed1) and (whole or bool(frames))
        frames.append(Frame(number, commit, content, good))
        if present and (commit or not frames[-1].good):
            end = len(frames)
    return frames[:end]


def _made(frames: list[Frame], page: int, pages: int) -> bytes:
    """Return the log of these frames."""
    order = ">" if sys.byteorder == "big" else "<"
    made = bytearray(struct.pack(">6I", _OWN, _VERSION, page, 0, 1, 1))
    sums = _sums(order, bytes(made), 0, 0)
    made += struct.pack(">2I", *sums)
    size = max(pages, *(frame.number for frame in frames))
    for frame in frames:
        commit = size if frame.commit or frame is frames[-1] else 0
        head = struct.pack(">2I", frame.number, commit)
        sums = _sums(order, frame.page, *_sums(order, head, *sums))
        made += head + struct.pack(">4I", 1, 1, *sums) + frame.page
    return bytes(made)


def _sums(order: str, content: bytes, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
