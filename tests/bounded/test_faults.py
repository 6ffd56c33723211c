"""Whatever is lost, cut off, repeated or killed: what was sold was sold once, and no call sells what is not there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from redis_counters import CounterError, KeyConflict, Unavailable
from redis_counters.testing import LossyLink
from tests.bounded.support import insisting, value
from tests.drivers.test_broken_peers import GARBAGE
from tests.faces.either import FACES, Either, client_of, closed, once
from tests.keyed.support import done
from tests.protocol.by_hand import run
from tests.servers import RealServer

ROOT = Path(__file__).parents[2]

AS_OURS = {  # to one call each of them is an answer: a time and 1, it is done; and there is no such key
    "EVALSHA": "OK, refused without words",
    "HGETALL": "an empty list",
}

both = pytest.mark.parametrize("face", FACES)


@pytest.mark.every(2, "seconds each")
@both
@pytest.mark.parametrize("fault", ["drop_reply", "cut_before"])
def test_every_command_is_lost_once(any_server: RealServer, face: str, fault: str) -> None:
    """The n-th command of a life is lost, for each n up to beyond its end; the caller repeats what fails."""
    for nth in range(1, 40):
        name = f"x{nth}"
        with LossyLink(any_server.url) as link:

            async def main(link: LossyLink = link, name: str = name) -> None:
                client = client_of(face, any_server, port=urlsplit(link.url).port, retry=once(face))
                async with Either(face, client, namespace=name) as either:
                    stock = either.counters.bounded("x", floor=0)
                    await insisting(stock.add, 10, "delivery")
                    assert await insisting(stock.try_spend, 4, "a") is True
                    assert await insisting(stock.try_spend, 7, "b") is False
                    assert await insisting(stock.try_spend, 6, "c") is True
                    assert await insisting(stock.try_spend, 1, "d") is False
                    assert await insisting(stock.give_back, "b") is False
                    await insisting(stock.give_back, "c")
                    assert await insisting(stock.give_back, "c") is False
                    assert await insisting(stock.available) == 6
                    assert await insisting(stock.value) == 6
                await closed(client)

            getattr(link, fault)(every=nth, times=1)
            asyncio.run(main())
            if not link.dropped + link.cut:
                break
    assert 10 < nth < 39


@both
@pytest.mark.parametrize("fault", ["drop_reply", "cut_before", "duplicate"])
def test_the_client_repeats_without_a_key(any_server: RealServer, face: str, fault: str) -> None:
    """Every second script is lost, or comes twice, and redis-py sends it again by itself: each is applied once."""
    with LossyLink(any_server.url) as link:

        async def main() -> None:
            client = client_of(face, any_server, port=urlsplit(link.url).port, retry=once(face))
            async with Either(face, client) as either:
                stock = either.counters.bounded("x", floor=0)
                await done(stock.add(50))
                getattr(link, fault)(every=2, commands={"EVALSHA", "EVAL"})
                for i in range(25):
                    assert await done(stock.try_spend(1)) is True
                    assert await done(stock.try_spend(1, key=f"{i}")) is True
                    assert await done(stock.give_back(f"{i}")) is True
                link.heal()
                assert await done(stock.value()) == 25
            await closed(client)

        asyncio.run(main())
        assert link.dropped + link.cut + link.duplicated > 20


@both
def test_a_spend_that_is_given_up_and_comes_late(any_server: RealServer, face: str) -> None:
    """Its copy is on a connection that is cut off: the caller gives back, and nothing is stranded whenever it comes."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(5))
            late: list[Any] = []
            runner = either.counters._runner.keyed_calls().runner
            ask = runner.ask

            def lost(steps: Any, *rest: Any) -> Any:
                late.extend(next(steps))
                raise Unavailable("lost")

            runner.ask = lost
            with pytest.raises(Unavailable):
                await done(stock.try_spend(3, key="k"))
            runner.ask = ask
            assert await done(stock.give_back("k")) is False
            (command,) = late
            run(client, command)
            assert await done(stock.value()) == 5
            with pytest.raises(KeyConflict):
                await done(stock.try_spend(3, key="k"))

    asyncio.run(main())


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize(
    ("command", "reply"),
    [
        pytest.param(command, GARBAGE[name], id=f"{command}-{name}")
        for command, ours in AS_OURS.items()
        for name in GARBAGE
        if name != ours
    ],
)
@both
def test_garbage_is_not_believed(any_server: RealServer, face: str, reply: bytes, command: str) -> None:
    """Nobody takes it for sold, or for refused; when the peer makes sense again, the same key has its answer."""
    with LossyLink(any_server.url) as link:

        async def main() -> None:
            async with Either.url(face, link.url, buckets=2) as either:
                stock = either.counters.bounded("x", floor=0)
                await insisting(stock.add, 5, "d")
                link.replace_reply(reply, commands={command}, every=1)
                call = stock.value if command == "HGETALL" else lambda: stock.try_spend(5, key="k")
                for _ in range(2):
                    with pytest.raises(CounterError):
                        await done(call())
                link.heal()
                assert await insisting(stock.try_spend, 5, "k") is True
                assert await insisting(stock.try_spend, 1, "l") is False
                assert await insisting(stock.value) == 0

        asyncio.run(main())


