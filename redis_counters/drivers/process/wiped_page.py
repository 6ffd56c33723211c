"""Signs that a child of a fork does not inherit, whatever forked it: the kernel takes them away.

Hooks of Python run where Python forks. uWSGI forks in C, and so may any library. Linux gives a child zeros for a page
that its parent has marked so (MADV_WIPEONFORK, 4.14): a sign that lies there is not set in the child. To look at it
takes as long as to look whether a list is empty; to ask for the process id takes as long as four increments.

Elsewhere, and in sandboxes whose kernel does not know of it, a sign is an ordinary one: a child has its parent's.
"""

from __future__ import annotations

import mmap
import sys

from redis_counters.protocol.write.buffer import Sign

_WIPE_ON_FORK = 18  # MADV_WIPEONFORK, for which the module mmap has no name


def new_sign() -> Sign:
    """Return a sign that is not set, and never is in a child of a fork that has not set it, where `wiped` says so."""
    made = _new_wiped() if sys.platform == "linux" else None
    return made if made is not None else Sign()


def _new_wiped() -> Sign | None:
    """Return one in a page of its own, which is given back with it: 4 KiB, and nothing to be shared or to be freed."""
    try:
        from ctypes import c_bool  # its truth is read from memory; not to be had in every interpreter

        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_WIPE_ON_FORK)
        sign: Sign = c_bool.from_buffer(page)  # type: ignore[assignment]  # it has a value and a truth, as a sign does
    except (ImportError, AttributeError, OSError, ValueError):
        return None
    return sign


def wiped(sign: Sign) -> bool:
    """True of a sign that no child inherits."""
    return type(sign) is not Sign
