"""Hashes read off a connection of redis-py: what they are, whatever else comes on it, and however it comes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import hiredis
import pytest
import redis

from redis_counters import Counters
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py.clients import take_connection
from redis_counters.drivers.redis_py.hashes import MAX_KNOWN, MAX_KNOWN_ANSWER, Hashes
from redis_counters.protocol.wire.commands import Command, Question, Script
from tests.servers import RealServer
from tests.waiting import PATIENCE

NOTHING_TO_DO: list[Command] = []
PUSH = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
ONE, TWO = b"%1\r\n$1\r\n+\r\n$1\r\n1\r\n", b"%1\r\n$1\r\n+\r\n$1\r\n2\r\n"


@contextmanager
def connected(server: RealServer, protocol: int) -> Iterator[Any]:
    with redis.Redis.from_url(server.url, protocol=protocol) as client:
        connection = take_connection(client.connection_pool, Deadline())
        yield connection
        client.connection_pool.release(connection)


@pytest.mark.parametrize("protocol", [2, 3])
def test_they_are_what_redis_holds(server: RealServer, protocol: int) -> None:
    """Also those that are not there, and hold any bytes; what has not changed is the same object."""
    client, hashes = server.client(), Hashes()
    client.hset("a", mapping={"+": "1", "odd\r\n%1\r\n": b"\xff\r\n$1\r\n"})
    client.hset("b", "-", "2")

    def fields(found: list[object] | None) -> list[dict[bytes, bytes]]:
        assert found is not None
        return [raw if isinstance(raw, dict) else dict(zip(raw[::2], raw[1::2], strict=True)) for raw in found]  # type: ignore[index]

    with connected(server, protocol) as connection:
        for _ in range(3):
            found = hashes.ask(connection, [b"a", b"none", b"b"], NOTHING_TO_DO)
            assert hashes.ask(connection, [b"a", b"none", b"b"], NOTHING_TO_DO) is found
            assert fields(found) == [client.hgetall("a"), {}, client.hgetall("b")]
            assert fields(hashes.ask(connection, [b"b"], NOTHING_TO_DO)) == [client.hgetall("b")]
            client.hincrby("b", "-", 17)
        client.delete("a")
        assert fields(hashes.ask(connection, [b"a", b"none", b"b"], NOTHING_TO_DO))[:2] == [{}, {}]


@pytest.mark.parametrize("protocol", [2, 3])
def test_more_than_comes_at_once(any_server: RealServer, protocol: int) -> None:
    client, hashes = any_server.client(), Hashes()
    names = [b"%d" % number for number in range(300)]
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hset(name, mapping={f"{'x' * 40}{number}": number for number in range(100)})
        pipe.execute()
    with connected(any_server, protocol) as connection:
        for _ in range(2):
            found = hashes.ask(connection, names, NOTHING_TO_DO)
            assert found is not None
            assert [len(raw) for raw in found] == [100 if protocol == 3 else 200] * 300  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", [2, 3])
def test_what_is_no_hash_is_asked_for_in_the_usual_way(any_server: RealServer, protocol: int) -> None:
    """And the connection goes on: nothing is left on it."""
    client, hashes = any_server.client(), Hashes()
    client.hset("a", "+", "1")
    with connected(any_server, protocol) as connection:
        assert hashes.ask(connection, [b"a"], NOTHING_TO_DO) is not None
        client.set("b", "text")
        assert hashes.ask(connection, [b"a", b"b", b"a"], NOTHING_TO_DO) is None
        assert not connection.can_read(timeout=0)
        client.delete("a")
        client.set("a", "text")
        assert hashes.ask(connection, [b"a"], NOTHING_TO_DO) is None
        client.delete("a")
        assert hashes.ask(connection, [b"a"], NOTHING_TO_DO) in ([{}], [[]])


class Odd:
    """A connection whose other end is in the test's hands; it reads as redis-py does."""

    protocol = 3
    socket_timeout = PATIENCE

    def __init__(self) -> None:
        self._sock, self.server = socket.socketpair()
        self._sock.settimeout(PATIENCE)
        self._parser = self
        self._reader = hiredis.Reader()
        self.pushed = 0

    def close(self) -> None:
        self._sock.close()
        self.server.close()

    def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None:
        """The test knows what it is going to answer."""

    def read_response(self, disable_decoding: bool = False) -> object:
        while True:
            answer = self._reader.gets()
            if answer is False:
                self._reader.feed(self._sock.recv(65_536))
            elif isinstance(answer, hiredis.PushNotification):
                self.pushed += 1
            else:
                return answer


