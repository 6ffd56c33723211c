"""A proxy that keeps its clients' connections open while it changes the server behind them, as load balancers do."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from redis_counters.testing.frames import Frames, command_of

_READ = 65536


class Switch:
    """Each command goes to the server that the switch leads to when the command comes; clients notice nothing.

    (With `LossyLink` a connection leads to one server for as long as it lives.)
    """

    def __init__(self, upstream: str) -> None:
        self.lead_to(upstream)
        self.accepted = 0  # connections, ever
        self._clients: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="switch", daemon=True).start()

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"redis://{host}:{port}/0"

    def lead_to(self, upstream: str) -> None:
        """Every command from now on goes to this server, by whatever connection it comes."""
        parts = urlsplit(upstream)
        assert parts.port
        self._upstream = (parts.hostname, parts.port)

    def stop(self) -> None:
        """Nothing listens, and all connections are closed. Idempotent."""
        for each in (self._listener, *self._clients):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes who waits for it, which close alone does not
            each.close()

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), name="switch", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        behind = _Behind()
        requests = Frames()
        try:
            while data := client.recv(_READ):
                for request in requests.feed(data):
                    client.sendall(behind.reply(self._upstream, request))
        except OSError:
            pass  # the server is gone, or the client: the other one is told
        finally:
            behind.leave()
            client.close()
            self._clients.discard(client)


class _Behind:
    """The server's side of one client's connection."""

    def __init__(self) -> None:
        self._at: tuple[str | None, int] | None = None
        self._socket: socket.socket | None = None
        self._replies = Frames()
        self._hello = b""  # another server must speak the protocol that the client was promised

    def reply(self, upstream: tuple[str | None, int], request: bytes) -> bytes:
        if upstream != self._at or self._socket is None:
            self.leave()
            self._socket, self._at = socket.create_connection(upstream), upstream
            self._replies = Frames()
            if self._hello:
                self._exchange(self._socket, self._hello)
        if command_of(request) == "HELLO":
            self._hello = request
        return self._exchange(self._socket, request)

    def _exchange(self, server: socket.socket, request: bytes) -> bytes:
        server.sendall(request)
        while data := server.recv(_READ):
            replies = [reply for reply in self._replies.feed(data) if not reply.startswith(b">")]  # no messages
            if replies:
                (reply,) = replies
                return reply
        raise ConnectionError("the server has hung up")

    def leave(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
