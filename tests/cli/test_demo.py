"""The demo and the bench of the command line: real processes, a real server, real losses."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer

from redis_counters.cli import bench as bench_module
from redis_counters.cli.app import app
from redis_counters.cli.demo import demo
from redis_counters.demo import losses, losses_view
from redis_counters.demo.crew import Crew
from redis_counters.demo.losses import Outcome, Side
from redis_counters.demo.screen import INTERRUPTED
from tests.cli.commands import COMMAND, STARTED, environment, run
from tests.cli.terminals import on_terminal
from tests.servers import RealServer
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """The demo in a session of its own: Ctrl-C there reaches all its processes and no other."""
    process = subprocess.Popen([*COMMAND, "demo", *arguments], env=environment(None), start_new_session=True, **options)
    STARTED.append(process)
    return process


def states(session: int) -> list[str]:
    """The states of the processes of this session that still exist; T is a frozen one."""
    found = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _parent, _group, of = process.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(state)
    return found


def await_none_left(session: int) -> None:
    until(lambda: not states(session), "no process of the session is left")


@pytest.mark.slow("a demo, with losses")
def test_ours_is_exact_and_each_lost_reply_of_incr_is_one_too_many() -> None:
    """Three seconds with a stop, a replacement, a freeze and losses: nothing is wrong on our side, and INCR's error is
    what the link did to it."""
    process = start("--seconds", "3", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    seen = json.loads(out)
    assert seen["exact"]
    assert seen["errors"] == []
    assert seen["ours"] == seen["issued"]
    assert seen["issued"]["hot"] == seen["issued"]["others"] > 0
    assert not seen["interrupted"]
    assert [event.partition(" s  ")[2] for event in seen["events"]] == [
        "4 workers count",
        "worker 2 is told to stop",
        "worker 2 closed, worker 5 takes its place",
        "worker 3 frozen for 0.9 s",
        "worker 3 goes on",
        "the workers close",
    ]
    assert seen["our_replies_lost"] == seen["our_commands"] // losses.LOSS > 0
    over = sum(seen["incr"][part] - seen["issued"][part] for part in ("hot", "others"))
    assert over == seen["incr_replies_lost"] > 0
    assert 0 < seen["incr"]["wrong_names"] <= seen["incr_replies_lost"]
    await_none_left(process.pid)


@pytest.mark.slow("a whole demo")
def test_in_a_pipe_there_are_the_events_a_verdict_and_one_table() -> None:
    """What will happen, what happens, what came of it in a line of its own, and a table whose columns line up."""
    process = start("--seconds", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    assert b"\x1b" not in out
    assert out.count(b"the hot name") == 1
    assert out.count(b"At the end") == 1
    assert out.startswith(b"For 1 s four processes count the same")
    assert b"worker 2 closed, worker 5 takes its place\n" in out
    assert not any(0x2500 <= ord(drawn) < 0x2600 for drawn in out.decode()), "no boxes"
    lines = out.decode().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("At the end"))
    rows = lined_up(lines[at + 1 : at + 6], losses_view.COLUMNS)
    hot, others, both = [[int(cell.replace(",", "")) for cell in row[1:]] for row in rows[:3]]
    assert [a + b for a, b in zip(hot, others, strict=True)] == both
    told = {0: "exact"}.get(both[2], f"{both[2]:+,}")
    # The verdict is the first thing that is said of it.
    after = next(number for number, line in enumerate(lines) if line.endswith("  the workers close"))
    assert lines[after + 1 : at] == ["", f"INCR {told}, redis-counters exact", ""]
    assert max(map(len, lines[at:])) <= 120, "no line is a paragraph"


def lined_up(lines: list[str], columns: Sequence[str]) -> list[list[str]]:
    """The cells below the head of a table, each of which, but those of the first column, ends where its head does."""
    head, *rest = lines
    ends, at = [], 0
    for column in columns[1:]:
        at = head.index(column, at) + len(column)
        ends.append(at)
    starts = [max([len(columns[0]), *(len(line.split("  ")[0]) for line in rest)]), *ends]
    assert {len(line) for line in lines} == {ends[-1]}
    rows = []
    for line in rest:
        assert all(line[place : place + 1] in (" ", "") for place in ends), line
        rows.append([line[: starts[0]], *(line[a:b] for a, b in itertools.pairwise(starts))])
    return [[cell.strip() for cell in row] for row in rows]


def test_the_verdict_says_of_each_side_how_far_it_is_off() -> None:
    """In one line; errors of names that cancel each other are no exact count, nor is an unknown one."""

    def verdict(incr: Side, ours: Side, *errors: str) -> str:
        return Outcome(Side(5_000, 7_000), incr, ours, 1, 1, 50, list(errors)).verdict

    exact = Side(5_000, 7_000)
    assert verdict(Side(5_040, 7_060, 41), exact) == "INCR +100, redis-counters exact"
    assert verdict(exact, exact) == "INCR exact, redis-counters exact"
    assert verdict(Side(7_000, 7_000, 1), Side(5_000, 6_999, 1)) == "INCR +2,000, redis-counters -1"
    assert verdict(exact, Side(5_000, 7_000, 2)) == "INCR exact, redis-counters wrong on 2 names"
    assert verdict(exact, exact, "worker 1: gone").endswith("exact; but not all workers could say what they issued")


@pytest.mark.every(2, "a command each")
@pytest.mark.parametrize("seconds", ["inf", "nan", "601", "1e9", "0"])
def test_a_length_that_makes_no_sense_is_refused(seconds: str) -> None:
    for command in ("demo", "bench"):
        done = run(None, command, "--seconds", seconds)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"--seconds" in done.stderr


@pytest.mark.slow("a demo")
def test_an_interrupted_demo_tells_only_what_happened() -> None:
    """Ctrl-C before anything was stopped or frozen."""
    process = start("--seconds", "60", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    seen = b""
    while b"4 workers count" not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (INTERRUPTED, b"")
    assert b"interrupted, the workers close\n" in out
    assert b"When it was interrupted" in out
    assert b"worker 2" not in out
    assert b"worker 3" not in out
    await_none_left(process.pid)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.slow("a demo")
def test_on_a_terminal_the_table_lives() -> None:
    """Workers appear with their states, the replaced and the frozen one too."""
    with on_terminal(start, "--seconds", "3") as terminal:
        assert terminal.process.wait(timeout=100) == 0
    for word in (b"counting", b"closed", b"frozen", b"per second", b"redis-counters exact", b"At the end"):
        assert word in terminal.seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow("two demos")
def test_a_signal_ends_everything_and_what_was_counted_is_exact(number: signal.Signals) -> None:
    """A signal while one worker is frozen, Ctrl-C to the whole group as a terminal sends it: the workers close, the
    table is that of what was issued so far, and no process is left."""
    process = start("--seconds", "6", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while "T" not in states(process.pid):
        assert time.monotonic() < deadline, "no worker was frozen"
        time.sleep(0.05)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, err
    seen = json.loads(out)
    assert seen["ours"] == seen["issued"]
    assert seen["issued"]["hot"] > 0
    await_none_left(process.pid)


@pytest.mark.parametrize("processes", [2, 4, 6])
@pytest.mark.slow("three demos")
def test_ctrl_c_while_it_starts_leaves_nothing_behind(processes: int) -> None:
    """Whatever has started so far ends, without a traceback."""
    process = start("--seconds", "30", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while len(states(process.pid)) < processes:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, err
    assert b"Traceback" not in err
    await_none_left(process.pid)


def test_the_exit_code_is_that_of_our_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One count that is wrong, or a worker that failed, and the demo fails."""

    def outcome(ours: Side, errors: list[str]) -> int:
        result = Outcome(Side(5, 7), Side(6, 7, 1), ours, 1, 1, 50, errors)
        monkeypatch.setattr(losses_view, "run", lambda seconds, show, tell: (result, False))
        with pytest.raises(typer.Exit) as left:
            demo(typer.Context(typer.main.get_command(app)))
        return left.value.exit_code

    assert outcome(Side(5, 7), []) == 0
    assert outcome(Side(5, 6, 1), []) == 1
    assert outcome(Side(5, 7, 2), []) == 1
    assert outcome(Side(5, 7), ["worker 1: gone"]) == 1


