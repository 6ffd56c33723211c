"""One web server of the demo: ``python -m redis_counters.demo.web.worker``, started by `workers`.

It reads its settings from standard input, serves the socket it has inherited, and ends when standard input does: so
it never outlives its parent, however that ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from types import FrameType

import uvicorn

from redis_counters.demo.web.app import make_app
from redis_counters.demo.web.settings import Settings

READY = b"ready\n"
_GRACE = 4  # seconds that requests in flight may take at the end


class _Server(uvicorn.Server):
    """Reports when it is ready, and shuts down in order after a signal, without sending that to itself again."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            os.write(1, READY)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's names
        self.should_exit = True


def main() -> None:
    """Serve until a signal, or until the end of standard input."""
    logging.getLogger("redis_counters").setLevel(logging.CRITICAL)  # losses are on purpose here
    settings = Settings.from_line(_line())
    # Streams end when the server has to: it would wait for them, and they for the browser.
    app = make_app(settings, ending=lambda: server.should_exit)
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_level="warning",
        access_log=False,
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config)
    threading.Thread(target=_follow, name="lifeline", daemon=True).start()
    with socket.socket(fileno=settings.socket) as listening:
        asyncio.run(server.serve(sockets=[listening]))
    sys.exit(0 if server.started else 1)


def _line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1)
        if not part:
            sys.exit("this is started by redis-counters demo --web")
        line += part
    return line


def _follow() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
