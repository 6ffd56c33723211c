"""The disk, of a client for threads: the thread that records touches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Disk:
    """Calls what touches the disk."""

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what the function returns."""
        return function(*arguments)

    def end(self) -> None:
        """There is no thread that would have to end."""
