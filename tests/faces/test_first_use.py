"""A client learns the number of buckets from Redis at its first use; what is counted around that time counts too."""

from __future__ import annotations

import asyncio

import pytest
import redis
import redis.asyncio

from redis_counters import SchemaMismatch
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, closed, truth
from tests.servers import RealServer


@pytest.mark.parametrize("face", FACES)
def test_a_first_read_that_meets_the_first_flush(any_server: RealServer, face: str) -> None:
    """The read's answer comes while the flush waits for the same one: nothing counted meanwhile is lost."""

    async def main(link: LossyLink) -> None:
        module = redis if face == "blocking" else redis.asyncio
        client = module.Redis.from_url(link.url)
        try:
            async with Either(face, client, flush_interval=0.1) as warm:  # scripts and connections are at hand
                warm.incr("warm")
                await asyncio.gather(warm.background("get", "a"), warm.background("flush"))
                await asyncio.gather(warm.background("get", "b"), warm.background("get", "c"))
            link.delay(0.2)
            async with Either(face, client, flush_interval=0.1) as counters:
                read = asyncio.ensure_future(counters.background("get", "x"))
                await asyncio.sleep(0)
                counters.incr("x", 10)  # its flush begins in 0.1 s, half way to the read's answer
                for _ in range(40):
                    await asyncio.sleep(0.01)
                    counters.incr("x")
                assert await read in range(10, 51)
                link.heal()
                await counters.flush()
                assert await counters.get("x", max_age=0) == 50
        finally:
            link.heal()
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, ["x"]) == {b"x": 50}


@pytest.mark.parametrize("face", FACES)
def test_many_first_uses_at_once(any_server: RealServer, face: str) -> None:
    """Forty clients begin with a count, a read and a flush at the same time: all forty counts arrive."""

    async def main() -> None:
        for _ in range(8):
            everyone = [Either.on(face, any_server, flush_interval=0.001) for _ in range(5)]
            for counters in everyone:
                counters.incr("x")
            calls = [c.background(call) for c in everyone for call in ("flush", "stats")]
            await asyncio.gather(*calls, *(c.background("get", "x") for c in everyone))
            for counters in everyone:
                async with counters:
                    counters.incr("x")

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 80}


@pytest.mark.parametrize("face", FACES)
def test_the_number_of_buckets_is_what_the_first_client_said(any_server: RealServer, face: str) -> None:
    """Clients that ask for another number use the settled one, and count together."""

    async def main() -> None:
        for buckets in (3, 16, 1, 50):
            async with Either.on(face, any_server, buckets=buckets) as counters:
                for i in range(60):
                    counters.incr(f"n{i}")
                await counters.flush()
                assert {part.bucket for i in range(60) for part in (await counters.inspect(f"n{i}")).parts} == {0, 1, 2}

    asyncio.run(main())
    assert set(truth(any_server, [f"n{i}" for i in range(60)]).values()) == {4}
    assert any_server.client().hget("rc:meta", "buckets") == b"3"


@pytest.mark.parametrize("face", FACES)
def test_who_names_no_region_counts_in_any(any_server: RealServer, face: str) -> None:
    """And leaves it settled; who comes first names it, as "main" if nothing else."""

    async def main() -> None:
        client = any_server.client()
        async with Either.on(face, any_server, region="eu") as counters:
            counters.incr("x")
        async with Either.on(face, any_server) as counters:
            assert await counters.get("x") == 1
            counters.incr("x", 5)
            await counters.flush(10)
            assert await counters.get("x", max_age=0) == 6
        assert client.hget("rc:meta", "region") == b"eu"
        async with Either.on(face, any_server, namespace="other") as counters:
            counters.incr("x")
        assert client.hget("other:meta", "region") == b"main"

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_where_no_region_was_named_the_refusal_says_how_to_name_it(any_server: RealServer, face: str) -> None:
    """Who begins with regions where something was counted before needs an exchange first."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            counters.incr("x")
        async with Either.on(face, any_server, region="eu") as counters:
            with pytest.raises(SchemaMismatch, match=r"'main', not 'eu'.*redis-counters exchange --region eu=URL"):
                await counters.get("x")

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_namespace_of_another_region_or_schema_is_refused(any_server: RealServer, face: str) -> None:
    """SchemaMismatch from the flush and from reads; counts are kept, and arrive once the record is as it should be."""

    async def main() -> None:
        client = any_server.client()
        async with Either.on(face, any_server, region="eu") as counters:
            counters.incr("x")
        async with Either.on(face, any_server, region="us") as counters:
            counters.incr("x", 5)
            with pytest.raises(SchemaMismatch, match="eu"):
                await counters.flush(10)
            with pytest.raises(SchemaMismatch, match="eu"):
                await counters.get("x")
            client.hset("rc:meta", "schema", "999")
            with pytest.raises(SchemaMismatch, match="999"):
                await counters.flush(10)
            client.hset("rc:meta", mapping={"schema": "1", "region": "us"})
            await counters.flush(10)
            assert await counters.get("x") == 6

    asyncio.run(main())
