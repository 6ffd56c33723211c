"""Celery, whose tasks count; the worker is told the broker and the rest by the environment."""

from __future__ import annotations

import os

from celery import Celery, Task

from redis_counters.contrib.celery import CeleryCounters

app = Celery("tests", broker=os.environ["BROKER"])
app.conf.update(
    redis_counters_options={"flush_interval": 30.0},
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)
counters = CeleryCounters(app)
counters.incr("loads")  # in the process that forks


@app.task(name="work", bind=True)
def work(self: Task, amount: int) -> None:
    counters.incr("tasks")
    counters.incr("amounts", amount)
    counters.incr(f"process:{os.getpid()}")
    counters.incr_once("once", self.request.id)


@app.task(name="again", bind=True, max_retries=3)
def again(self: Task) -> None:
    counters.incr("attempts")
    counters.incr_once("finished", self.request.id)
    raise self.retry(countdown=0)