def test_a_worker_that_dies_is_an_error(any_server: RealServer) -> None:
    """Nobody knows what it issued last, so the demo cannot call its result exact."""
    with Crew(any_server.url, (any_server.host, any_server.port), size=1) as crew:
        (worker,) = crew.workers
        read_until(crew, lambda: worker.report.total > 0)
        os.kill(worker.pid, signal.SIGKILL)
        read_until(crew, lambda: worker.state == "failed")
        crew.finish()
        assert crew.errors == ["worker 1: the process ended without a last report"]


def read_until(crew: Crew, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        crew.read(0.1)


@pytest.mark.slow("a benchmark")
def test_bench_compares_four_ways_and_leaves_no_key(any_server: RealServer) -> None:
    any_server.client().set("mine", 1)
    done = run(any_server, "bench", "--seconds", "0.1", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert any_server.client().keys() == [b"mine"]
    rows = json.loads(done.stdout)["results"]
    assert len(rows) == 4
    assert all(row["found"] == row["increments"] > 0 for row in rows)
    assert rows[0]["times_incr"] == 1


@pytest.mark.slow("a benchmark")
def test_bench_runs_where_no_server_is() -> None:
    """Both sides share the one client: otherwise each would count on a private server of its own."""
    done = run(None, "bench", "--url", "embedded://", "--seconds", "0.05", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(row["found"] == row["increments"] > 0 for row in json.loads(done.stdout)["results"])


@pytest.mark.slow("a benchmark")
def test_bench_prints_a_row_for_each_way(any_server: RealServer) -> None:
    done = run(any_server, "bench", "--seconds", "0.05")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(lined_up(done.stdout.decode().splitlines(), bench_module.COLUMNS)) == 4


def test_bench_fails_on_a_wrong_count(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    results = [bench_module.Result("INCR", 10, 1.0, 11), bench_module.Result("ours", 10, 1.0, 10)]
    monkeypatch.setattr(bench_module, "run", lambda url, namespace, region, seconds: results)
    with pytest.raises(typer.Exit) as left:
        bench_module.bench()
    assert left.value.exit_code == 1
    assert "INCR: issued 10, found 11" in capsys.readouterr().err
