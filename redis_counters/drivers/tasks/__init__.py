"""The asyncio driver: a task flushes, callers read; the event loop is the lock.

The task is started by the first increment that finds a running loop. Everything that decides is the core's, shared with
the blocking driver; here is only waiting.

A client belongs to the event loop in which it was first used, until that is closed; then to the next one. Other threads
than the loop's may count: what they count goes into the buffer, and wakes the loop.
"""

from redis_counters.drivers.tasks.runner import TaskRunner

__all__ = ["TaskRunner"]
