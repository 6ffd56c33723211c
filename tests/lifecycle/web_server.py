"""A web server in a process of its own, under load: what its clients saw."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lifecycle.children import ROOT
from tests.servers import HOST, RealServer, free_port
from tests.waiting import PATIENCE

CLIENTS = 4


class WebServer:
    """A web server of its own, and what its clients saw."""

    def __init__(
        self,
        arguments: list[str],
        server: RealServer,
        log: Path,
        flush_interval: float,
        *,
        program: str | Path = sys.executable,
        path: str = "/",
        **environment: str,
    ) -> None:
        self.path = path
        self.port = free_port()
        places = {"address": f"{HOST}:{self.port}", "host": HOST, "port": self.port}
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(program), *(argument.format(**places) for argument in arguments)],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "REDIS_COUNTERS_URL": server.url,
                    "FLUSH_INTERVAL": str(flush_interval),
                    **environment,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
            )
        self.answered = 0  # requests that were answered,
        self.unknown = 0  # and those whose answer did not come: they may have counted
        self.pids: set[int] = set()
        self.lock = threading.Lock()

    def request(self) -> bool:
        """Make one request; True if it was answered."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        sent = False
        try:
            connection.connect()
            sent = True
            connection.request("GET", self.path)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            with self.lock:
                self.unknown += sent
            return False
        finally:
            connection.close()
        assert response.status == 200, body
        with self.lock:
            self.answered += 1
            self.pids.add(int(body))
        return True

    @contextmanager
    def load(self) -> Iterator[None]:
        """Clients make requests without pause."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                if not self.request():
                    over.wait(0.01)

        threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(30)

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)

    def ended(self) -> None:
        """It ends in time, and says nothing of errors."""
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
        text = self.log.read_text()
        assert "Traceback" not in text, text
        assert "not delivered" not in text, text
