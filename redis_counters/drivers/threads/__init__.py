"""The blocking driver: a background thread flushes, callers read; one lock guards the core.

The thread is started by the first increment, also in the child of a fork, and is a daemon. Where none can be started
(at interpreter exit) or it makes no progress, callers do the work: flush(), close(), and an increment or a read now and
then.

An exception of a signal handler (Ctrl-C) may come up in the main thread anywhere. So locks are entered by ``with`` and
are those of C; `threading.Condition` and `Event` are not used (see `AutoResetEvent`).
"""

from redis_counters.drivers.threads.runner import ThreadRunner

__all__ = ["ThreadRunner"]
