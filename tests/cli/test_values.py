"""``get``, ``incr``, ``reset`` and ``delete``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from redis_counters.protocol.wire.keys import KeySpace
from tests.cli.commands import run
from tests.servers import RealServer


def test_incr_prints_the_new_value(any_server: RealServer) -> None:
    """Each call prints what the counter is now; a negative amount takes away."""
    said = [run(any_server, "incr", "likes", *amount).stdout for amount in ([], ["41"], ["-2"], ["0"])]
    assert said == [b"1\n", b"42\n", b"40\n", b"40\n"]


def test_get_prints_lines_in_a_pipe(any_server: RealServer) -> None:
    """NAME<TAB>VALUE, in the order of the arguments; an unknown counter is 0."""
    run(any_server, "incr", "b", "2")
    run(any_server, "incr", "a", "1")
    result = run(any_server, "get", "b", "unknown", "a", "b")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"b\t2\nunknown\t0\na\t1\nb\t2\n", b"")


@pytest.mark.every(2, "six commands each")
@pytest.mark.parametrize("command", ["reset", "delete"])
def test_what_is_taken_away_is_printed(any_server: RealServer, command: str) -> None:
    """Once, however often it is named."""
    run(any_server, "incr", "a", "3")
    run(any_server, "incr", "b", "-4")
    result = run(any_server, command, "b", "a", "unknown", "b")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"b\t-4\na\t3\nunknown\t0\n", b"")
    assert run(any_server, "get", "a", "b").stdout == b"a\t0\nb\t0\n"
    run(any_server, "incr", "a")
    assert json.loads(run(any_server, command, "a", "--json").stdout) == {"a": 1}


@pytest.mark.parametrize("command", ["reset", "delete"])
def test_what_was_taken_away_before_an_error_is_printed(any_server: RealServer, command: str) -> None:
    """It is gone, and its value is known nowhere else."""
    run(any_server, "incr", "a", "3")
    client: Any = any_server.client()
    client.rpush(KeySpace(b"rc", 16).shard_key(b"b", 0)[1], "somebody's")
    result = run(any_server, command, "a", "b", "c")
    assert (result.returncode, result.stdout) == (1, b"a\t3\nc\t0\n")
    assert b"'b'" in result.stderr
    run(any_server, "incr", "a", "4")
    result = run(any_server, command, "a", "b", "c", "--json")
    assert (result.returncode, json.loads(result.stdout)) == (1, {"a": 4, "c": 0})
    result = run(any_server, command, "b")
    assert (result.returncode, result.stdout) == (1, b"")


@pytest.mark.parametrize("command", ["reset", "delete"])
def test_what_was_taken_away_of_a_counter_that_fails_is_printed(any_server: RealServer, command: str) -> None:
    """One of its shards holds what is no count; the others are 0 now, and what they were is told."""
    client: Any = any_server.client()
    for n in range(3):
        key = KeySpace(b"rc", 16).shard_key(b"b", n)[1]
        client.hset(key, mapping={"d": f"gen.{n}", "+": 10} | ({} if n else {"k": 3}))
    client.hset(KeySpace(b"rc", 16).shard_key(b"b", 1)[1], "somebody's+", "else")
    run(any_server, "incr", "a", "3")
    result = run(any_server, command, "a", "b", "c")
    assert (result.returncode, result.stdout) == (1, b"a\t3\nb\t20\nc\t0\n")
    assert b"taken away all the same, in 2 shards: 20" in result.stderr


def test_json(any_server: RealServer) -> None:
    """One object, from name to value."""
    assert json.loads(run(any_server, "incr", "ä", "7", "--json").stdout) == {"ä": 7}
    assert json.loads(run(any_server, "get", "ä", "b", "--json").stdout) == {"ä": 7, "b": 0}


@pytest.mark.every(3, "three commands each")
@pytest.mark.parametrize(
    "name",
    [b"\xff\xfe", "ä".encode(), b"", b" ", b"{b}*", b"a\rb", b"x" * 10_000],
)
def test_names_are_bytes(any_server: RealServer, name: bytes) -> None:
    """Any bytes that an argument can hold are a name, and come out as they went in."""
    assert run(any_server, "incr", name, "3").stdout == b"3\n"
    assert run(any_server, "get", name).stdout == name + b"\t3\n"
    assert json.loads(run(any_server, "get", "--json", name).stdout) == {name.decode("utf-8", "surrogateescape"): 3}


def test_name_with_a_dash(any_server: RealServer) -> None:
    """Behind '--' a dash is a part of the name."""
    assert run(any_server, "incr", "--", "-n", "-4").stdout == b"-4\n"
    assert run(any_server, "get", "--", "-n").stdout == b"-n\t-4\n"


def test_numbers_beyond_a_slot_are_refused(any_server: RealServer) -> None:
    """An amount beyond int64 is refused and changes nothing."""
    run(any_server, "incr", "a", "5")
    result = run(any_server, "incr", "a", str(2**63))
    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1
    assert run(any_server, "get", "a").stdout == b"a\t5\n"


def test_sum_beyond_int64(any_server: RealServer) -> None:
    """Two processes may count more than an int64 holds."""
    run(any_server, "incr", "a", str(2**63 - 1))
    assert run(any_server, "incr", "a", str(2**63 - 1)).stdout == b"%d\n" % (2**64 - 2)
