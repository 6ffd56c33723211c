"""What works on one server works on a cluster, in both faces; and the keys are spread over all primaries."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.cluster import ClusterNode as AsyncioNode

from redis_counters import Counters, Durability, Unavailable, Unconfirmed, UsageError
from redis_counters.asyncio import Counters as AsyncioCounters
from tests.cli.commands import COMMAND, TIMEOUT, environment
from tests.cluster.support import KEYS
from tests.faces.either import FACES, Either, nonzero, tally, workload
from tests.faces.either import count as make_calls
from tests.keyed.support import done
from tests.lifecycle.children import ended_well, forked, forks
from tests.protocol.cleaning import age
from tests.servers import NOWHERE
from tests.topologies.clusters import Cluster
from tests.waiting import PATIENCE, until_async


def on(face: str, cluster: Cluster, **options: Any) -> Either:
    return Either.url(face, cluster.url, **options)


def keys_at(cluster: Cluster) -> dict[int, list[bytes]]:
    """Return all keys, by the primary's port."""
    found = {}
    for node in cluster.primaries():
        with redis.Redis(host=node.host, port=node.port) as client:
            anything: Any = client
            found[node.port] = list(anything.scan_iter(count=10_000))
    return found


@pytest.mark.parametrize("face", FACES)
def test_counts_are_exact(cluster: Cluster, face: str) -> None:
    """Names of every sort, amounts beyond 2^53, shards; read by a client that counted nothing, also once folded."""
    calls = workload(7)

    async def main() -> None:
        async with on(face, cluster, shards={"": 1, "n": 16}) as counters, on(face, cluster) as reader:
            make_calls(counters.counters, calls)
            await counters.flush()
            sums = tally(calls)
            assert await reader.get_many(sums, max_age=0) == sums
            await counters.close()
            assert await reader.get_many(sums, max_age=0) == sums
            for name, total in list(sums.items())[:10]:
                assert await reader.get(name, max_age=0) == total
                assert (await reader.inspect(name)).value == total

    asyncio.run(main())
    assert nonzero(tally(calls)), "the workload counts something"


@pytest.mark.parametrize("face", FACES)
def test_keyed_calls(cluster: Cluster, face: str) -> None:
    """incr_once, likes, seed and adopt."""

    async def main() -> None:
        async with on(face, cluster, shards=16) as counters:
            api = counters.counters
            names = [f"once:{n}" for n in range(40)]
            for name in names:
                assert await done(api.incr_once(name, "key", 3)) is True
                assert await done(api.incr_once(name, "key", 3)) is False
            assert await counters.get_many(names, max_age=0) == dict.fromkeys(names, 3)
            likes = api.likes("post")
            users = [f"user{n}" for n in range(100)]
            for user in users:
                assert await done(likes.like(user)) is True
            assert await done(likes.like(users[0])) is False
            assert await done(likes.unlike(users[0])) is True
            assert await done(likes.has_many(users)) == {user: user != users[0] for user in users}
            assert await done(likes.value()) == 99
            assert await done(api.likes("nobody likes").has("user")) is False
            assert await done(api.likes("nobody likes").value()) == 0
            await done(api.seed("old", 1_000, "database"))
            await done(api.seed("old", 1_000, "database"))
            assert await counters.get("old", max_age=0) == 1_000
            with cluster.client() as client:
                client.set("plain", 42)
            assert await done(api.adopt("plain", "adopted")) == 42
            assert await counters.get("adopted", max_age=0) == 42
            expiring = api.counter("short", expire_at=time.time() + 3600)
            expiring.incr()
            await counters.flush()
            assert await counters.get("short", max_age=0) == 1
            assert await counters.get("plain", max_age=0) == 0

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_client_of_the_caller(any_cluster: Cluster, face: str) -> None:
    """With decode_responses, and left open."""

    async def main() -> None:
        if face == "blocking":
            client: Any = any_cluster.client(decode_responses=True)
        else:
            nodes = [AsyncioNode(*address) for address in any_cluster.addresses]
            client = redis.asyncio.RedisCluster(startup_nodes=nodes, decode_responses=True)
        async with Either(face, client) as counters:
            counters.incr("a", 5)
            counters.counter("b", shards=9).incr(6)
            await counters.flush()
            assert await counters.get_many(["a", "b"], max_age=0) == {"a": 5, "b": 6}
        assert await done(client.get("none")) is None
        await done(client.aclose() if face == "asyncio" else client.close())

    asyncio.run(main())


