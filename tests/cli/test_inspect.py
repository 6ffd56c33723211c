"""``inspect``: the parts of a counter add up to its value."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.cli import inspect as inspect_command
from redis_counters.protocol.read.inspection import ActorView, RegionView
from redis_counters.testing import LossyLink
from tests.cli.commands import run
from tests.servers import RealServer


@pytest.mark.slow("four commands")
def test_unknown_counter(any_server: RealServer) -> None:
    """A counter that was never counted is one empty shard of value 0, also in a new namespace; nothing is made."""
    shard = {"shard": 0, "bucket": 11, "key": "{rc:11}:c:0:nobody", "dot": None, "value": 0}
    shard |= {"base": {"+": 0, "-": 0}, "slots": [], "entries": []}
    empty = {"name": "nobody", "value": 0, "regions": {}, "shards": [shard], "actors": {}}
    assert json.loads(run(any_server, "inspect", "nobody", "--json").stdout) == empty
    assert any_server.client().dbsize() == 0
    run(any_server, "incr", "somebody")
    keys = any_server.client().dbsize()
    assert json.loads(run(any_server, "inspect", "nobody", "--json").stdout) == empty
    assert any_server.client().dbsize() == keys
    assert run(any_server, "inspect", "nobody").stdout == b"nobody: 0 in 1 shard, Redis holds nothing of it\n"


def test_slots_of_a_live_writer(any_server: RealServer) -> None:
    """A writer's increments and decrements are slots of one open actor, known by its display name."""
    with Counters.from_url(any_server.url, actor="the tester") as counters:
        counters.incr("likes", 10)
        counters.decr("likes", 3)
        counters.flush()
        report = json.loads(run(any_server, "inspect", "likes", "--json").stdout)
        table = run(any_server, "inspect", "likes").stdout.decode()
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


@pytest.mark.slow("three commands")
def test_base_after_close(any_server: RealServer) -> None:
    """What a process counted that has ended is in the base."""
    run(any_server, "incr", "likes", "5")
    run(any_server, "incr", "likes", "-2")
    report = json.loads(run(any_server, "inspect", "likes", "--json").stdout)
    (shard,) = report["shards"]
    assert (report["value"], shard["base"], shard["slots"]) == (3, {"+": 5, "-": 2}, [])


@pytest.mark.slow("two commands")
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


def summed(lines: list[str]) -> int:
    """What the columns `total` and `floor` come to."""
    cells = [line.split("\t") for line in lines[2:]]
    return sum(int(total or 0) - int(floor or 0) for _, _, total, floor, *_ in cells)


def test_ages_are_by_the_servers_clock(any_server: RealServer) -> None:
    """Which may be hours off this machine's; both ages are of one clock."""
    with Counters.from_url(any_server.url) as counters, LossyLink(any_server.url) as link:
        counters.incr("likes")
        counters.flush()
        client: Any = any_server.client()
        seconds = client.time()[0] + 7230
        answer = b"*2\r\n$%d\r\n%d\r\n$1\r\n0\r\n" % (len(str(seconds)), seconds)
        link.replace_reply(answer, every=1, commands=["TIME"])
        shown = run(None, "inspect", "likes", "--url", link.url).stdout
        assert b"\t2 h ago\t" in shown
        with Counters.from_url(link.url) as other:
            (view,) = other.inspect("likes").actors.values()
            assert 7200 <= (view.age or 0) < 7300


def test_floor_after_a_reset(any_server: RealServer) -> None:
    """It lies under all that was counted there, and goes on to."""
    with Counters.from_url(any_server.url) as counters:
        counters.incr("likes", 10)
        counters.decr("likes", 3)
        counters.reset("likes")
        counters.incr("likes", 2)
        counters.flush()
        report = json.loads(run(any_server, "inspect", "likes", "--json").stdout)
        lines = run(any_server, "inspect", "likes").stdout.decode().splitlines()
    (shard,) = report["shards"]
    (entry,) = shard["entries"]
    assert (report["value"], shard["value"]) == (2, 2)
    assert entry == {"entry": f"/{shard['dot']}", "plus": 12, "minus": 3, "floor_plus": 10, "floor_minus": 3}
    assert [line.split("\t")[1:5] for line in lines if "\tlive" in line] == [
        [f"/{shard['dot']}", "", "+10", "live"],
        [f"/{shard['dot']}", "", "-3", "live"],
    ]
    assert summed(lines) == 2


