"""``reshard``: more shards at once, fewer where no process counts in them; values stay what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.protocol.wire.keys import KeySpace
from tests.cli.commands import run
from tests.faces.either import truth
from tests.servers import RealServer

QUICK = ("--shrink", "--reassert-window", "0")  # no fail-over is to be feared
MANY = 8  # clients, so that more than one shard is used


def told(server: RealServer, *arguments: str, code: int = 0) -> list[tuple[str, int, str]]:
    """Return what a command tells as JSON."""
    result = run(server, "reshard", *arguments, "--json")
    assert result.returncode == code, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return [(row["name"], row["shards"], row["why"]) for row in found["counters"]]


def counted(server: RealServer, shards: int, *names: str) -> None:
    """Many have counted 3 each, and are gone."""
    for _ in range(MANY):
        with Counters(server.client(), shards=shards) as counters:
            for name in names:
                counters.incr(name, 5)
                counters.decr(name, 2)


def width(server: RealServer, name: str) -> int:
    with Counters(server.client()) as counters:
        return counters.inspect(name).shards


def test_more(any_server: RealServer) -> None:
    """Also of counters that were never counted, in a namespace that is not there yet; never fewer."""
    assert told(any_server, "a", "b", "8") == [("a", 8, ""), ("b", 8, "")]
    assert told(any_server, "a", "4") == [("a", 8, "")]
    assert (width(any_server, "a"), width(any_server, "b")) == (8, 8)
    counted(any_server, 1, "a")
    assert truth(any_server, ["a"]) == {b"a": 3 * MANY}
    lines = run(any_server, "reshard", "a", "c", "16").stdout.decode().splitlines()
    assert [line.split("\t") for line in lines] == [
        ["counter", "shards", "what"],
        ["a", "16", "done"],
        ["c", "16", "done"],
    ]


@pytest.mark.slow("a window long")
def test_fewer(any_server: RealServer) -> None:
    """Whatever was in the others is in the first; readers find it, and counts and shards may grow again."""
    counted(any_server, 8, "a", "b")
    with Counters(any_server.client(), max_age=0) as reader:
        assert reader.get("a") == 3 * MANY
        assert told(any_server, *QUICK, "a", "b", "2") == [("a", 2, ""), ("b", 2, "")]
        assert reader.get_many(["a", "b"]) == {"a": 3 * MANY, "b": 3 * MANY}
        assert (width(any_server, "a"), width(any_server, "b")) == (2, 2)
        counted(any_server, 8, "a")
        assert reader.get("a") == 6 * MANY
        assert reader.inspect("a").value == 6 * MANY
        assert truth(any_server, ["a", "b"]) == {b"a": 6 * MANY, b"b": 3 * MANY}
        assert told(any_server, *QUICK, "a", "2")[0][:2] == ("a", 2)
        assert reader.get("a") == 6 * MANY


def test_who_still_counts_there_is_in_the_way(any_server: RealServer) -> None:
    """It says so, changes nothing, and works once they are gone."""
    writers = [Counters(any_server.client(), shards=8) for _ in range(MANY)]
    for counters in writers:
        counters.incr("a")
        counters.flush()
    ((name, shards, why),) = told(any_server, *QUICK, "a", "1", code=1)
    assert (name, shards) == ("a", 8)
    assert "slots in shards from 1 on" in why
    for counters in writers:
        counters.incr("a")
        counters.flush()
        counters.close()
    assert truth(any_server, ["a"]) == {b"a": 2 * MANY}
    assert told(any_server, *QUICK, "a", "1") == [("a", 1, "")]
    assert truth(any_server, ["a"]) == {b"a": 2 * MANY}


def test_who_sleeps_meanwhile_counts_on(any_server: RealServer) -> None:
    """A client that knows of the shards, and has nothing there at the time, publishes them again; nothing is lost."""
    counted(any_server, 8, "a")
    with_shards = [Counters(any_server.client(), shards=8) for _ in range(MANY)]
    for counters in with_shards:
        counters.incr("other")  # they have actors, and no slot of this counter
        counters.flush()
    assert told(any_server, *QUICK, "a", "1") == [("a", 1, "")]
    for number, counters in enumerate(with_shards, 1):
        counters.incr("a")
        counters.flush()
        assert truth(any_server, ["a"]) == {b"a": 3 * MANY + number}
    for counters in with_shards:
        counters.close()
    assert truth(any_server, ["a"]) == {b"a": 4 * MANY}
    assert width(any_server, "a") > 1


def test_what_cannot_have_fewer(any_server: RealServer) -> None:
    """Counters whose keys or users are spread over more, those that expire, and what is no counter."""
    with Counters(any_server.client(), shards=4) as counters:
        counters.incr_once("keyed", key="k")
    client: Any = any_server.client()
    counted(any_server, 4, "expires", "none of ours")
    shard0 = next(key for key in client.keys("*:c:0:expires"))
    client.expire(shard0, 1000)
    client.set(next(key for key in client.keys("*:c:0:none of ours")), "text")
    rows = told(any_server, *QUICK, "keyed", "expires", "none of ours", "unknown", "1", code=1)
    assert [(name, shards) for name, shards, _why in rows] == [
        ("keyed", 0),
        ("expires", 0),
        ("none of ours", 0),
        ("unknown", 1),
    ]
    assert ["spread" in rows[0][2], "expires" in rows[1][2], "WRONGTYPE" in rows[2][2]] == [True] * 3


def test_in_an_empty_server_nothing_is_made_by_shrinking(any_server: RealServer) -> None:
    assert told(any_server, *QUICK, "a", "1") == [("a", 1, "")]
    assert any_server.client().dbsize() == 0


@pytest.mark.parametrize("wrong", [("a",), ("a", "0"), ("a", "1025"), ("a", "x"), ()])
def test_wrong_usage(any_server: RealServer, wrong: tuple[str, ...]) -> None:
    assert run(any_server, "reshard", *wrong).returncode == 2


def test_it_waits_until_no_fail_over_can_take_it_back(any_server: RealServer) -> None:
    """What another narrowing has sealed just now counts as new; with a short window it is seconds."""
    counted(any_server, 2, "a")
    assert told(any_server, "--shrink", "--reassert-window", "0.5", "a", "1") == [("a", 1, "")]
    assert truth(any_server, ["a"]) == {b"a": 3 * MANY}


@pytest.mark.parametrize("shard", [0, 2])
def test_what_is_in_the_way_is_told_alike_by_all_servers(server: RealServer, shard: int) -> None:
    """They put the error of a command inside a script into sentences of their own."""
    counted(server, 4, "a")
    client: Any = server.client()
    key = KeySpace(b"rc", 16).shard_key(b"a", shard)[1]
    client.delete(key)
    if shard:  # it may have been the only one
        client.hset(KeySpace(b"rc", 16).shard_key(b"a", 0)[1], "k", 4)
    client.rpush(key, "somebody's")
    what = f"the key '{key.decode()}' holds something else"
    why = f"counter 'a': {what}: WRONGTYPE Operation against a key holding the wrong kind of value"
    assert told(server, "a", "1", *QUICK, code=1) == [("a", 0, why)]
