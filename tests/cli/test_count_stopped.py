"""``count`` when it is stopped, or its server is: it counts exactly the lines that it says it counted."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import time

import pytest

from redis_counters.testing import LossyLink
from tests.cli.commands import TIMEOUT, start, values
from tests.servers import RealServer
from tests.waiting import until

NAMES = [b"name %d" % number for number in range(50)]
NOT_WINDOWS = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")


def feed(process: subprocess.Popen[bytes], text: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def await_total(server: RealServer, at_least: int) -> None:
    """Return when Redis holds that many counts."""
    until(lambda: values(server, NAMES).total() >= at_least, "all of it arrives in Redis")


def await_all_read(process: subprocess.Popen[bytes]) -> None:
    """Return when the command has taken all that it was fed out of the pipe."""
    from fcntl import ioctl
    from termios import FIONREAD

    assert process.stdin is not None
    pipe = process.stdin.fileno()
    until(lambda: not any(ioctl(pipe, FIONREAD, bytes(4))), "the input is read")


def feed_until_it_ends(process: subprocess.Popen[bytes]) -> None:
    """An endless input: lines of NAMES until the reader is gone."""
    assert process.stdin is not None
    block = b"".join(name + b"\n" for name in NAMES) * 20
    deadline = time.monotonic() + TIMEOUT
    os.set_blocking(process.stdin.fileno(), False)
    while process.poll() is None and time.monotonic() < deadline:
        _, writable, _ = select.select([], [process.stdin], [], 0.1)
        try:
            if writable:
                os.write(process.stdin.fileno(), block)
        except BlockingIOError:
            continue
        except BrokenPipeError:
            break


@NOT_WINDOWS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_endless_input(any_server: RealServer, number: signal.Signals) -> None:
    """It stops between two lines, flushes, says how far it got, and Redis holds exactly that."""
    process = start(any_server, "count", "--json")
    feed(process, b"".join(name + b"\n" for name in NAMES))
    await_total(any_server, len(NAMES))
    os.kill(process.pid, number)
    feed_until_it_ends(process)
    out, err = process.communicate(timeout=TIMEOUT)
    report = json.loads(out)
    assert process.returncode == 128 + number
    assert report["interrupted"] is True
    assert report["lines"] >= len(NAMES)
    assert values(any_server, NAMES).total() == report["lines"]
    assert re.fullmatch(
        rb"redis-counters: interrupted; counted and flushed [\d,]+ lines \([\d,]+ bytes\) of standard input\n", err
    )


@NOT_WINDOWS
def test_signal_in_the_middle_of_a_large_input(any_server: RealServer) -> None:
    """The lines it says it counted are the first ones of the input, each once."""
    process = start(any_server, "count", "--json")
    assert process.stdin is not None
    text = b"".join(NAMES[number % 50] + b"\n" for number in range(2_000_000))
    os.set_blocking(process.stdin.fileno(), False)
    sent, interrupted = 0, False
    while process.poll() is None and sent < len(text):
        select.select([], [process.stdin], [], 0.1)
        try:
            sent += os.write(process.stdin.fileno(), text[sent : sent + 65536])
        except BlockingIOError:
            continue
        except BrokenPipeError:
            break
        if not interrupted and sent > len(text) // 4:
            process.send_signal(signal.SIGINT)
            interrupted = True
    out, _ = process.communicate(timeout=TIMEOUT)
    report = json.loads(out)
    assert process.returncode == 130
    counted = text[: report["bytes"]].split(b"\n")
    assert counted.pop() == b""
    assert 0 < len(counted) == report["lines"] < 2_000_000
    assert values(any_server, NAMES) == {name: counted.count(name) for name in NAMES}


@NOT_WINDOWS
def test_signal_while_nothing_comes(any_server: RealServer) -> None:
    """An input that is silent does not hold it up; a line without its end is not counted, and not said to be."""
    process = start(any_server, "count", "--json")
    feed(process, NAMES[0] + b"\n" + NAMES[1] + b"\n" + NAMES[2])
    await_total(any_server, 2)
    process.send_signal(signal.SIGINT)
    # Not communicate(): it would close the input, and the end of the input would end the command too.
    process.wait(TIMEOUT)
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    process.communicate()
    assert process.returncode == 130
    assert (report["lines"], report["bytes"]) == (2, 14)
    assert values(any_server, NAMES) == {NAMES[0]: 1, NAMES[1]: 1}


@NOT_WINDOWS
def test_server_hangs_and_comes_back(private_server: RealServer) -> None:
    """What is counted while the server does not answer gets there afterwards, once."""
    process = start(private_server, "count", "--json")
    feed(process, b"name 0\n" * 10)
    await_total(private_server, 10)
    private_server.pause()
    feed(process, b"name 0\n" * 100 + b"name 1\n")
    await_all_read(process)
    private_server.resume()
    out, err = process.communicate(b"name 1\n", timeout=TIMEOUT)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["lines"] == 112
    assert values(private_server, NAMES) == {b"name 0": 110, b"name 1": 2}


def test_server_dies(private_server: RealServer) -> None:
    """After the time it was given it fails, and names how much of what did not get across."""
    process = start(private_server, "count", "--timeout", "1")
    feed(process, b"name 0\n" * 10)
    await_total(private_server, 10)
    private_server.kill()
    out, err = process.communicate(b"name 1\n" * 7 + b"name 2\n", timeout=TIMEOUT)
    assert (process.returncode, out) == (1, b"")
    assert err.count(b"\n") == 1
    assert (
        b"of 18 lines (126 bytes) of standard input, 8 are not known to be in Redis, 2 names: name 1, name 2\n" in err
    )


def test_server_away_is_told_before_anything_is_read(private_server: RealServer) -> None:
    """It fails at the start, though its input never ends."""
    private_server.kill()
    process = start(private_server, "count")
    assert process.wait(TIMEOUT) == 1
    process.communicate()


@NOT_WINDOWS
def test_second_signal_gives_up(private_server: RealServer) -> None:
    """The first Ctrl-C waits for a server that hangs, the second does not."""
    process = start(private_server, "count")
    feed(process, b"name 0\n" * 10)
    await_total(private_server, 10)
    private_server.pause()
    feed(process, b"name 1\n" * 10)
    await_all_read(process)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    # Again and again: one that comes before the first was noticed is not a second one.
    until(lambda: process.poll() is not None, "it gives up", lambda: process.send_signal(signal.SIGINT))
    assert process.returncode == 130
    _, err = process.communicate()
    assert b"aborted" in err
    private_server.resume()


def hang_up(away: RealServer, times: int) -> None:
    """Somebody has tried to reach the server so often."""
    with socket.create_server((away.host, away.port)) as listener:
        listener.settimeout(TIMEOUT)
        for _ in range(times):
            listener.accept()[0].close()


@pytest.mark.parametrize("command", [["count"], ["incr", "a", "3"]], ids=lambda command: command[0])
def test_server_away_at_the_start(private_server: RealServer, command: list[str]) -> None:
    """With --timeout it waits for the server, reads nothing of its input meanwhile, and then counts as ever."""
    private_server.kill()
    process = start(private_server, *command, "--timeout", "60")
    hang_up(private_server, 4)
    private_server.restart()
    out, err = process.communicate(b"a\n" * 3)
    assert (process.returncode, err) == (0, b"")
    assert out == (b"" if command == ["count"] else b"3\n")
    assert values(private_server, [b"a"]) == {b"a": 3}


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("command", [["count"], ["incr", "a"]], ids=lambda command: command[0])
def test_server_away_for_too_long(private_server: RealServer, command: list[str]) -> None:
    """When the time is over, it says what kept it from counting, in one line, and that is not how often it asked."""
    private_server.kill()
    process = start(private_server, *command, "--timeout", "2")
    out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert err.startswith(b"redis-counters: Redis is not reachable: ")
    assert err.count(b"\n") == 1


@NOT_WINDOWS
def test_a_signal_while_it_waits_for_the_server(private_server: RealServer) -> None:
    """Ctrl-C ends it, with nothing read and nothing counted."""
    private_server.kill()
    process = start(private_server, "count", "--timeout", "60")
    hang_up(private_server, 4)
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 130
    _, err = process.communicate()
    assert err == b"redis-counters: interrupted; counted and flushed 0 lines (0 bytes) of standard input\n"


def test_server_goes_away_while_input_comes(any_server: RealServer) -> None:
    """Reading goes on, for the names are few; once for each time that Redis is away it is said that nothing arrives."""
    with LossyLink(any_server.url) as link:
        process = start(any_server, "count", "--timeout", "1", "--url", link.url)
        said = process.stderr
        assert said is not None
        for away in range(2):
            feed(process, b"a\n")
            await_count(any_server, 2 * away + 1)
            link.stop()
            feed(process, b"a\n")
            until(lambda: any(select.select([said], [], [], 0)), "it is said")
            line = said.readline()
            assert line.startswith(b"redis-counters: nothing has reached Redis for 1 s: Redis is not reachable: ")
            assert line.endswith(b"; reading goes on, and what is counted is sent again\n")
            link.start()
            await_count(any_server, 2 * away + 2)
        assert process.stdin is not None
        process.stdin.close()
        assert said.read() == b""
        assert process.wait(TIMEOUT) == 0


def await_count(server: RealServer, times: int) -> None:
    until(lambda: values(server, [b"a"]) == {b"a": times}, "it arrives in Redis")
