"""A fail-over under a client that counts: it finds the new primary by itself, and tells it what that one lacks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.sentinel

from redis_counters import Event, EventKind, Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, closed, once, truth
from tests.servers import Kind, RealServer
from tests.topologies import WATCHED, Pair, Sentinels, replication
from tests.waiting import until

POOLS = ("ConnectionPool", "BlockingConnectionPool")


@pytest.fixture
def pair(kind: Kind) -> Iterator[Pair]:
    pair = Pair(kind)
    yield pair
    pair.stop()


def client_at(face: str, url: str, pool: str = "ConnectionPool", **options: Any) -> Any:
    module: Any = redis if face == "blocking" else redis.asyncio
    made = getattr(module, pool).from_url(url, socket_timeout=5, retry=once(face))
    return module.Redis(connection_pool=made, **options)


async def several_connections(counters: Either) -> None:
    """The client's pool holds more than one connection."""
    await asyncio.gather(*(counters.background("get_many", [f"n{i}"]) for i in range(4)))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("face", FACES)
def test_connections_to_a_demoted_primary_are_given_up(pair: Pair, face: str, pool: str) -> None:
    """The address leads to the new primary, the connections that exist to the old one, which answers READONLY."""
    events: list[Event] = []
    with LossyLink(pair.primary.url) as link:

        async def main() -> None:
            client = client_at(face, link.url, pool)
            async with Either(face, client, flush_interval=0.01, observer=events.append) as counters:
                for i in range(20):
                    counters.incr(f"n{i}", 5)
                await counters.flush()
                await several_connections(counters)
                pair.caught_up()
                pair.pause_replication()
                for i in range(20):
                    counters.incr(f"n{i}", 10)  # the new primary lacks this
                await counters.flush()
                pair.promote()
                pair.follow()
                link.lead_to(pair.primary.url, keep=True)
                counters.incr("n0", 100)
                await counters.flush(10)
                assert await counters.get("n0", max_age=0) == 115
                assert await counters.get("n19", max_age=0) == 15
            await closed(client)

        asyncio.run(main())
    assert truth(pair.primary, [f"n{i}" for i in range(20)]) == {b"n0": 115, **{b"n%d" % i: 15 for i in range(1, 20)}}
    kinds = {event.kind for event in events}
    assert kinds >= {EventKind.FLUSH_FAILED, EventKind.FLUSH_RECOVERED, EventKind.REGRESSED, EventKind.HEALED}
    assert "READONLY" in next(event.message for event in events if event.kind is EventKind.FLUSH_FAILED)


@pytest.mark.parametrize("face", FACES)
def test_a_follower_that_lost_its_primary_is_given_up(pair: Pair, face: str) -> None:
    """It answers MASTERDOWN, to reads too; the address leads to another server by now."""
    with LossyLink(pair.primary.url) as link:

        async def main() -> None:
            client = client_at(face, link.url)
            async with Either(face, client, flush_interval=0.01) as counters:
                counters.incr("x", 5)
                await counters.flush()
                await several_connections(counters)
                pair.caught_up()
                pair.promote()
                pair.follower.client().config_set("replica-serve-stale-data", "no")
                pair.pause_replication()
                with pytest.raises(Unavailable, match=r"MASTERDOWN|not reachable"):
                    await counters.get("x", max_age=0)
                counters.incr("x", 10)
                with pytest.raises(Unavailable):
                    await counters.flush(0.1)
                link.lead_to(pair.primary.url, keep=True)
                await counters.flush(10)
                assert await counters.get("x", max_age=0) == 15
            await closed(client)

        asyncio.run(main())
    assert truth(pair.primary, ["x"]) == {b"x": 15}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("face", FACES)
def test_reads_of_a_demoted_primary_that_answers_nothing_find_the_new_one(pair: Pair, face: str, single: bool) -> None:
    """A process that only reads: MASTERDOWN once, and then the values of the new primary."""
    with LossyLink(pair.primary.url) as link:

        async def main() -> None:
            client = client_at(face, link.url, single_connection_client=single)
            async with Either.on(face, pair.primary) as writer:
                writer.incr("x", 5)
            async with Either(face, client) as counters:
                assert await counters.get("x", max_age=0) == 5
                await several_connections(counters)
                pair.caught_up()
                pair.promote()
                pair.follower.client().config_set("replica-serve-stale-data", "no")
                pair.pause_replication()
                link.lead_to(pair.primary.url, keep=True)
                with suppress(Unavailable):
                    await counters.get("x", max_age=0)
                assert await counters.get("x", max_age=0) == 5
            await closed(client)

        asyncio.run(main())


