"""E-mails that tasks send, counted in the processes of a worker; tasks that are delivered twice count once.

    python examples/celery_emails.py [TASKS]

starts a worker, has it send e-mails, and stops it. The server is the one of REDIS_COUNTERS_URL, else
redis://localhost:6379/0, as broker too.
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery, Task

from redis_counters import Counters
from redis_counters.contrib.celery import CeleryCounters

URL = os.environ.get("REDIS_COUNTERS_URL", "redis://localhost:6379/0")
FOLDER = Path(__file__).parent
RUN = os.environ.setdefault("EXAMPLE_RUN", secrets.token_hex(4))  # new, so that this run starts at 0

app = Celery("emails", broker=URL)
app.conf.task_default_queue = f"example-{RUN}"
counters = CeleryCounters(app)


@app.task(name="send", bind=True)  # in __main__ it would have another name than in the worker
def send(self: Task, address: str) -> None:
    print("to", address)
    counters.incr(f"example:{RUN}:attempts")  # in memory; the worker's processes flush, at the latest when they end
    counters.incr_once(f"example:{RUN}:emails", key=self.request.id)  # in Redis at once, however often it is delivered


def main(tasks: int = 50) -> int:
    """Return 0 if every e-mail was counted once."""
    arguments = f"-m celery -A {Path(__file__).stem} worker --concurrency=2 --loglevel=error".split()
    with Counters.from_url(URL) as reading, subprocess.Popen([sys.executable, *arguments], cwd=FOLDER) as worker:
        for number in range(tasks):
            for _ in range(2):  # as after a connection that broke: nobody knows whether the first has arrived
                send.apply_async((f"user-{number}@example.org",), task_id=f"{RUN}-{number}")
        end = time.monotonic() + 45
        while reading.get(f"example:{RUN}:emails", max_age=0) < tasks and time.monotonic() < end:
            time.sleep(0.1)
        worker.terminate()  # it ends the tasks that it has begun
        worker.wait()
        emails, attempts = (reading.get(f"example:{RUN}:{name}", max_age=0) for name in ("emails", "attempts"))
    print(f"{emails} e-mails, {attempts} attempts")
    return int(emails != tasks or attempts < tasks)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