@both
@pytest.mark.parametrize("answer", [b"", b"2", b"-1", b"0 x", b"=", b"=*5 1", b"#0", b"maybe"])
def test_what_is_no_answer_to_an_item(any_server: RealServer, face: str, answer: bytes) -> None:
    """In a reply that is in form otherwise."""
    seconds, micros = any_server.client().time()
    now = b"%d" % (1000 * seconds + micros // 1000)
    reply = b"*3\r\n$2\r\nOK\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(now), now, len(answer), answer)
    with LossyLink(any_server.url) as link:

        async def main() -> None:
            async with Either.url(face, link.url) as either:
                stock = either.counters.bounded("x", floor=0)
                await done(stock.add(5))
                link.replace_reply(reply, commands={"EVALSHA"}, every=1)
                for call in (stock.try_spend, stock.spend, stock.add):
                    with pytest.raises(CounterError, match="'x'"):
                        await done(call(5, "k" if call != stock.add else "a"))
                with pytest.raises(CounterError, match="'x'"):
                    await done(stock.give_back("k"))

        asyncio.run(main())


@both
def test_a_fail_over_takes_back_sale_and_record_together(any_server: RealServer, face: str) -> None:
    """What was written after some moment is gone: the same key, or another, sells it once more; never below 0."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(10, "d"))
            for i in range(4):
                assert await done(stock.try_spend(2, f"{i}")) is True
            kept = {key: (client.dump(key), max(client.pttl(key), 0)) for key in client.scan_iter(count=1000)}
            assert await done(stock.try_spend(2, "lost")) is True
            assert await done(stock.try_spend(1, "none")) is False
            client.flushall()
            for key, (dumped, left) in kept.items():
                client.restore(key, left, dumped)
            assert [await done(stock.try_spend(2, f"{i}")) for i in range(4)] == [True] * 4
            assert await done(stock.try_spend(1, "another")) is True
            assert await done(stock.try_spend(2, "lost")) is False
            assert await done(stock.value()) == 1

    asyncio.run(main())


CHILD = """
import sys
from contextlib import suppress
from redis_counters import Counters, KeyConflict
counters = Counters.from_url(sys.argv[1])
stock = counters.bounded("x", floor=0)
stock.add(100, key="delivery")
for i in range(60):
    with suppress(KeyConflict):  # it was given back, by the one before
        assert stock.try_spend(1 + i % 3, key=str(i))
    if i % 4 == 0:
        stock.give_back(str(i))
    print(i, flush=True)
"""


@pytest.mark.slow("a dozen processes")
def test_killed_at_any_moment(any_server: RealServer) -> None:
    """Each process is killed a little further on, and the next does it all again, as one that never stopped."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-c", CHILD, any_server.url]
    for turn in range(5):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert child.stdout is not None
        for _ in range(10 * turn + 5):
            assert child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert value(any_server, "x") >= 0
    last = subprocess.run(command, stdout=subprocess.DEVNULL, env=environment)
    assert last.returncode == 0
    assert value(any_server, "x") == 100 - 90