@pytest.mark.slow("a server that loads slowly")
@pytest.mark.parametrize("face", FACES)
def test_a_server_that_still_loads_is_waited_for(kind: Kind, face: str) -> None:
    """LOADING after a restart: a flush that is asked for meanwhile is told so, and arrives once."""
    slowly = ("--key-load-delay", "1000", "--rdbcompression", "no")  # it answers after each 2 MB that it has loaded
    server = RealServer.start(kind, "--appendonly", "yes", *slowly)
    try:

        async def main() -> None:
            async with Either.on(face, server, flush_interval=0.01) as counters:
                server.client().eval("for i = 1, 1000 do redis.call('SET', i, string.rep('x', 20000)) end", 0)
                counters.incr("x", 5)
                await counters.flush()
                server.client().bgrewriteaof()  # an AOF that begins with keys, whose loading can be slowed down
                until(lambda: not persistence(server)["aof_rewrite_in_progress"], "the AOF is rewritten")
                until(lambda: not persistence(server)["aof_rewrite_scheduled"], "the AOF is rewritten")
                server.kill()
                back = threading.Thread(target=server.restart)
                back.start()
                counters.incr("x", 10)
                told: set[str] = set()
                while back.is_alive() or not told:
                    try:
                        await counters.flush(0.2)
                        told.add("")
                    except Unavailable as error:
                        told.add("loading" if "loading" in str(error).lower() else "away")
                back.join()
                await counters.flush(10)
                assert "loading" in told
                assert await counters.get("x", max_age=0) == 15

        asyncio.run(main())
        assert truth(server, ["x"]) == {b"x": 15}
    finally:
        server.stop()


def persistence(server: RealServer) -> dict[str, Any]:
    found: dict[str, Any] = server.client().info("persistence")
    return found


@pytest.mark.slow("Sentinels")
@pytest.mark.parametrize("how", ["asked to", "killed"])
@pytest.mark.parametrize("face", FACES)
def test_a_client_of_sentinels(any_kind: Kind, face: str, how: str) -> None:
    """master_for(...) handed in: counting goes on through a fail-over, the new primary is told what it lacks."""
    pair = Pair(any_kind)
    sentinels = Sentinels(pair)
    try:

        async def main() -> None:
            module: Any = redis if face == "blocking" else redis.asyncio
            finder = module.sentinel.Sentinel(sentinels.addresses, socket_timeout=5)
            client = finder.master_for(WATCHED)
            async with Either(face, client, flush_interval=0.01) as counters:
                for i in range(20):
                    counters.incr(f"n{i}", 5)
                await counters.flush()
                await several_connections(counters)
                pair.caught_up()
                pair.pause_replication()
                for i in range(20):
                    counters.incr(f"n{i}", 10)
                await counters.flush()
                pair.follow() if how == "asked to" else pair.primary.kill()
                if how == "asked to":
                    sentinels.fail_over()
                    counters.incr("n0", 100)
                    await counters.flush(10)  # at the old one still, perhaps
                    await asyncio.to_thread(sentinels.demoted)
                else:
                    await asyncio.to_thread(sentinels.wait)
                counters.incr("n0", 1000)
                await counters.flush(20)
                value = 1115 if how == "asked to" else 1015
                assert await counters.get("n0", max_age=0) == value
                assert await counters.get("n19", max_age=0) == 15
                assert replication(pair.primary)["role"] == "master"
            await closed(client)
            for sentinel in finder.sentinels:
                await closed(sentinel)

        asyncio.run(main())
        assert truth(pair.primary, ["n0", "n19"]) == {b"n0": 1115 if how == "asked to" else 1015, b"n19": 15}
    finally:
        sentinels.stop()
        pair.stop()
