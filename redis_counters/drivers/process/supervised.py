"""A child process that ends when this one does, however this one ends: exit, crash, ``kill -9``.

Between the two stands a shell that reads a pipe from here. The kernel closes the pipe when this process is gone; then
the shell kills the command. (PR_SET_PDEATHSIG was rejected: Linux only, and it fires when the starting *thread* ends.)
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

from redis_counters.drivers.process import fork_hooks

__all__ = ["Supervised"]

# The shell stays the command's parent and waits for it last, so that until then the pid belongs to nothing else.
# After the inner exec only the command (as its fd 3) holds the writing end of stdout: that pipe ends when it does.
_SCRIPT = """
directory=$1; shift
"$@" 3>&1 >"$directory/log" 2>&1 &
echo $!
exec >/dev/null
read -r _
kill -9 $!
wait
PATH=/usr/bin:/bin:$PATH
rm -rf -- "$directory"
"""
_KILL_TIMEOUT = 10.0


class Supervised:
    """A running command, writing to ``directory/log``; the directory is removed when it is stopped.

    A process forked from this one neither keeps the command alive nor ends it. The command gets a session of its own,
    so that Ctrl-C on the terminal does not reach it, and the locale C: Redis 7.2 and later, and Valkey, do not start in
    a locale that is not installed.

    Raises: OSError if no shell can be started.
    """

    def __init__(self, command: Sequence[str | Path], directory: Path) -> None:
        self.log = directory / "log"
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - a fixed script; the command is the caller's
            ["/bin/sh", "-c", _SCRIPT, "supervise", str(directory), *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
            bufsize=0,
        )
        _running.add(self)
        assert self._process.stdout is not None
        self.pid = int(self._process.stdout.readline())

    def ended(self, timeout: float = 0.0) -> bool:
        """Tell whether the command has ended, by itself or by a signal, within ``timeout`` seconds."""
        stdout = self._process.stdout
        if stdout is None or stdout.closed:
            return True
        poll = select.poll()  # select.select fails on descriptors from 1024 on
        poll.register(stdout, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def tail(self, lines: int = 10) -> str:
        """Return the last lines of the log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """The command is gone (SIGKILL) and its directory too. Idempotent; does nothing in a forked child."""
        fork_hooks.notice()
        with self._lock:
            if self._process.stdin is None or self._process.stdin.closed:
                return
            self._process.stdin.close()
            try:
                self._process.wait(_KILL_TIMEOUT)
            finally:
                if not self.ended():  # the shell was killed, and has left the command alone
                    os.kill(self.pid, signal.SIGKILL)
                    shutil.rmtree(self.log.parent, ignore_errors=True)
                self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _forget(self) -> None:
        """Make this a stopped one, in a forked child, where it belongs to the parent."""
        self._lock = threading.Lock()  # a thread of the parent's may have held the old one
        self._close()
        self._process.returncode = 0  # nothing to wait for


_running: weakref.WeakSet[Supervised] = weakref.WeakSet()


def _after_fork() -> None:
    """Close the copies of the pipes in a forked child: the parent's end must be the only one."""
    for supervised in list(_running):
        supervised._forget()


fork_hooks.before_all(_after_fork)
