"""Celery: counters for tasks, correct in the processes of the prefork pool, and flushed when a process ends.

app = Celery("shop", broker=...)
counters = CeleryCounters(app)

@app.task(bind=True)
def send(self):
    counters.incr("emails")
    counters.incr_once("orders", key=self.request.id)  # also when the task is delivered again
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.signals import worker_process_shutdown

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.proxy import Lazy
from redis_counters.contrib.shutdown import close
from redis_counters.contrib.url_config import opened
from redis_counters.protocol.wire.options import OptionsAndUrl

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["CeleryCounters", "deliver_at_end"]


class CeleryCounters(Lazy):
    """The counters of this process, with all methods of `Counters`: made at the first use.

    Settings of the app: ``redis_counters_url``, by default that of the environment variable REDIS_COUNTERS_URL, and
    ``redis_counters_options``, a dict of options of `Counters`; ``options`` given here come before them. A process of
    the pool flushes when it ends: at a warm shutdown, or after ``max_tasks_per_child``. One that ends by SIGKILL, as
    after a hard time limit, loses what it has not flushed.
    """

    def __init__(self, app: Celery, **options: Unpack[OptionsAndUrl]) -> None:
        super().__init__(self._open)
        self._app = app
        self._options = options
        worker_process_shutdown.connect(self._ends, weak=False)

    def _open(self) -> Counters:
        conf = self._app.conf
        options = {**(conf.get("redis_counters_options") or {}), **self._options}
        url = options.pop("url", None) or conf.get("redis_counters_url")
        return opened(Counters.from_url, url, options)

    def _ends(self, **_signal: Any) -> None:
        self._end()


def deliver_at_end(counters: Counters) -> None:
    """Close this client when a process of the prefork pool ends, so that its counts are in Redis.

    For a client that you have made yourself. Such a process ends by ``os._exit``, and runs no hooks of `atexit`.
    """

    def ends(**_signal: Any) -> None:
        close(counters)

    worker_process_shutdown.connect(ends, weak=False)
