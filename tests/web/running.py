"""The demo's page as it is started by a user: its processes, its address, and what is seen there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.cli.commands import COMMAND, environment
from tests.waiting import PATIENCE, until

JSON = {"accept": "application/json"}


class Page:
    """A running ``demo --web`` on a free port."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "demo", "--web", "--port", "0", "--json", *arguments],
                env=environment(None),
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, log.read_text()
        told = json.loads(line)
        self.url: str = told["url"].rstrip("/")
        self.workers: list[int] = told["workers"]

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """A browser of plain HTTP that has opened the page: it has a cookie, and says where it comes from."""
        with httpx.Client(base_url=self.url, headers={"origin": self.url}, timeout=20) as client:
            client.get("/").raise_for_status()
            yield client

    def state(self) -> dict[str, Any]:
        """Return the state that all pages show."""
        found: dict[str, Any] = httpx.get(f"{self.url}/state", timeout=20).raise_for_status().json()
        return found

    def facts(self) -> dict[str, Any]:
        """Return what was issued, and what each way of counting made of it."""
        found: dict[str, Any] = self.state()["facts"]
        return found

    def family(self) -> set[int]:
        """Return the processes that this page has started, children's children included."""
        parents: dict[int, int] = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, rest = status.read_text().rpartition(")")
                state, parent = rest.split()[:2]
                if state != "Z":
                    parents[int(name.split()[0])] = int(parent)
        found = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return found - {self.process.pid}

    def private_server(self) -> str:
        """Return the URL of its Redis."""
        for pid in self.family():
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"--unixsocket" in arguments:
                return f"unix://{arguments[arguments.index(b'--unixsocket') + 1].decode()}"
        raise AssertionError("it has no server")

    def private_server_pid(self) -> int:
        """Return the process of its Redis, one that this page has started."""
        with redis.Redis.from_url(self.private_server()) as client:
            pid = int(client.info("server")["process_id"])
        assert pid in self.family()
        return pid

    def kill_worker(self, pid: int) -> None:
        """A web server dies (SIGKILL): one that this demo has started."""
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert int(status[1]) == self.process.pid
        os.kill(pid, signal.SIGKILL)

    def await_workers(self, gone: int) -> None:
        """Two web servers are there, and none of them is the one that is gone."""
        until(lambda: len(found := self.facts()["workers"]) == 2 and gone not in found, "another web server")

    def stop(self, by: int = signal.SIGINT) -> int:
        """The demo has ended in order; return its exit code."""
        self.process.send_signal(by)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.end()

    def end(self) -> None:
        """Nothing of it is left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running(log: Path, *arguments: str) -> Iterator[Page]:
    """A page for the time of a block."""
    page = Page(log, *arguments)
    try:
        yield page
    finally:
        page.end()


def settled(page: Page, issued: int | None = None) -> dict[str, Any]:
    """Return the facts, which lag a moment behind, when redis-counters has all that was issued (so much, if told)."""
    found: dict[str, Any] = {}

    def equal() -> bool:
        found.update(page.facts())
        return bool(found["issued"] == found["ours"] and issued in (None, found["issued"]))

    until(equal, f"issued and counted are the same ({issued})")
    return found
