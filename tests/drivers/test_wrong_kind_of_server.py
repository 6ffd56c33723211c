"""A client of one server at a server of a cluster: the caller's mistake, told at once and once, and nothing is lost."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
import redis

from redis_counters import Refused, Unavailable
from redis_counters.drivers.redis_py.errors import error_reply, reply_to_one
from tests.cli.commands import run
from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.topologies.clusters import Cluster

USE = "this server is part of a cluster: use redis+cluster:// or a RedisCluster client"


def urls(cluster: Cluster) -> dict[str, str]:
    """Return the URLs of two servers: the one with the key of the namespace, and another."""
    home = cluster.node_of("rc:meta")
    other = next(node for node in cluster.primaries() if node is not home)
    return {"home": f"redis://{home.host}:{home.port}", "other": f"redis://{other.host}:{other.port}"}


@pytest.mark.parametrize("where", ["home", "other"])
@pytest.mark.parametrize("face", FACES)
def test_every_call_says_so(any_cluster: Cluster, face: str, where: str) -> None:
    """Counting, reading and calls at once; there is one event, and the counts are kept."""
    told: list[Any] = []

    async def main() -> None:
        counters = Either.url(face, urls(any_cluster)[where], observer=told.append, buckets=64, flush_interval=0.01)
        names = [f"n{i}" for i in range(64)]  # some of them belong elsewhere, wherever this is
        for name in names:
            counters.incr(name)
        for _ in range(3):
            with pytest.raises(Refused, match=re.escape(USE)) as refused:
                await counters.flush(10)
            assert type(refused.value) is Refused
        with pytest.raises(Refused, match=re.escape(USE)):
            await counters.get_many(names, max_age=0)
        refusals = []
        for name in names:
            try:
                await done(counters.counters.incr_once(name, key="k"))
            except Refused as error:
                refusals.append(str(error))
        assert refusals
        assert [text for text in refusals if USE not in text] == []
        assert counters.stats().pending > 0
        with pytest.raises(Refused, match=re.escape(USE)):
            await counters.close(2)

    asyncio.run(main())
    failed = [event for event in told if event.kind.name == "FLUSH_FAILED"]
    assert len(failed) == 1
    assert USE in failed[0].message


@pytest.mark.parametrize("command", [["get", "a"], ["incr", "a"], ["count"], ["inspect", "a"], ["actors"], ["bench"]])
def test_so_does_every_command(any_cluster: Cluster, command: list[str]) -> None:
    """In one line, exit code 1."""
    result = run(None, *command, "--url", urls(any_cluster)["other"], stdin=b"a\n")
    assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (1, b"", 1)
    assert USE.encode() in result.stderr


def test_what_a_cluster_answers() -> None:
    """To a client of a cluster a slot that has moved is passing trouble, to a client of one server a mistake."""
    for error in (
        redis.exceptions.MovedError("7 127.0.0.1:1"),
        redis.exceptions.AskError("7 127.0.0.1:1"),
        redis.exceptions.ClusterCrossSlotError("Keys in request don't hash to the same slot"),
    ):
        assert USE in reply_to_one(error).text
        assert USE not in error_reply(error).text
    assert not issubclass(Refused, Unavailable)
