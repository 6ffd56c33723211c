"""Totals of a table move to Redis: several processes start at once, each seeds them all, and each counts on.

    python examples/seed_from_sqlite.py [PROCESSES]

The server is the one of REDIS_COUNTERS_URL, else redis://localhost:6379/0.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from redis_counters import Counters

URL = os.environ.get("REDIS_COUNTERS_URL", "redis://localhost:6379/0")
POSTS = 50


def make_database(path: Path) -> None:
    """The past: a table with a column of likes, as an application may have kept it until now."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, likes INTEGER NOT NULL)")
        database.executemany("INSERT INTO posts VALUES (?, ?)", ((post, 10 * post) for post in range(1, POSTS + 1)))


def start(path: Path, prefix: str) -> None:
    """What each process does when it starts. It need not know of the others."""
    with closing(sqlite3.connect(path)) as database:
        totals = {f"{prefix}:{post}": likes for post, likes in database.execute("SELECT id, likes FROM posts")}
    with Counters.from_url(URL) as counters:
        counters.seed_many(totals, "posts.likes")
        for name in totals:
            counters.incr(name)


def main(processes: int = 4) -> int:
    """Return 0 if every total is there once, with one more from each process."""
    prefix = f"example:post:{secrets.token_hex(4)}"  # new, so that this run starts at 0
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "posts.sqlite")
        make_database(path)
        workers = [context.Process(target=start, args=(path, prefix)) for _ in range(processes)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    with Counters.from_url(URL) as counters:
        values = counters.get_many(f"{prefix}:{post}" for post in range(1, POSTS + 1))
    wrong = sum(value != 10 * post + processes for post, value in enumerate(values.values(), 1))
    print(f"{len(values)} totals, seeded by {processes} processes, {wrong} of them wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
