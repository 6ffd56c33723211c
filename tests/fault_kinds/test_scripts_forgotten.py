"""Redis may forget its scripts at any time: counts stay exact, and only what did not run is sent again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from redis_counters.protocol.flush.round import MAX_IN_FLIGHT
from tests.faces.either import FACES, Either, client_of, closed, commandstats, once, reset_stats, truth
from tests.servers import Kind, RealServer


@pytest.mark.parametrize("face", FACES)
def test_a_forgotten_script_is_sent_again_alone(server: RealServer, face: str) -> None:
    """After SCRIPT FLUSH each flush, and each page read, succeeds; exactly what failed with NOSCRIPT is repeated."""
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60, buckets=8, max_batch=5) as counters:
            names = [f"n{i}" for i in range(100)]
            for name in names:
                counters.incr(name)
            await counters.flush()
            for round_ in range(2, 6):
                client.script_flush()
                reset_stats(server)
                before = counters.stats().flushes
                for name in names:
                    counters.incr(name)
                await counters.flush()
                sent = commandstats(server)
                flushes = counters.stats().flushes - before
                assert flushes >= 100 / 5
                failed = sent["evalsha"] + sent["eval"] - flushes
                assert sent["eval"] == failed  # each failure was repeated once, as text
                assert 1 <= failed <= MAX_IN_FLIGHT  # those on their way when the script was gone, and no more
                client.script_flush()
                reset_stats(server)
                page: Any = await counters.get_many(names, max_age=0)
                assert set(page.values()) == {round_}
                sent = commandstats(server)
                if face == "blocking":  # reads the hashes one by one, off redis-py's socket
                    assert sent["hgetall"] == len(names)
                    assert "eval" not in sent
                else:
                    assert (sent["evalsha"], sent["eval"]) == (1, 1)

    asyncio.run(main())
    assert set(truth(server, [f"n{i}" for i in range(100)]).values()) == {5}


@pytest.mark.parametrize("face", FACES)
def test_scripts_forgotten_all_the_time(any_server: RealServer, face: str) -> None:
    """SCRIPT FLUSH over and over while counting, reading, rotating and closing: no error, exact counts."""
    client: Any = any_server.client()
    over = threading.Event()

    def forget() -> None:
        while not over.is_set():
            client.script_flush()

    async def main() -> None:
        options: dict[str, Any] = {"flush_interval": 0.002, "max_batch": 3, "rotate_slots": 3, "reassert_window": 0.01}
        for _ in range(3):
            async with Either.on(face, any_server, **options) as counters:
                for i in range(400):
                    counters.incr(f"n{i % 20}")
                    if i % 20 == 0:
                        await counters.get_many(["n0", "n1"], max_age=0)
                        await asyncio.sleep(0.001)
                await counters.flush(20)

    thread = threading.Thread(target=forget)
    thread.start()
    try:
        asyncio.run(main())
    finally:
        over.set()
        thread.join(10)
    assert set(truth(any_server, [f"n{i}" for i in range(20)]).values()) == {60}


@pytest.mark.parametrize("face", FACES)
def test_a_server_that_starts_anew_knows_no_script(any_kind: Kind, face: str) -> None:
    """As one that is promoted, or comes into a cluster: the first call of a script is sent twice, nobody notices."""
    server = RealServer.start(any_kind, "--appendonly", "yes", "--appendfsync", "always")

    async def main() -> None:
        client = client_of(face, server, retry=once(face))
        async with Either(face, client, flush_interval=60, buckets=1) as counters:
            for n in range(1, 4):
                counters.incr("x")
                counters.incr("y")
                await counters.flush(20)
                server.restart()
                reset_stats(server)
                assert await counters.get_many(["x", "y"], max_age=0) == {"x": n, "y": n}
                sent = commandstats(server)
                assert sent["hgetall"] == 2 if face == "blocking" else sent["eval"] == 1
                counters.incr("x")
                counters.decr("x")
                await counters.flush(20)
        await closed(client)

    try:
        asyncio.run(main())
        assert truth(server, ["x", "y"]) == {b"x": 3, b"y": 3}
    finally:
        server.stop()


@pytest.mark.parametrize("face", FACES)
def test_scripts_pushed_out_by_others(server: RealServer, face: str) -> None:
    """Newer servers keep 500 texts that came by EVAL: others' scripts push ours out, and nobody notices."""
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60) as counters:
            for n in range(1, 4):
                counters.incr("x")
                counters.decr("y")
                await counters.flush()
                with client.pipeline(transaction=False) as pipe:
                    for i in range(600):
                        pipe.eval(f"return {n * 1000 + i}", 0)
                    pipe.execute()
                assert await counters.get_many(["x", "y"], max_age=0) == {"x": n, "y": -n}

    asyncio.run(main())
    assert truth(server, ["x", "y"]) == {b"x": 3, b"y": -3}
