"""A server that is not there takes nothing from what lies on the others: keyed calls, reads, connections."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.cluster import ClusterNode as AsyncioNode

from redis_counters import Counters, Unavailable
from redis_counters.drivers.breaker import FAILURES
from redis_counters.drivers.redis_py import compat
from redis_counters.protocol.keyed.calls import Call, Once
from redis_counters.protocol.wire.keys import KeySpace
from tests.cluster.support import KEYS, at, connections, keyed_of, lose_one, no_more_connections
from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.topologies.clusters import Cluster
from tests.waiting import until_async

NAMES = [f"n{n}" for n in range(60)]


@pytest.mark.parametrize("first", [True, False], ids=["first use", "used before"])
@pytest.mark.parametrize("face", FACES)
def test_keyed_calls_that_share_a_batch(private_cluster: Cluster, face: str, first: bool) -> None:
    """Those whose server is there are done, with the right answer; the others are told that theirs is not."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url) as counters:
            api: Any = counters.counters
            await done(api.incr_once("warm", "0"))
            for name in () if first else NAMES:
                await done(api.incr_once(name, "0"))
            gone, here = lose_one(private_cluster, NAMES)
            calls: list[Call] = [Once(name, "1", 1, 60) for name in NAMES]
            await done(keyed_of(counters).do(calls))
            for call in calls:
                if call.name.decode() in gone:
                    assert isinstance(call.error, Unavailable)
                else:
                    assert call.done() is True
            assert await counters.get_many(here, max_age=0) == dict.fromkeys(here, 1 if first else 2)
            assert gone

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_keyed_calls_without_the_record_of_the_namespace(private_cluster: Cluster, face: str) -> None:
    """Those whose buckets are known are done; whether a new bucket is new, or was lost, the record would have told."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url) as counters:
            for name in NAMES[:20]:
                await done(counters.counters.incr_once(name, "0"))
            _gone, here = lose_one(private_cluster, NAMES, record=True)
            known = {KEYS.bucket(name.encode(), 0) for name in NAMES[:20]}
            calls: list[Call] = [Once(name, "1", 1, 60) for name in NAMES]
            await done(keyed_of(counters).do(calls))
            for call in calls:
                if call.name.decode() in here and KEYS.bucket(call.name, 0) in known:
                    assert call.done() is True
                else:
                    assert isinstance(call.error, Unavailable)
                    assert "not reachable" in str(call.error)
            assert any(call.error for call in calls if call.name.decode() in here)

            async with Either.url(face, private_cluster.url) as new:
                with pytest.raises(Unavailable, match="not reachable"):
                    await done(new.counters.incr_once(here[0], "1"))

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_reads_of_what_is_gone_do_not_keep_others_from_reading(private_cluster: Cluster, face: str) -> None:
    """Many reads in a row fail; Redis is not taken for unreachable by that."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            gone, here = lose_one(private_cluster, NAMES)
            for name in (gone * FAILURES)[: FAILURES + 1]:
                with pytest.raises(Unavailable):
                    await counters.get(name, max_age=0)
            assert await counters.get_many(here, max_age=0) == dict.fromkeys(here, 1)
            with pytest.raises(Unavailable):
                await counters.get_many(NAMES, max_age=0)

    asyncio.run(main())


# redis-py leaves the connection open that it has asked for the slots first.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("face", FACES)
def test_who_comes_when_the_first_primary_is_gone(private_cluster: Cluster, face: str) -> None:
    """redis-py asks that one for more than its slots; what lies on the others is flushed and read, all is closed."""
    for node in private_cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    primary = private_cluster.nodes[0]
    namespace = next(f"ns{n}" for n in range(100) if private_cluster.node_of(f"ns{n}:meta") is not primary)

    async def main() -> None:
        async with Either.url(face, private_cluster.url, namespace=namespace) as before:
            for name in NAMES:
                before.incr(name)
        for node in (*private_cluster.followers_of(primary), primary):
            node.kill()
        keys = KeySpace(namespace.encode(), 64)
        gone = at(private_cluster, primary, NAMES, keys)
        here = [name for name in NAMES if name not in gone]
        open_before = connections(private_cluster)
        counters = Either.url(face, private_cluster.url, namespace=namespace)
        assert await counters.get_many(here, max_age=0) == dict.fromkeys(here, 1)
        for name in here:
            counters.incr(name)
        await counters.flush(10)
        assert await counters.get_many(here, max_age=0) == dict.fromkeys(here, 2)
        await counters.close()
        await until_async(lambda: no_more_connections(private_cluster, open_before), "no connection is left")

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_one_connection_per_server(any_cluster: Cluster, face: str) -> None:
    """Flushing and reading take turns; no read fails, and nothing is lost."""

    async def main() -> None:
        client: Any
        if face == "blocking":
            client = any_cluster.client(max_connections=1)
        else:
            nodes = [AsyncioNode(*address) for address in any_cluster.addresses]
            client = redis.asyncio.RedisCluster(startup_nodes=nodes, max_connections=1)
        async with Either(face, client, flush_interval=0.001) as counters:
            for n in range(300):
                for name in NAMES:
                    counters.incr(name)
                found = await counters.get_many(NAMES, max_age=0)
                assert all(value <= n + 1 for value in found.values())
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 300)
        await done(client.aclose() if face == "asyncio" else client.close())

    asyncio.run(main())


@pytest.mark.parametrize("known", [True, False], ids=["again", "for the first time"])
def test_a_signal_handler_that_reads_while_slots_are_looked_up(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """It would wait for its own thread for ever: for the slots, or for what that thread reads just now."""
    with Counters.from_url(any_cluster.url) as writer:
        writer.incr("a", 7)
        writer.incr("other", 8)
    counters = Counters.from_url(any_cluster.url)
    transport: Any = counters._runner.transport
    seen: list[int] = []
    asked: list[bool] = []

    def handler(*_: object) -> None:
        seen.extend((counters.get("other", max_age=0), counters.get("a", max_age=0)))

    def interrupted(work: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if not asked:
                asked.append(True)
                signal.raise_signal(signal.SIGUSR1)
            return work(*arguments)

        return call

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        if known:
            counters.get("b", max_age=0)
            monkeypatch.setattr(compat, "ask_for_slots", interrupted(compat.ask_for_slots))
            transport.stale = True
        else:
            monkeypatch.setattr(transport, "_open", interrupted(transport._open))
        assert counters.get("a", max_age=0) == 7
        assert seen == [8, 7]
    finally:
        signal.signal(signal.SIGUSR1, before)
    counters.close()
