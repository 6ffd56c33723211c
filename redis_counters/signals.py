"""SIGTERM as an orderly end, for programs that have none of their own. Opt-in: nothing else here handles a signal."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def exit_on_sigterm() -> bool:
    """SIGTERM ends this process from now on as `sys.exit(0)` does, so that what was counted is delivered.

    Return whether it does. A handler that is there stays, and one that is installed later takes its place: servers as
    gunicorn and uvicorn, and job queues, have handlers that end them orderly. Only the main thread can install one:
    in another nothing is done. Calling again does nothing. Children of a fork have it, too.
    While the process ends, another SIGTERM ends it at once.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is _exit:
        return True
    if before is not signal.SIG_DFL:
        return False
    try:
        signal.signal(signal.SIGTERM, _exit)
    except ValueError:  # this is not the main thread
        return False
    return True


def _exit(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(0)