def test_what_peers_had_is_shown_beyond_what_is_there(any_server: RealServer) -> None:
    """A region that fell back has more of its own live entry from its peers than its base and slots come to."""
    with Counters.from_url(any_server.url) as counters:
        counters.incr("likes", 10)
    (shard,) = json.loads(run(any_server, "inspect", "likes", "--json").stdout)["shards"]
    dot = shard["dot"]
    any_server.client().hset(shard["key"], f"@/{dot}+", "25")
    lines = run(any_server, "inspect", "likes").stdout.decode().splitlines()
    assert lines[0] == "likes: 25 in 1 shard"
    assert [line.split("\t")[1:5] for line in lines[2:]] == [["base", "+10", "", ""], [f"/{dot}", "+15", "", "live"]]
    assert summed(lines) == 25


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


@pytest.mark.slow("several commands")
def test_a_field_that_is_no_count(any_server: RealServer) -> None:
    """A field that is none of ours is reported, in one line."""
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
        inspect_command.inspect("likes", any_server.url, "rc", "main", False)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(f" {column} " in lines[2] for column in inspect_command.COLUMNS)
    shown = "\n".join(lines)
    assert f"+{10**18} " in shown
    assert " -3 " in shown


@pytest.mark.parametrize(
    ("before", "text"),
    [(-5, "0 s ago"), (0, "0 s ago"), (59, "59 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")],
)
def test_an_age_is_short(before: int, text: str) -> None:
    """By the server's clock, or by this machine's where that may not be asked."""
    view = ActorView(b"", "open", 1, 1_000_000_000, "")
    assert inspect_command._ago(view.last_seen, view.age, 1_000_000_000.5 + before) == text
    assert inspect_command._ago(view.last_seen, before, 0.0) == text


@pytest.mark.slow("three commands")
def test_what_each_region_counted_and_since_when_that_is_known(any_server: RealServer) -> None:
    """As exchanges record it, per bucket of the counter; of one that was heard of by others it is not known."""
    with Counters.from_url(any_server.url, region="eu") as counters:
        counters.incr("likes", 10)
        counters.flush()
        assert run(any_server, "reshard", "likes", "2", "--region", "eu").returncode == 0
        client = any_server.client()
        first, other = [part.bucket for part in counters.inspect("likes").parts]
        for field, count in {"@us/0+": 7, "~@us/0+": 2, "@ap/0+": 5, "@ap/0-": 6}.items():
            client.hset(f"{{rc:{first}}}:c:0:likes", field, count)
        client.hset(f"{{rc:{first}}}:m", mapping={"t:us": "1700000002500", "t:ap": "1700000000000"})
        client.hset(f"{{rc:{other}}}:m", mapping={"t:us": "1700000001500"})
        found = counters.inspect("likes")
        assert found.regions == {
            "eu": RegionView(10, None),
            "us": RegionView(5, 1700000001.5, found.regions["us"].age),
            "ap": RegionView(-1, None),
        }
        assert (found.regions["us"].age or 0) > 10_000_000
        assert sum(told.value for told in found.regions.values()) == found.value == 14
    shown = json.loads(run(any_server, "inspect", "likes", "--json").stdout)["regions"]
    assert shown["us"] == {"value": 5, "as_of": 1700000001.5}
    lines = run(any_server, "inspect", "likes").stdout.decode().splitlines()
    assert "region\tof the value\tas of" in lines
    assert "eu\t10\tnow" in lines
    assert "ap\t-1\tnot known" in lines
