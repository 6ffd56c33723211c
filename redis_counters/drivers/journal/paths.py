"""The names of a journal's files, and what becomes of them; each step may be the last one of this process.

A damaged journal is set aside by its name. What is whole in it, if anything is, stands in a file of its own before:
when the damaged one has its new name, that takes the old one; if this is interrupted, the next process does it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def finished(path: Path) -> bool:
    """Return whether it is there, after finishing what an interrupted process began when it set it aside."""
    if not path.exists() and path.with_suffix(".mended").exists():
        finish(path, last(path))
    return path.exists()


def finish(path: Path, aside: Path) -> None:
    """The mended file takes the place of the one that is set aside; its log goes with it."""
    set_aside(path, aside, ("-wal", "-shm"))
    os.rename(path.with_suffix(".mended"), path)
    sync(path.parent)


def set_aside(path: Path, aside: Path, suffixes: tuple[str, ...]) -> None:
    """These of a journal's files have another name, if they are there; an empty log is none."""
    for suffix in suffixes:
        file = beside(path, suffix)
        with contextlib.suppress(FileNotFoundError):
            if suffix and not file.stat().st_size:
                os.unlink(file)
            else:
                os.rename(file, beside(aside, suffix))


def free(path: Path) -> Path:
    """Return a name for the file, set aside."""
    number, aside = 1, beside(path, ".damaged")
    while aside.exists():
        number += 1
        aside = beside(path, f".{number}.damaged")
    return aside


def last(path: Path) -> Path:
    """Return the name that `free` gave last."""
    number, last = 1, beside(path, ".damaged")
    while (following := beside(path, f".{number + 1}.damaged")).exists():
        number, last = number + 1, following
    return last


def replace_by_copy(path: Path) -> None:
    """The file has another inode, and the same content at every moment: what is in the WAL belongs to either."""
    copy = path.with_suffix(".new")
    with open(path, "rb") as file, open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as new:
        shutil.copyfileobj(file, new)
        new.flush()
        os.fsync(new.fileno())
    os.rename(copy, path)
    sync(path.parent)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def parts(path: Path) -> list[Path]:
    """Return all files that a journal may consist of; the lock last."""
    bodies = [path.with_suffix(suffix) for suffix in (".new", ".mended", ".journal")]
    return [beside(body, end) for body in bodies for end in ("", "-wal", "-shm", "-journal")] + [
        path.with_suffix(".lock")
    ]


def unlink(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def sync(directory: Path) -> None:
    """The names in the directory are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