def test_the_wrong_face_and_what_is_no_client(any_cluster: Cluster) -> None:
    nodes = [AsyncioNode(*address) for address in any_cluster.addresses]
    wrong: list[tuple[Any, Any]] = [
        (Counters, redis.asyncio.RedisCluster(startup_nodes=nodes)),
        (AsyncioCounters, any_cluster.client()),
        (Counters, any_cluster.client().pipeline()),
        (AsyncioCounters, redis.asyncio.RedisCluster(startup_nodes=nodes).pipeline()),
    ]
    for counters, client in wrong:
        with pytest.raises(UsageError, match="client"):
            counters(client)


def test_the_shards_of_a_counter_lie_on_all_primaries(any_cluster: Cluster) -> None:
    writers = [Counters.from_url(any_cluster.url, shards=16) for _ in range(40)]
    for writer in writers:
        writer.incr("hot")
        writer.flush()
    keys = keys_at(any_cluster)
    for writer in writers:
        writer.close()
    for port, found in keys.items():
        assert sum(b":c:" in key for key in found) >= 2, f"shards on {port}: {found}"
    with Counters.from_url(any_cluster.url) as reader:
        assert reader.get("hot", max_age=0) == 40


def test_names_with_braces_do_not_gather(any_cluster: Cluster) -> None:
    """A name's braces are not the hash tag: names neither collide nor gather on one primary."""
    names = (
        [f"{{user}}:{n}" for n in range(100)] + [f"a{{b}}{n}" for n in range(100)] + [f"}}{{{n}" for n in range(100)]
    )
    names += ["{}", "{", "}", "{}{}", "{a}", "a", "}{", "{{a}}"]
    with Counters.from_url(any_cluster.url) as counters:
        for n, name in enumerate(names):
            counters.incr(name, n + 1)
        counters.flush()
        with Counters.from_url(any_cluster.url) as reader:
            assert reader.get_many(names, max_age=0) == {name: n + 1 for n, name in enumerate(names)}
        shares = Counter({port: sum(b":c:" in key for key in keys) for port, keys in keys_at(any_cluster).items()})
    assert sum(shares.values()) == len(names)
    assert min(shares.values()) >= len(names) // 8, shares


