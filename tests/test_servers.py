"""The servers of the tests are what they claim to be: of their kind, of their process, on their port."""

from __future__ import annotations

import os
import socket

import pytest
import redis

from tests.servers import Kind, RealServer, free_port, missing


def test_a_server_is_the_process_and_the_version_it_claims(server: RealServer) -> None:
    info = server.client().info("server")
    assert info["process_id"] == server.pid
    version = info.get("valkey_version", info["redis_version"])
    assert server.kind.name.endswith(f"-{version}")


def test_each_test_begins_with_an_empty_server(server: RealServer) -> None:
    client = server.client(db=3)
    assert client.info("keyspace") == {}
    client.set("left", "behind")


def test_the_url_and_the_client_reach_the_same_data(any_server: RealServer) -> None:
    any_server.client().set("key", "value")
    with redis.Redis.from_url(any_server.url) as client:
        assert client.get("key") == b"value"


def test_cpu_seconds_grow_with_work(any_server: RealServer) -> None:
    before = any_server.cpu()
    any_server.client().eval("for i = 1, 2000000 do local x = i % 7 end", 0)
    assert any_server.cpu() > before


def test_a_killed_server_is_gone_and_comes_back_empty_on_its_port(private_server: RealServer) -> None:
    pid, port = private_server.pid, private_server.port
    private_server.client().set("key", "value")
    private_server.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((private_server.host, port), timeout=5)
    private_server.restart()
    assert private_server.port == port
    assert private_server.pid != pid
    assert private_server.client().get("key") is None


def test_a_server_with_persistence_keeps_its_data_over_a_restart(kind: Kind) -> None:
    server = RealServer.start(kind, "--appendonly", "yes", "--appendfsync", "always")
    try:
        server.client().set("key", "value")
        server.kill()
        server.restart()
        assert server.client().get("key") == b"value"
    finally:
        server.stop()


def test_a_paused_server_keeps_the_connection_and_answers_after_resume(private_server: RealServer) -> None:
    with socket.create_connection((private_server.host, private_server.port), timeout=0.2) as connection:
        private_server.pause()
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(16)
        private_server.resume()
        connection.settimeout(5)
        assert connection.recv(16) == b"+PONG\r\n"


def test_a_taken_port_is_answered_with_another(any_kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1], free_port()]
        monkeypatch.setattr("tests.servers.free_port", lambda: ports.pop(0))
        server = RealServer.start(any_kind)
    try:
        assert ports == []
        assert server.client().ping() is True
    finally:
        server.stop()


def test_stop_removes_the_process_and_the_directory(any_kind: Kind) -> None:
    server = RealServer.start(any_kind)
    directory = server.client().config_get("dir")["dir"]
    server.stop()
    server.stop()
    assert directory is not None
    assert not os.path.exists(directory)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port), timeout=5)


def test_a_server_that_cannot_start_says_why(any_kind: Kind) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        RealServer.start(any_kind, "--no-such-option", "1")


@pytest.mark.parametrize(
    ("required", "names", "absent"),
    [
        ("", [], []),
        ("1", ["redis-7.0.15"], []),
        ("1", [], ["any server"]),
        ("redis-7.0", ["redis-7.0.15"], []),
        ("redis-6.2, valkey-8.1", ["redis-7.0.15", "valkey-8.1.8"], ["redis-6.2"]),
        ("redis-6.2,valkey-8.1", [], ["redis-6.2", "valkey-8.1"]),
    ],
)
def test_required_servers_that_are_not_found_are_named(required: str, names: list[str], absent: list[str]) -> None:
    assert missing(required, names) == absent