@pytest.fixture
def odd() -> Iterator[Odd]:
    with closing(Odd()) as made:
        yield made


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("comes", "expected", "pushed"),
    [
        ([ONE + TWO], [b"1", b"2"], 0),
        ([ONE[:5], ONE[5:] + TWO[:3], TWO[3:]], [b"1", b"2"], 0),
        ([TWO + TWO], [b"2", b"2"], 0),
        ([PUSH + ONE + TWO], None, 1),
        ([ONE + PUSH + TWO], None, 1),
        ([PUSH, ONE + TWO], None, 1),
        ([ONE, PUSH[:9], PUSH[9:] + TWO], None, 1),
        ([b"*2\r\n$1\r\n+\r\n$1\r\n1\r\n" + TWO], None, 0),
        ([b"-LOADING Redis is loading\r\n" + ONE], None, 0),
    ],
)
def test_what_else_comes_goes_to_redis_py(
    odd: Odd, comes: list[bytes], expected: list[bytes] | None, pushed: int, known: bool
) -> None:
    """Messages that nobody asked for, in any pieces; then all is read once, and asked for again by the caller."""
    hashes = Hashes()
    if known:
        odd.server.sendall(ONE + TWO)
        hashes.ask(odd, [b"a", b"b"], NOTHING_TO_DO)  # type: ignore[arg-type]
    left = list(comes)

    def send() -> None:
        while left:
            odd.server.sendall(left.pop(0))

    found = hashes.ask(odd, [b"a", b"b"], Question.of([], send))  # type: ignore[arg-type]
    assert found == (None if expected is None else [{b"+": count} for count in expected])
    assert odd.pushed == pushed
    odd.server.sendall(ONE + TWO)
    assert hashes.ask(odd, [b"a", b"b"], NOTHING_TO_DO) == [{b"+": b"1"}, {b"+": b"2"}]  # type: ignore[arg-type]


def test_a_push_behind_the_answers_is_left_to_redis_py(odd: Odd) -> None:
    """It waits there, where the pool's next look finds it."""
    hashes = Hashes()
    odd.server.sendall(ONE + TWO)
    hashes.ask(odd, [b"a", b"b"], NOTHING_TO_DO)  # type: ignore[arg-type]
    odd.server.sendall(ONE + TWO + PUSH)
    assert hashes.ask(odd, [b"a", b"b"], NOTHING_TO_DO) == [{b"+": b"1"}, {b"+": b"2"}]  # type: ignore[arg-type]
    assert odd._sock.recv(100) == PUSH


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("came", [b"", ONE, ONE + TWO[:4]])
def test_an_answer_that_breaks_off_is_an_error(odd: Odd, came: bytes, known: bool) -> None:
    hashes = Hashes()
    if known:
        odd.server.sendall(ONE + TWO)
        hashes.ask(odd, [b"a", b"b"], NOTHING_TO_DO)  # type: ignore[arg-type]

    def end() -> None:
        odd.server.sendall(came)
        odd.server.shutdown(socket.SHUT_WR)

    with pytest.raises(redis.ConnectionError):
        hashes.ask(odd, [b"a", b"b"], Question.of([], end))  # type: ignore[arg-type]
    with closing(Odd()) as silent:
        silent._sock.settimeout(0.01)
        silent.server.sendall(came)
        with pytest.raises(redis.TimeoutError):
            hashes.ask(silent, [b"a", b"b"], NOTHING_TO_DO)  # type: ignore[arg-type]


def test_only_so_much_is_kept(odd: Odd) -> None:
    hashes = Hashes()

    def asked(key: bytes, value: bytes) -> object:
        answer = b"%%1\r\n$1\r\n+\r\n$%d\r\n%b\r\n" % (len(value), value)
        (fields,) = hashes.ask(odd, [key], Question.of([], lambda: odd.server.sendall(answer))) or [None]  # type: ignore[arg-type]
        return fields

    assert asked(b"small", b"1") is asked(b"small", b"1")
    long = b"1" * MAX_KNOWN_ANSWER
    assert asked(b"long", long) == asked(b"long", long) == {b"+": long}
    assert asked(b"long", long) is not asked(b"long", long)
    small = asked(b"small", b"1")
    for number in range(2 * MAX_KNOWN // 10_000):
        asked(b"%d" % number, b"1" * 10_000)
    assert asked(b"small", b"1") == small
    assert hashes._size <= MAX_KNOWN


def test_a_page_costs_no_script(any_server: RealServer) -> None:
    """And is right while everything changes, counters appear, and one of them is something else."""
    client = any_server.client()
    names = [f"n{number}" for number in range(20)]
    with Counters(any_server.client(), flush_interval=3600) as ours, Counters(any_server.client()) as reader:
        for turn in range(4):
            for number, name in enumerate(names[: 10 + turn]):
                ours.incr(name, number)
            ours.flush()
            expected = {name: number * max(0, turn + 1 - max(0, number - 9)) for number, name in enumerate(names)}
            client.config_resetstat()
            assert reader.get_many(names, max_age=0) == expected
            assert reader.get_many(names, max_age=0) == expected
            assert "cmdstat_evalsha" not in client.info("commandstats")
            assert client.info("commandstats")["cmdstat_hgetall"]["calls"] == 2 * len(names)


def test_the_script_is_asked_where_there_is_no_such_connection(any_server: RealServer) -> None:
    """Here with redis-py's own parser."""
    from redis.connection import Connection

    parsers: Any = __import__("redis._parsers", fromlist=["_RESP3Parser"])
    pool = redis.ConnectionPool.from_url(
        any_server.url, connection_class=Connection, parser_class=parsers._RESP2Parser, protocol=2
    )
    with Counters(redis.Redis(connection_pool=pool)) as counters:
        counters.incr("a")
        counters.incr("b", 2)
        counters.flush()
        commands = [Command(Script.SLOTS_READ, [b"{rc:0}:c:0:none", b"{rc:1}:c:0:none"])]
        assert counters._runner.transport.ask(commands) == [[b"", b""]]
        assert counters.get_many(["a", "b"], max_age=0) == {"a": 1, "b": 2}
