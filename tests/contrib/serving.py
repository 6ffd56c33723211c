"""A web server in a process of its own, and browsers that talk to it."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path

from tests.servers import HOST, free_port
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request was answered with."""

    status: int
    text: str
    headers: Mapping[str, str]


@dataclass
class Browser:
    """Whoever sends requests, and keeps the cookies."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    def send(self, method: str, path: str, *headers: tuple[str, str], body: str = "") -> Answer:
        """Return the answer. Raises OSError, HTTPException where there is none."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            connection.putrequest(method, path)
            for name, value in headers:
                connection.putheader(name, value)
            if self.cookies:
                connection.putheader("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
            if method == "POST":
                connection.putheader("Content-Length", str(len(body)))
                connection.putheader("Content-Type", "application/x-www-form-urlencoded")
            connection.endheaders(body.encode() or None)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        for value in response.headers.get_all("Set-Cookie", []):
            self.cookies.update((name, morsel.value) for name, morsel in SimpleCookie(value).items())
        return Answer(response.status, text, dict(response.headers))

    def open(self) -> str:
        """Return the page; its cookies, and the token of its forms, are known from then on."""
        found = self.send("GET", "/")
        assert found.status == 200, found.text
        self.csrf = found.text.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        return " ".join(found.text.replace("<", " <").split())

    def click(self, path: str) -> Answer:
        """Send a form of the page."""
        return self.send("POST", path, body=f"csrfmiddlewaretoken={self.csrf}" if self.csrf else "")


@contextmanager
def served(command: list[str], url: str, log: Path, folder: Path, **environment: str) -> Iterator[int]:
    """Yield the port where a command (with ``{port}``) answers; it is ended by SIGTERM, and said nothing of errors."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *(part.format(port=port) for part in command)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "REDIS_COUNTERS_URL": url, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return Browser(port).send("GET", "/").status == 200
        except (OSError, http.client.HTTPException):
            return False

    try:
        until(answers, f"an answer of {command}")
        yield port
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()
