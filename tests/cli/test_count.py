"""``count``: lines in, the counts of ``sort | uniq -c`` out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from redis_counters.cli.counting import lines
from tests.cli.commands import run, values
from tests.servers import RealServer

AWKWARD = b"a\nb\n\na\r\n\xff\xfe\n a\na \n\n\x00\n{x}*\nb\tb\n\x0b\n\x1b[2J\n\xc2\x85\nlast without newline"


def expected(text: bytes) -> Counter[bytes]:
    """What the lines of a text are, without the code under test."""
    lines = text.split(b"\n")
    return Counter(lines[:-1] if lines[-1] == b"" else lines)


def test_a_line_is_its_bytes(any_server: RealServer) -> None:
    """Nothing is trimmed, decoded or left out; nothing is printed in a pipe."""
    result = run(any_server, "count", stdin=AWKWARD)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    wanted = expected(AWKWARD)
    assert values(any_server, [*wanted, b"a\r\n", b"last"]) == wanted


@pytest.mark.every(3, "a command each")
@pytest.mark.parametrize("text", [b"", b"\n", b"\n\n", b"a", b"a\n"])
def test_smallest_inputs(any_server: RealServer, text: bytes) -> None:
    """An empty input has no line, a newline is one empty line."""
    result = run(any_server, "count", "--json", stdin=text)
    wanted = expected(text)
    assert json.loads(result.stdout)["lines"] == wanted.total()
    assert values(any_server, [b"", b"a"]) == wanted


def test_files_and_standard_input(any_server: RealServer, tmp_path: Path) -> None:
    """Files are read in order, '-' is standard input, and the report adds them up."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"x\ny")
    second.write_bytes(b"y\n")
    result = run(any_server, "count", "--json", str(first), "-", str(second), stdin=b"y\nz\n")
    report = json.loads(result.stdout)
    assert report.pop("seconds") > 0
    assert report == {"lines": 5, "names": 3, "names_exact": True, "bytes": 9, "interrupted": False}
    assert values(any_server, [b"x", b"y", b"z", b"yy"]) == {b"x": 1, b"y": 3, b"z": 1}


def test_prefix_and_what_was_there_before(any_server: RealServer) -> None:
    """The prefix stands before every name; counts are added to what the counters held."""
    for _ in range(2):
        assert run(any_server, "count", "--prefix", "word:ä:", stdin=b"a\nb\na\n").returncode == 0
    assert values(any_server, ["word:ä:a".encode(), "word:ä:b".encode(), b"a"]) == {
        "word:ä:a".encode(): 4,
        "word:ä:b".encode(): 2,
    }


@pytest.mark.slow("megabytes")
def test_many_blocks(any_server: RealServer, tmp_path: Path) -> None:
    """Lines on the edge between two blocks are counted once, in a file and in a pipe."""
    text = b"".join(b"%d\n" % (number * 7919 % 5000) for number in range(600_000))
    assert len(text) > 2 * lines.BLOCK
    path = tmp_path / "numbers"
    path.write_bytes(text)
    assert run(any_server, "count", str(path)).returncode == 0
    assert run(any_server, "count", stdin=text).returncode == 0
    wanted = expected(text)
    assert values(any_server, list(wanted)) == Counter({name: 2 * times for name, times in wanted.items()})


@pytest.mark.parametrize("bad", ["directory", "missing"])
def test_what_cannot_be_read_is_told_before_anything_is_counted(
    any_server: RealServer, tmp_path: Path, bad: str
) -> None:
    """One bad file among good ones: wrong usage, and nothing was counted."""
    good = tmp_path / "good"
    good.write_bytes(b"a\n")
    (tmp_path / "directory").mkdir()
    result = run(any_server, "count", str(good), str(tmp_path / bad))
    assert (result.returncode, result.stdout) == (2, b"")
    assert bad.encode() in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert values(any_server, [b"a"]) == {}


def test_a_line_beyond_the_limit(any_server: RealServer) -> None:
    """A line too long to be a name ends the run; what stands before it is counted, and it says how much that is."""
    text = b"a\nb\n" + b"x" * (3 * lines.MAX_LINE)
    result = run(any_server, "count", stdin=text + b"\nc\n")
    assert result.returncode == 1
    assert b"reading stopped: the next line is longer than 1,048,576 bytes" in result.stderr
    assert b"2 lines (4 bytes)" in result.stderr
    assert values(any_server, [b"a", b"b", b"c"]) == {b"a": 1, b"b": 1}


def test_a_counter_that_redis_refuses(server: RealServer) -> None:
    """A key that holds something else: all other names are counted, and the one is named."""
    run(server, "count", stdin=b"good\nbad\n")
    client = server.client()
    (key,) = [key for key in client.scan_iter() if key.endswith(b":bad")]
    client.set(key, "something else")
    result = run(server, "count", stdin=b"good\nbad\nbad\nother\n")
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"'bad'" in result.stderr
    assert b"of 4 lines (19 bytes) of standard input, 1 names are not known to be in Redis" in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert values(server, [b"good", b"other"]) == {b"good": 2, b"other": 1}
    assert client.get(key) == b"something else"


def test_a_user_who_may_not_count(any_server: RealServer) -> None:
    """Without a permission it fails with one line, and nothing is counted; with it, all is as ever."""
    client = any_server.client()
    client.acl_setuser("u", enabled=True, passwords=["+p"], keys=["*"], commands=["+@all", "-hset"])
    url = f"redis://u:p@{any_server.host}:{any_server.port}/0"
    result = run(any_server, "count", "--timeout", "1", "--url", url, stdin=b"a\n")
    client.acl_setuser("u", enabled=True, commands=["+hset"])
    later = run(any_server, "count", "--url", url, stdin=b"b\n")
    client.acl_deluser("u")
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"of 1 lines (2 bytes) of standard input, 1" in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert (later.returncode, later.stderr) == (0, b"")
    assert values(any_server, [b"a", b"b"]) == {b"b": 1}
