"""``inspect``: the parts of a counter add up to its value."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from redis_counters import Counters
from redis_counters.cli import inspection
from tests.cli.commands import run
from tests.servers import RealServer


def test_unknown_counter(server: RealServer) -> None:
    """A counter that nobody counted is one empty shard of value 0, also in a new namespace; nothing is made."""
    shard = {"shard": 0, "bucket": 11, "key": "{rc:11}:c:0:nobody", "dot": None, "value": 0}
    empty = {"name": "nobody", "value": 0, "shards": [{**shard, "base": {"+": 0, "-": 0}, "slots": []}], "actors": {}}
    assert json.loads(run(server, "inspect", "nobody", "--json").stdout) == empty
    assert server.client().dbsize() == 0
    run(server, "incr", "somebody")
    keys = server.client().dbsize()
    assert json.loads(run(server, "inspect", "nobody", "--json").stdout) == empty
    assert server.client().dbsize() == keys
    assert run(server, "inspect", "nobody").stdout == b"nobody: 0 in 1 shard, Redis holds nothing of it\n"


def test_slots_of_a_live_writer(server: RealServer) -> None:
    """A writer's increments and decrements are slots of one open actor, known by its display name."""
    with Counters.from_url(server.url, actor="the tester") as counters:
        counters.incr("likes", 10)
        counters.decr("likes", 3)
        counters.flush()
        report = json.loads(run(server, "inspect", "likes", "--json").stdout)
        table = run(server, "inspect", "likes").stdout.decode()
    (shard,) = report["shards"]
    ((actor, view),) = report["actors"].items()
    assert report["value"] == shard["value"] == 7
    assert (view["state"], view["writer"]) == ("open", "the tester")
    assert {(slot["actor"], slot["sign"], slot["total"], slot["floor"]) for slot in shard["slots"]} == {
        (actor, "+", 10, 0),
        (actor, "-", 3, 0),
    }
    assert shard["key"].endswith(":likes")
    assert shard["dot"]
    lines = [line.split("\t") for line in table.splitlines()]
    assert lines[0] == ["likes: 7 in 1 shard"]
    assert lines[1] == ["shard", "actor", "total", "floor", "state", "seen", "writer"]
    assert sorted(line[2] for line in lines[2:]) == ["+10", "-3"]
    assert all(line[1] == actor and line[4] == "open" and line[6] == "the tester" for line in lines[2:])
    assert all(re.fullmatch(r"\d s ago", line[5]) for line in lines[2:])


def test_base_after_close(server: RealServer) -> None:
    """What a process counted that has ended is in the base."""
    run(server, "incr", "likes", "5")
    run(server, "incr", "likes", "-2")
    report = json.loads(run(server, "inspect", "likes", "--json").stdout)
    (shard,) = report["shards"]
    assert (report["value"], shard["base"], shard["slots"]) == (3, {"+": 5, "-": 2}, [])


def test_floor_after_a_deletion(any_server: RealServer) -> None:
    """A key deleted under a live writer: what it had counted is under a floor."""
    client = any_server.client()
    with Counters.from_url(any_server.url) as counters:
        counters.incr("likes", 10)
        counters.flush()
        before = json.loads(run(any_server, "inspect", "likes", "--json").stdout)
        client.delete(os.fsencode(before["shards"][0]["key"]))
        counters.incr("likes", 2)
        counters.flush()
        report = json.loads(run(any_server, "inspect", "likes", "--json").stdout)
    (slot,) = report["shards"][0]["slots"]
    assert (report["value"], slot["total"], slot["floor"]) == (2, 12, 10)
    assert report["shards"][0]["dot"] != before["shards"][0]["dot"]


def test_every_shard_is_shown(any_server: RealServer) -> None:
    """A counter of several shards has a part for each, in different buckets, and they add up."""
    for _ in range(6):
        with Counters.from_url(any_server.url, shards=4) as counters:
            counters.incr("likes", 5)
    report = json.loads(run(any_server, "inspect", "likes", "--json").stdout)
    assert report["value"] == 30
    assert [shard["shard"] for shard in report["shards"]] == [0, 1, 2, 3]
    assert len({shard["bucket"] for shard in report["shards"]}) == 4
    assert sum(shard["value"] for shard in report["shards"]) == 30


def test_a_field_that_is_no_count(any_server: RealServer) -> None:
    """What somebody else wrote into the hash is told, in one line."""
    run(any_server, "incr", "likes")
    client = any_server.client()
    (key,) = [key for key in client.scan_iter() if key.endswith(b":likes")]
    client.hset(key, "0.1.x+", "many")
    for command in ("inspect", "get"):
        result = run(any_server, command, "likes")
        assert (result.returncode, result.stdout) == (1, b"")
        assert b"0.1.x+" in result.stderr
        assert result.stderr.count(b"\n") == 1


def test_it_fits_on_a_terminal_of_80_columns(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No header and no number is broken, in lines of at most 80 characters."""
    monkeypatch.setenv("COLUMNS", "80")
    with Counters.from_url(any_server.url) as counters:
        counters.incr("likes", 10**18)
        counters.decr("likes", 3)
        counters.flush()
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        inspection.inspect("likes", any_server.url, "rc", "main", False)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(f" {column} " in lines[2] for column in inspection.COLUMNS)
    shown = "\n".join(lines)
    assert f"+{10**18} " in shown
    assert " -3 " in shown


@pytest.mark.parametrize(
    ("before", "text"),
    [(-5, "0 s ago"), (0, "0 s ago"), (59, "59 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")],
)
def test_an_age_is_short(before: int, text: str) -> None:
    assert inspection._age(1_000_000_000, 1_000_000_000.5 + before) == text
