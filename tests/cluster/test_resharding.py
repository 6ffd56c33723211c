"""Shards that grow and shrink where they lie on different servers, and no command reaches two of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from functools import partial
from typing import Any

import pytest

from redis_counters import Counters
from tests.cli.commands import COMMAND, TIMEOUT
from tests.faces.either import FACES, Either
from tests.faces.growing import grow
from tests.topologies.clusters import Cluster

MANY = 6


def resharded(cluster: Cluster, *arguments: str) -> Any:
    command = [*COMMAND, "--url", cluster.url, "reshard", *arguments, "--json"]
    result = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["counters"]


def read(cluster: Cluster, name: str) -> tuple[int, int]:
    """Return a counter's value and its number of shards, as a client sees them that knows nothing."""
    with Counters.from_url(cluster.url) as counters:
        seen = counters.inspect(name)
        assert counters.get(name, max_age=0) == seen.value
        return seen.value, seen.shards


def test_reshard(any_cluster: Cluster) -> None:
    """To more shards and to fewer, while a client that knows of all goes on and another reads."""
    assert resharded(any_cluster, "x", "y", "8")[1] == {"name": "y", "shards": 8, "why": ""}
    for _ in range(MANY):
        with Counters.from_url(any_cluster.url) as counters:
            counters.get("x")
            counters.incr("x", 5)
            counters.decr("x")
    assert read(any_cluster, "x") == (4 * MANY, 8)
    sleepers = [Counters.from_url(any_cluster.url, shards=8) for _ in range(MANY)]
    with Counters.from_url(any_cluster.url, max_age=0) as reader:
        assert reader.get("x") == 4 * MANY
        for counters in sleepers:
            counters.incr("y")
            counters.flush()
        told = resharded(any_cluster, "--shrink", "--reassert-window", "0", "x", "2")
        assert told == [{"name": "x", "shards": 2, "why": ""}]
        assert read(any_cluster, "x") == (4 * MANY, 2)
        assert reader.get("x") == 4 * MANY
        for number, counters in enumerate(sleepers, 1):
            counters.incr("x")
            counters.flush()
            assert reader.get("x") == 4 * MANY + number == read(any_cluster, "x")[0]
        for counters in sleepers:
            counters.close()
        assert reader.get_many(["x", "y"]) == {"x": 5 * MANY, "y": MANY}


@pytest.mark.parametrize("face", FACES)
def test_it_grows_by_itself(any_cluster: Cluster, face: str) -> None:
    """The shards are looked at one by one, wherever they are."""

    counted = asyncio.run(grow(partial(Either.url, face, any_cluster.url, shards="auto"), "hot"))
    value, shards = read(any_cluster, "hot")
    assert (value, shards >= 4) == (counted, True)
