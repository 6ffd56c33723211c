"""The events of the demo: what happens to its processes, and when; each is reported as one line."""

from __future__ import annotations

import time
from collections.abc import Callable

from redis_counters.demo.crew import Crew

_REFRESH = 0.25  # seconds
_FROZEN = 3.0  # seconds at most: redis-py itself gives up a connection after 5


class Script:
    """The events of one demo. ``report`` gets each as it happens; ``events`` has those that did happen."""

    def __init__(self, crew: Crew, seconds: float, report: Callable[[str], object]) -> None:
        self.events: list[str] = []
        self._crew, self._seconds, self._report = crew, seconds, report
        self._frozen_for = min(0.3 * seconds, _FROZEN)
        self._begin: float | None = None

    def play(self, show: Callable[[], object]) -> None:
        """Let the workers count, and play the events; ``show`` is called all the time."""
        crew, seconds = self._crew, self._seconds
        steps: list[tuple[float, Callable[[], object]]] = [
            (0.25 * seconds, self._stop),
            (0.4 * seconds, self._freeze),
            (0.4 * seconds + self._frozen_for, self._resume),
            (seconds, lambda: self._event("the workers close")),
        ]
        next_show = 0.0
        while steps:
            crew.read(0.1)
            if self._begin is None and all(w.report.total or not w.running for w in crew.workers):
                self._begin = time.monotonic()  # interpreters take a while to start; the clock waits for the last
                self._event(f"{len(crew.workers)} workers count")
            if self._begin is not None and self._time >= steps[0][0]:
                steps.pop(0)[1]()
            if crew.workers[1].state == "closed" and not crew.workers[1].note:
                heir = crew.hire()
                crew.workers[1].note = f"(worker {heir.number} follows)"
                self._event(f"worker 2 closed, worker {heir.number} takes its place")
            if time.monotonic() >= next_show:
                show()
                next_show = time.monotonic() + _REFRESH

    def interrupt(self) -> None:
        """Ctrl-C ended the play."""
        self._event("interrupted, the workers close" if self._begin else "interrupted before all workers had started")
        if self._crew.workers[2].state == "frozen":
            self._resume()

    @property
    def _time(self) -> float:
        return 0.0 if self._begin is None else time.monotonic() - self._begin

    def _event(self, what: str) -> None:
        self.events.append(f"{self._time:5.1f} s  {what}")
        self._report(self.events[-1])

    def _stop(self) -> None:
        worker = self._crew.workers[1]
        worker.stop()
        if worker.state == "closing":
            self._event("worker 2 is told to stop")

    def _freeze(self) -> None:
        worker = self._crew.workers[2]
        worker.freeze()
        if worker.state == "frozen":
            worker.note = f"for {self._frozen_for:.2g} s"
            self._event(f"worker 3 frozen {worker.note}")

    def _resume(self) -> None:
        worker = self._crew.workers[2]
        if worker.state == "frozen":
            worker.resume()
            worker.note = ""
            self._event("worker 3 goes on")