@pytest.mark.parametrize("face", FACES)
def test_a_page_is_one_round_trip_per_primary(any_cluster: Cluster, face: str) -> None:
    """One command per bucket, whatever the number of names."""
    names = [f"page:{n}" for n in range(200)]

    async def main() -> None:
        async with on(face, any_cluster) as counters:
            for name in names:
                counters.incr(name)
            await counters.flush()
            await counters.get_many(names, max_age=0)  # the script is known, connections are there
            any_cluster.reset_stats()
            assert await counters.get_many(names, max_age=0) == dict.fromkeys(names, 1)
            asked = any_cluster.commandstats()
            calls = sum(stats.get("evalsha", 0) + stats.get("hgetall", 0) for stats in asked.values())
            inside = sum(stats.get("hgetall", 0) for stats in asked.values())
            assert inside == 200
            assert calls - inside <= 64

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_who_cannot_reach_the_cluster_yet(face: str) -> None:
    """Counting needs no cluster; what was counted waits."""

    async def main() -> None:
        counters = Either.url(face, f"redis+cluster://127.0.0.1:{NOWHERE}")
        counters.incr("a")
        await until_async(lambda: counters.stats().failures, "it was tried to flush")
        with pytest.raises(Unavailable, match="not reachable") as raised:
            await counters.flush(0.2)
        assert raised.value.pending == {"a": 1}
        with pytest.raises(Unavailable, match="not reachable"):
            await counters.close(0.2)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_durability(private_cluster: Cluster, face: str) -> None:
    """Every primary that was written to is asked whether its followers have it."""

    async def main() -> None:
        patient, quick = (Durability(replicas=1, timeout=seconds) for seconds in (4.5, 0.05))
        async with on(face, private_cluster, durability=patient) as counters:
            private_cluster.reset_stats()
            for n in range(100):
                counters.incr(f"n{n}")
            await counters.flush()
            waits = {node.port: stats.get("wait", 0) for node, stats in private_cluster.commandstats().items()}
            assert all(waits[node.port] for node in private_cluster.primaries()), waits
        for follower in private_cluster.followers_of(private_cluster.primaries()[1]):
            follower.kill()
        async with on(face, private_cluster, durability=quick) as counters:
            for n in range(100):
                counters.incr(f"n{n}")
            await until_async(lambda: counters.stats().failures, "it was tried to flush")
            with pytest.raises(Unavailable, match="applied on the primary"):
                await counters.flush(0.2)
            with pytest.raises(Unconfirmed, match="applied on the primary"):
                await counters.close(0.5)

    asyncio.run(main())


@forks
def test_in_the_child_of_a_fork(any_cluster: Cluster) -> None:
    """Parent and child count on, each for itself."""
    counters = Counters.from_url(any_cluster.url, flush_interval=0.01)
    counters.incr("a")
    counters.flush()
    counters.incr("a", 10)

    def work() -> None:
        counters.incr("a", 100)
        counters.flush(PATIENCE)
        counters.close()

    child = forked(work, limit=90)
    counters.incr("a", 1_000)
    ended_well(child)
    counters.close()
    with Counters.from_url(any_cluster.url) as reader:
        assert reader.get("a", max_age=0) == 1_111


def cli(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    variables = environment(None, REDIS_COUNTERS_URL=cluster.url)
    return subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT, env=variables)


def test_the_command_line(any_cluster: Cluster) -> None:
    counted = cli(any_cluster, "count", stdin=b"".join(b"word%d\n" % (n % 50) for n in range(500)))
    assert counted.returncode == 0, counted.stderr
    assert cli(any_cluster, "incr", "word1", "5").returncode == 0
    assert json.loads(cli(any_cluster, "get", "--json", "word1", "word2").stdout) == {"word1": 15, "word2": 10}
    assert cli(any_cluster, "inspect", "word1").returncode == 0
    assert cli(any_cluster, "actors", "--json").returncode == 0
    doctor = cli(any_cluster, "doctor", "--json")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    checks = json.loads(doctor.stdout)["checks"]
    assert any("cluster" in json.dumps(check) for check in checks)


def test_the_janitor_walks_over_every_primary(any_cluster: Cluster) -> None:
    """Processes that ended without closing: their slots are folded, on every server."""
    script = (
        "import os, sys; from redis_counters import Counters\n"
        "c = Counters.from_url(sys.argv[1]); [c.incr(f'n{n}') for n in range(200)]; c.flush(); os._exit(0)"
    )
    for _ in range(2):
        subprocess.run(
            [*COMMAND[:1], "-c", script, any_cluster.url], check=True, timeout=TIMEOUT, env=environment(None)
        )
    names = [f"n{n}" for n in range(200)]
    with Counters.from_url(any_cluster.url) as reader:
        for left in (2, 2, 0):  # they are closed first, and folded when nobody can be about to open them again
            assert {len(reader.inspect(name).actors) for name in names} == {left}
            age(any_cluster.client(), KEYS)
            told = cli(any_cluster, "fold", "--json")
            assert told.returncode == 0, told.stdout + told.stderr
        assert reader.get_many(names, max_age=0) == dict.fromkeys(names, 2)
