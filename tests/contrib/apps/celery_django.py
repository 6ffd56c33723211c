"""Celery in a Django project, whose tasks count by the counters of Django."""

from __future__ import annotations

import os

import django
from celery import Celery, Task
from django.conf import settings

from redis_counters.contrib.django import counters

settings.configure(
    INSTALLED_APPS=["redis_counters.contrib.django"],
    REDIS_COUNTERS={"OPTIONS": {"flush_interval": 30.0}},
)
app = Celery("tests", broker=os.environ["BROKER"])
django.setup()
counters.incr("loads")  # in the process that forks


@app.task(name="work", bind=True)
def work(self: Task, amount: int) -> None:
    counters.incr("tasks")
    counters.incr("amounts", amount)
    counters.incr_once("once", self.request.id)
