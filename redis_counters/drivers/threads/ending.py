"""What ends a client besides close(), in the blocking face: exit, of a child too, and that nothing refers to it."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process import atexit_hooks, fork_hooks
from redis_counters.errors import CounterError
from redis_counters.events import log

if TYPE_CHECKING:
    from redis_counters.drivers.threads.runner import ThreadRunner


class Ending:
    """The hooks of one client."""

    def __init__(self, runner: ThreadRunner) -> None:
        self.runner = runner
        self.stop_client: Callable[[], None] | None = None  # if the client is not the caller's
        self.in_child: Callable[[], object] | None = None  # calls off what a child of multiprocessing does at its end
        fork_hooks.begin_anew(runner)
        atexit.register(self.deliver)
        atexit_hooks.close_at_exit(runner, self._close_at_exit)

    def let_go(self) -> None:
        """The hooks of forks and of the end of the process are gone."""
        fork_hooks.forget(self.runner)
        atexit.unregister(self.deliver)
        atexit_hooks.forget(self.runner)
        if self.in_child is not None:
            self.in_child()

    def close_in_child(self) -> None:
        """A child of multiprocessing closes the client at its end.

        Not from the fork on: multiprocessing forgets then what was registered with it.
        """
        if self.in_child is None:
            self.in_child = atexit_hooks.close_in_child(self._close_at_exit)

    def drop(self) -> bool:
        """Nothing can count any more: what is pending is sent, then the client ends. False if there is nothing to end.

        The garbage collector calls this: see `finalizer`.
        """
        runner, state = self.runner, self.runner.state
        if state.over or not fork_hooks.begun():  # in a child it has nothing, and nothing can be waited for here
            return False
        unrecorded = runner.recording is None or runner.recording.journal.unused
        if not runner.background.begun and state.core.writer.clean and unrecorded:
            state.refusing = state.stopped = state.over = True
            self.let_go()
            if self.stop_client is not None:  # else its sockets would be found open by the garbage collector
                with suppress(Exception):
                    runner.transport.disconnect_idle()
            return False
        state.dropped = True
        runner.background.asked.set()
        return True

    def close_if_all_sent(self) -> None:
        """The client was dropped: as soon as all is sent it is closed, in a thread."""
        state, writer = self.runner.state, self.runner.state.core.writer
        if not state.refusing:
            with state.lock:
                done = writer.clean and writer.durable
            if done:
                state.dropped = False
                with suppress(RuntimeError):  # at the end of the interpreter there are no threads; its hook closes this
                    threading.Thread(target=self._close_dropped, name="redis-counters-closing", daemon=True).start()

    def _close_dropped(self) -> None:
        with suppress(CounterError):
            self.runner.close(atexit_hooks.LIMIT_S)
        self.end_client()

    def end_client(self) -> None:
        """End the client, if it is ours."""
        stop, self.stop_client = self.stop_client, None
        if stop is not None:
            stop()

    def deliver(self) -> None:
        """All that was counted is in Redis and folded, as by close(); but others may go on counting."""
        runner, state, core = self.runner, self.runner.state, self.runner.core
        runner.begin_here()
        writer = core.writer
        with state.lock:
            if state.refusing:
                return
            target = core.begin_flush()
            core.begin_close()
            accepted = writer.accumulator.accepted
        try:
            runner.waiting.until(
                lambda: (
                    writer.closed or ((target is None or target.reached()) and writer.accumulator.accepted > accepted)
                ),
                monotonic() + atexit_hooks.rest() / 2,  # the other half is for closing, when nothing counts any more
            )
        except CounterError:
            pass  # close() raises it
        finally:
            with state.lock:
                writer.closing = state.refusing

    def _close_at_exit(self, seconds: float) -> None:
        try:
            self.runner.close(seconds)
        except CounterError as error:
            log.error("at exit: %s", error)
