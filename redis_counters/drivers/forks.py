"""Who begins anew in the child of a fork, whichever face he belongs to."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What would go on as its parent's."""

    def after_fork_in_child(self) -> None: ...


_forked: weakref.WeakSet[Forked] = weakref.WeakSet()


def begin_anew(each: Forked) -> None:
    """It is told in the child of every fork from now on."""
    _forked.add(each)


def forget(each: Forked) -> None:
    """It is not told any more."""
    _forked.discard(each)


def _after_fork_in_child() -> None:
    for each in list(_forked):
        each.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
