"""``demo --regions``: three servers, an exchange, a partition; exact in the end, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from redis_counters.demo.regions import Outcome
from redis_counters.demo.regions_view import COLUMNS, bars
from tests.cli.commands import run
from tests.cli.terminals import on_terminal
from tests.cli.test_demo import await_none_left, lined_up, start


def test_the_regions_part_and_meet_again_exact() -> None:
    """Events happen by themselves where no key is pressed."""
    process = start("--regions", "--seconds", "6", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    seen = json.loads(out)
    assert seen["exact"]
    assert not seen["interrupted"]
    assert set(seen["values"].values()) == {sum(seen["issued"].values())}
    assert seen["wrong_names"] == {"eu": 0, "us": 0, "ap": 0}
    assert min(seen["issued"].values()) > 0
    events = [event.partition(" s  ")[2] for event in seen["events"]]
    assert events[:3] == [
        "three regions count, each on its own server",
        "ap is cut off, and counts on",
        "ap is back",
    ]
    assert "eu is cut off, and counts on" in events
    # What ap alone counted while it was cut off, no other region could know.
    assert seen["largest_skew"] > 300
    assert 1 <= len(seen["seconds_to_heal"]) <= 2
    await_none_left(process.pid)


@pytest.mark.slow("a demo")
def test_in_a_pipe_there_are_lines() -> None:
    process = start("--regions", "--seconds", "3", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    assert b"\x1b" not in out
    assert not any(0x2500 <= ord(drawn) < 0x2600 for drawn in out.decode()), "no boxes"
    lines = out.decode().splitlines()
    figures = [line for line in lines if "  read_skew " in line]
    assert figures
    assert all("  lag: eu " in line for line in figures)
    assert figures[-1].endswith("read_skew 0  lag: eu 0.0 s, us 0.0 s, ap 0.0 s"), "equal values lack nothing"
    assert "read_skew: the highest value less the lowest. lag: for how long" in lines[1]
    at = next(number for number, line in enumerate(lines) if line.startswith("region"))
    table = lined_up(lines[at : at + 4], COLUMNS)
    assert [row[0] for row in table] == ["eu", "us", "ap"]
    assert {row[2] for row in table} == {f"{sum(int(row[1].replace(',', '')) for row in table):,}"}
    assert {row[3] for row in table} == {"0"}
    assert lines[at - 4 : at - 1] == ["", "eu exact, us exact, ap exact", ""], "the verdict comes first"


def test_the_verdict_names_each_region() -> None:
    outcome = Outcome({"eu": 1}, {"eu": 1}, 1101, {"eu": 0, "us": 3}, 5, [], [])
    assert outcome.verdict == "eu exact, us wrong on 3 of 1,101 names"


@pytest.mark.slow("a demo")
def test_keys_switch_the_partition() -> None:
    """On a terminal; after the first key nothing happens by itself, and q ends it."""
    with on_terminal(start, "--regions", "--seconds", "600") as terminal:
        terminal.wait_for(b"three regions count")
        terminal.press(b"2")
        terminal.wait_for(b"us is cut off, and counts on")
        terminal.wait_for(b"cut off\x1b")
        terminal.press(b"x2")
        terminal.wait_for(b"us is back")
        terminal.wait_for(b"every region shows what all had counted by then")
        terminal.press(b"q")
        assert terminal.process.wait(timeout=60) == 0
    for word in (
        b"behind, the last 6 s",
        b"read_skew",
        b"lag: eu ",
        b"read_skew: the highest value less the lowest",
        b" counted of 'visits' in all regions\r\n",
        b"Press 1, 2 or 3",
    ):
        assert word in terminal.seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow("two demos")
def test_a_signal_ends_it_and_all_is_exact(number: signal.Signals) -> None:
    """While one region is cut off: it is let back, everything meets, and no server is left."""
    process = start("--regions", "--seconds", "20", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    seen = b""
    while b"ap is cut off" not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert b"ap is back" in out
    assert b"When it was interrupted" in out
    assert b"\neu exact, us exact, ap exact\n" in out
    await_none_left(process.pid)


def test_two_demos_at_once_are_refused() -> None:
    done = run(None, "demo", "--web", "--regions")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"one at a time" in done.stderr


def test_a_wrong_name_in_one_region_is_not_exact() -> None:
    result = Outcome({}, {}, 101, {"eu": 0, "us": 0, "ap": 0}, 0, [], [])
    assert result.exact
    assert not Outcome({}, {}, 101, {"eu": 0, "us": 1, "ap": 0}, 0, [], []).exact


def test_bars() -> None:
    """The highest is full, nothing is nothing, and what is more than nothing is seen."""
    assert bars([0, 1, 500, 1000], 1000) == " ▁▄█"
