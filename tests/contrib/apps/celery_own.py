"""Celery, whose tasks count by a client that is made as anywhere else."""

from __future__ import annotations

import os

from celery import Celery, Task

from redis_counters import Counters
from redis_counters.contrib.celery import deliver_at_end

app = Celery("tests", broker=os.environ["BROKER"])
counters = Counters.from_url(os.environ["REDIS_COUNTERS_URL"], flush_interval=30.0)
deliver_at_end(counters)
counters.incr("loads")  # in the process that forks


@app.task(name="work", bind=True)
def work(self: Task, amount: int) -> None:
    counters.incr("tasks")
    counters.incr("amounts", amount)
    counters.incr_once("once", self.request.id)
