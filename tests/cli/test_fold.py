"""``actors`` and ``fold``: the actors that count and that did, and one pass of the janitor."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.cli.actors import COLUMNS, actors
from redis_counters.cli.fold import fold
from tests.cli.commands import run
from tests.protocol.cleaning import UPKEEP, House
from tests.servers import RealServer


def told(server: RealServer, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Return what a command tells as JSON."""
    result = run(server, *arguments, "--json")
    assert result.returncode == code, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_actors_of_every_state(any_server: RealServer) -> None:
    """One row each, with bucket, id and display name; the oldest first in each bucket."""
    house = House(any_server.client(), buckets=16)
    for name in (b"a", b"a", b"b"):
        house.short_lived(name)
    house.age(UPKEEP.actor_ttl)
    told(any_server, "fold")
    with Counters.from_url(any_server.url, actor="the tester") as counters:
        counters.incr("a", 5)
        counters.flush()
        rows = told(any_server, "actors")["actors"]
        table = run(any_server, "actors").stdout.decode().splitlines()
    assert sorted((row["state"], row["writer"]) for row in rows) == [("closed", "test")] * 3 + [("open", "the tester")]
    assert all(0 <= row["silent"] < 60 for row in rows)
    assert {row["bucket"] for row in rows} == {house.keys.bucket(name, 0) for name in (b"a", b"b")}
    assert table[0].split("\t") == COLUMNS
    assert [line.split("\t")[1] for line in table[1:]] == [row["actor"] for row in rows]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\t\d+ s", line.split("\t", 4)[4]) for line in table[1:])


def test_where_nothing_was_counted(any_server: RealServer) -> None:
    """There are no actors, there is nothing to do, and no key is made."""
    assert told(any_server, "actors") == {"actors": []}
    assert told(any_server, "fold")["complete"]
    assert any_server.client().dbsize() == 0


@pytest.mark.slow("a dozen commands, and silence")
def test_fold_from_silence_to_oblivion(any_server: RealServer) -> None:
    """Three passes, with time between them: closed, folded, forgotten; the value stays what it was."""
    house = House(any_server.client(), buckets=16)
    for _ in range(30):
        house.short_lived(b"likes", 2)
    figures = ("reaped", "folded", "slots", "cleaned", "waiting", "remembered")
    house.age(60)
    for ttl, expected in (("50", (30, 0, 0, 0, 30, 0)), ("3600", (0, 30, 30, 0, 0, 0)), ("3600", (0, 0, 0, 30, 0, 0))):
        dry = told(any_server, "fold", "--actor-ttl", ttl, "--retention", "1000", "--dry-run")
        wet = told(any_server, "fold", "--actor-ttl", ttl, "--retention", "1000")
        assert dry == {**wet, "dry_run": True}
        assert tuple(wet[figure] for figure in figures) == expected
        assert (wet["complete"], wet["refused"]) == (True, 0)
        assert run(any_server, "get", "likes").stdout == b"likes\t60\n"
        house.age(1001)
    lines = run(any_server, "fold").stdout.decode().splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        ["what", "number"],
        *([name, "0"] for name in ("reaped", "folded", "slots", "cleaned", "waiting", "remembered")),
    ]


@pytest.mark.slow("several commands, and silence")
def test_a_slot_that_cannot_be_folded(any_server: RealServer) -> None:
    """It is reported in one line, with exit code 1; the others are folded, and no actor of its bucket is forgotten."""
    house = House(any_server.client(), buckets=1)
    _, actor = house.short_lived(b"spoilt")
    house.short_lived(b"good")
    house.client.hset(house.keys.shard_key(b"spoilt", 0)[1], actor + b"+", "many")
    house.age()
    told(any_server, "fold")
    house.age()
    result = run(any_server, "fold")
    assert (result.returncode, result.stderr) == (1, b"redis-counters: slots that could not be folded: 1\n")
    assert run(any_server, "get", "good").stdout == b"good\t1\n"
    house.age()
    assert told(any_server, "fold", code=1)["cleaned"] == 0
    assert house.states() == "ff"


def test_a_user_who_may_not(any_server: RealServer) -> None:
    """One line names the command that is missing."""
    client: Any = any_server.client()
    house = House(client)
    house.short_lived(b"x")
    client.execute_command("ACL", "SETUSER", "nobody", "on", ">secret", "~*", "+@all", "-hscan")
    try:
        url = any_server.url.replace("://", "://nobody:secret@")
        for command in ("actors", "fold"):
            result = run(None, command, "--url", url)
            assert (result.returncode, result.stdout) == (1, b"")
            assert b"hscan" in result.stderr.lower()
            assert result.stderr.count(b"\n") == 1
    finally:
        client.execute_command("ACL", "DELUSER", "nobody")


@pytest.mark.parametrize("arguments", [("--actor-ttl", "0"), ("--retention", "-1"), ("--actor-ttl", "nan")])
def test_wrong_usage(any_server: RealServer, arguments: tuple[str, str]) -> None:
    assert run(any_server, "fold", *arguments).returncode == 2


def test_it_fits_on_a_terminal_of_80_columns(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers and times are whole, in lines of at most 80 characters; progress goes to standard error."""
    monkeypatch.setenv("COLUMNS", "80")
    house = House(any_server.client())
    for _ in range(3):
        house.short_lived(b"x")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    actors(any_server.url, "rc", "main", False)
    fold(any_server.url, "rc", "main", False, 3600.0, 86400.0, False)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(bool(re.search(r" open +│ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d │ \d+ s +│", line)) for line in lines) == 3
