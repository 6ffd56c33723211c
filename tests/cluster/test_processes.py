"""Processes on a cluster whose primaries fail: a command that counts lines, one that is killed, one that forks."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from redis_counters import Counters
from tests.cli.commands import COMMAND, environment
from tests.cluster.links import Links, through
from tests.cluster.support import NAMES, check
from tests.faces.either import FACES, Either
from tests.journal import processes
from tests.keyed.support import done
from tests.lifecycle.children import ended_well, forked, forks, with_each_lock_held
from tests.topologies.clusters import Cluster
from tests.topologies.nodes import Node
from tests.waiting import until


def lagging(cluster: Cluster, primary: Node) -> Node:
    """The primary's follower gets nothing from now on, until it is resumed; returns it."""
    (follower,) = cluster.followers_of(primary)
    follower.pause()
    primary.ask("CLIENT", "KILL", "TYPE", "replica")
    return follower


def test_lines_are_counted_while_a_primary_fails(private_cluster: Cluster) -> None:
    """`redis-counters count` of a pipe: lines that came before, during and after the fail-over are all counted."""
    variables = environment(None, REDIS_COUNTERS_URL=private_cluster.url)
    command = [*COMMAND, "count", "--timeout", "60"]
    lines = "".join(f"{name}\n" for name in NAMES).encode()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=variables) as process:
        assert process.stdin
        assert process.stderr

        def write(times: int) -> None:
            assert process.stdin
            process.stdin.write(lines * times)
            process.stdin.flush()

        def arrived(times: int) -> None:
            with Counters.from_url(private_cluster.url) as reader:
                until(lambda: set(reader.get_many(NAMES, max_age=0).values()) == {times}, f"{times} of each")

        write(10)
        arrived(10)
        primary = private_cluster.primaries()[0]
        follower = lagging(private_cluster, primary)
        write(20)
        arrived(30)
        primary.kill()
        write(40)
        follower.resume()
        private_cluster.wait_for_failover(primary)
        write(80)
        process.stdin.close()
        assert process.wait(60) == 0, process.stderr.read()
    check(private_cluster, dict.fromkeys(NAMES, 150))


COUNTING = processes.program("""
    names = arguments[0].split(",")
    counters = counters_of()
    for amount in (1, 2):
        for name in names:
            counters.incr(name, amount)
        await done(counters.flush())
        print("flushed", flush=True)
        sys.stdin.readline()
    for name in names:
        counters.incr(name, 4)
    await recorded(counters)
    killed()
""")


@pytest.mark.parametrize(("face", "mode"), [("blocking", "interval"), ("asyncio", "always")])
def test_killed_with_a_journal_while_a_primary_fails(
    private_cluster: Cluster, tmp_path: Path, face: str, mode: str
) -> None:
    """The primary had confirmed what its follower lacks; then it and the process are killed. The next process tells."""
    process = processes.start(COUNTING, private_cluster.url, tmp_path, face, mode, ",".join(NAMES))
    with process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "flushed\n"
        primary = private_cluster.primaries()[0]
        follower = lagging(private_cluster, primary)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "flushed\n"
        primary.kill()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == -9
    follower.resume()

    async def main() -> None:
        async with Either.url(face, private_cluster.url, journal=tmp_path, journal_mode=mode) as counters:
            await counters.flush(60)
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 7)

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []
    check(private_cluster, dict.fromkeys(NAMES, 7))


@forks
def test_any_lock_of_the_client_is_held_at_the_fork(any_cluster: Cluster) -> None:
    """Those of its connections to all servers are among them: no child waits for a thread that only the parent has."""
    client = any_cluster.client()
    with Counters(client) as counters:
        for name in NAMES:
            counters.incr(name)
        counters.flush()

        def work() -> None:
            for name in NAMES:
                counters.incr(name)
            counters.flush(10)
            counters.close()

        locks = with_each_lock_held(client, work)
        assert locks >= 4  # of each server's pool, and of the client itself
    check(any_cluster, dict.fromkeys(NAMES, 1 + locks))


@forks
@pytest.mark.parametrize("face", FACES)
def test_a_fork_while_commands_are_on_their_way_to_several_servers(
    any_cluster: Cluster, links: Links, face: str
) -> None:
    """Answers take their time, and the process forks meanwhile: parent and child count each for itself."""
    client = through(face, links)
    counters = Either(face, client, flush_interval=0.001)

    def count() -> None:
        for name in NAMES:
            counters.incr(name)

    async def child() -> None:
        count()
        await counters.flush(30)
        await counters.close(30)

    def run() -> None:
        asyncio._set_running_loop(None)  # the parent's: it does not run here
        asyncio.run(child())

    async def main() -> None:
        count()
        await counters.flush()
        for link in links.values():
            link.delay(0.02)
        for n in range(6):
            count()
            await asyncio.sleep(0.017 * n)
            pid = forked(run, 60)
            count()
            await asyncio.to_thread(ended_well, pid)
        await counters.close(30)
        await done(client.aclose() if face == "asyncio" else client.close())

    asyncio.run(main())
    check(any_cluster, dict.fromkeys(NAMES, 1 + 6 * 3))
