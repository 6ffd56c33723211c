"""The link loses exactly what it is told to lose, and nothing else."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_counters.drivers.embedded import EmbeddedServer
from redis_counters.errors import UsageError
from redis_counters.testing import LossyLink
from redis_counters.testing.frames import Frames
from tests.servers import RealServer

INCRBY = "INCRBY"  # what redis-py sends for incr()


@pytest.fixture
def direct(any_server: RealServer) -> redis.Redis:
    """A client that goes round the link."""
    return any_server.client(db=3)


@pytest.fixture
def link(any_server: RealServer) -> Iterator[LossyLink]:
    with LossyLink(f"redis://{any_server.host}:{any_server.port}/3") as link:
        yield link


def through(link: LossyLink, *, retries: int = 3, protocol: int = 3) -> redis.Redis:
    """A client of the link that repeats at once what failed, at most ``retries`` times."""
    again = Retry(NoBackoff(), retries)
    return redis.Redis.from_url(link.url, retry=again, retry_on_error=[redis.ConnectionError], protocol=protocol)


@pytest.mark.parametrize("protocol", [2, 3])
def test_without_a_fault_nothing_changes(server: RealServer, protocol: int) -> None:
    """Every type of reply, large values, pipelines and scripts pass; every command is forwarded once."""
    with LossyLink(server.url) as link, through(link, protocol=protocol) as client:
        big = bytes(range(256)) * 4000
        assert client.set("big", big)
        assert client.get("big") == big
        assert client.get("none") is None
        assert [client.incr("n") for _ in range(100)] == list(range(1, 101))
        with client.pipeline(transaction=False) as pipe:
            for _ in range(5000):
                pipe.incr("p")
            assert pipe.execute() == list(range(1, 5001))
        with client.pipeline() as pipe:
            assert pipe.hset("h", mapping={"a": "1", "b": "\r\n$5\r\n"}).hgetall("h").execute()[1] == {
                b"a": b"1",
                b"b": b"\r\n$5\r\n",
            }
        assert client.eval("return {1, {false, 'x'}, {}, redis.status_reply('fine')}", 0) == [
            1,
            [None, b"x"],
            [],
            b"fine",
        ]
        assert client.eval("redis.setresp(3); return redis.call('HGETALL', 'h')", 0)
        assert client.zadd("z", {"a": 1.5})
        assert client.zscore("z", "a") == 1.5
        with pytest.raises(redis.ResponseError, match="not an integer"):
            client.incr("big")
    assert server.client().get("n") == b"100"
    assert link.commands[INCRBY] == 100 + 5000 + 1
    assert (link.dropped, link.cut) == (0, 0)


def test_the_way_to_the_server_may_be_a_unix_socket() -> None:
    with EmbeddedServer.start() as server, LossyLink(f"{server.url}?db=2") as link, through(link) as client:
        assert client.incr("n") == 1
        with redis.Redis.from_url(server.url, db=2) as direct:
            assert direct.get("n") == b"1"


def test_asyncio_clients_pass_too(link: LossyLink, direct: redis.Redis) -> None:
    """Twenty tasks over one asyncio client: every reply reaches its caller."""

    async def main() -> list[int]:
        async with redis.asyncio.Redis.from_url(link.url) as client:
            replies: list[int] = await asyncio.gather(*(client.incr("n") for _ in range(20)))
        return replies

    assert sorted(asyncio.run(main())) == list(range(1, 21))
    assert direct.get("n") == b"20"


def test_plain_incr_counts_too_much(link: LossyLink, direct: redis.Redis) -> None:
    """With redis-py's retries, each lost reply is one increment too many, silently."""
    link.drop_reply(every=10, commands={INCRBY})
    with through(link) as client:
        for _ in range(1000):
            client.incr("n")
    applied = int(direct.get("n") or 0)
    assert link.dropped == link.commands[INCRBY] // 10
    assert applied == link.commands[INCRBY] == 1000 + link.dropped
    assert link.dropped > 100


@pytest.mark.skipif(int(redis.__version__.split(".")[0]) < 6, reason="redis-py retries by default since 6.0")
def test_redis_py_defaults_return_a_wrong_count(link: LossyLink, direct: redis.Redis) -> None:
    """One lost reply on a default client: the first INCR answers 2, and so it is in Redis."""
    link.drop_reply(every=1, commands={"incrby"}, times=1)
    address = urlsplit(link.url)  # from_url() would not retry
    with redis.Redis(address.hostname or "", address.port or 0, int(address.path[1:])) as client:
        assert client.incr("n") == 2
        assert client.incr("n") == 3
    assert direct.get("n") == b"3"
    assert link.dropped == 1


def test_a_client_that_does_not_retry_sees_the_error_of_an_applied_command(
    link: LossyLink, direct: redis.Redis
) -> None:
    link.drop_reply(every=2, commands={INCRBY})
    with through(link, retries=0) as client:
        assert client.incr("n") == 1
        with pytest.raises(redis.ConnectionError):
            client.incr("n")
        assert client.incr("n") == 3
    assert direct.get("n") == b"3"


def test_a_cut_command_is_not_applied(link: LossyLink, direct: redis.Redis) -> None:
    """With retries a cut changes nothing in the result; without, the command is missing."""
    link.cut_before(every=5, commands={INCRBY})
    with through(link) as client:
        for _ in range(100):
            client.incr("n")
    assert direct.get("n") == b"100"
    assert link.commands[INCRBY] == 100
    assert link.cut == 24  # every fifth of the 124 that arrived
    with through(link, retries=0) as client, pytest.raises(redis.ConnectionError):
        client.incr("n")
    assert direct.get("n") == b"100"


def test_what_was_forwarded_is_applied_even_after_the_connection_is_gone(link: LossyLink, direct: redis.Redis) -> None:
    """A pipeline that loses one reply in its middle: the link's count of increments is the server's."""
    link.drop_reply(every=700, commands={INCRBY}, times=1)
    with through(link, retries=0) as client, client.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.incr("n")
        with pytest.raises(redis.ConnectionError):
            pipe.execute()
    deadline = time.monotonic() + 10
    while int(direct.get("n") or 0) != link.commands[INCRBY] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 700 <= int(direct.get("n") or 0) == link.commands[INCRBY] <= 1000
    assert link.dropped == 1


def test_the_same_seed_loses_the_same_replies(any_server: RealServer) -> None:
    def lost(seed: int) -> list[int]:
        with LossyLink(any_server.url) as link, through(link, retries=0) as client:
            link.drop_reply(probability=0.2, seed=seed, commands={"PING"})

            def fails() -> bool:
                try:
                    return not client.ping()
                except redis.ConnectionError:
                    return True

            return [number for number in range(100) if fails()]

    assert lost(1) == lost(1) != lost(2)
    assert 5 < len(lost(1)) < 40


def test_other_commands_are_spared(link: LossyLink) -> None:
    link.drop_reply(every=1, commands={INCRBY})
    with through(link, retries=0) as client:
        assert all(client.ping() for _ in range(20))
    assert link.dropped == 0


def test_healed_links_lose_nothing(link: LossyLink) -> None:
    link.drop_reply(every=1)
    link.delay(0.05)
    link.heal()
    with through(link, retries=0) as client:
        assert client.incr("n") == 1
    assert link.dropped == 0


def test_replies_can_be_late(link: LossyLink) -> None:
    with through(link) as client:
        client.ping()
        link.delay(0.1)
        begin = time.monotonic()
        client.ping()
        assert time.monotonic() - begin >= 0.1


def test_single_replies_can_be_late(link: LossyLink) -> None:
    """Only those of the commands named, as often as told; nothing is lost by it."""
    link.delay(0.1, every=3, commands={INCRBY}, times=2)
    with through(link) as client:
        begin = time.monotonic()
        assert [client.incr("n") for _ in range(20)] == list(range(1, 21))
        assert time.monotonic() - begin >= 0.2
        assert link.delayed == 2
        link.delay(0.1, commands={"PING"})
        client.ping()
        assert link.delayed == 3


def test_a_reply_that_comes_too_late_makes_redis_py_count_twice(link: LossyLink, direct: redis.Redis) -> None:
    """Applied, and sent again when the client's time is over."""
    link.delay(0.3, every=5, commands={INCRBY}, times=1)
    again = Retry(NoBackoff(), 3)
    with redis.Redis.from_url(link.url, socket_timeout=0.1, retry=again) as client:
        for _ in range(10):
            client.incr("n")
    assert direct.get("n") == b"11"


@pytest.mark.parametrize("protocol", [2, 3])
def test_commands_can_arrive_twice(link: LossyLink, direct: redis.Redis, protocol: int) -> None:
    """Applied twice, answered once: each answer still belongs to its command."""
    link.duplicate(every=10, commands={INCRBY})
    with through(link, protocol=protocol) as client:
        for _ in range(50):
            client.incr("n")
            assert client.ping()
        with client.pipeline(transaction=False) as pipe:
            for _ in range(50):
                pipe.incr("n").ping()
            assert pipe.execute()[1::2] == [True] * 50
    assert link.duplicated == 10
    assert direct.get("n") == b"110" == b"%d" % link.commands[INCRBY]


def test_replies_can_be_replaced(link: LossyLink, direct: redis.Redis) -> None:
    """The command is applied, whatever the client is told of it."""
    link.replace_reply(b"-ERR proxy timeout\r\n", every=2, commands={INCRBY})
    with through(link, retries=0) as client, client.pipeline(transaction=False) as pipe:
        for _ in range(4):
            pipe.incr("n")
        told = pipe.execute(raise_on_error=False)
    assert [str(answer) for answer in told] == ["1", "proxy timeout", "3", "proxy timeout"]
    assert direct.get("n") == b"4"
    assert link.replaced == 2


def test_a_cut_in_the_middle_of_a_batch(link: LossyLink, direct: redis.Redis) -> None:
    """What stands before the cut is applied, what stands behind it is not."""
    link.cut_before(every=30, commands={INCRBY}, times=1)
    with through(link, retries=0) as client, client.pipeline(transaction=False) as pipe:
        for _ in range(50):
            pipe.incr("n")
        with pytest.raises(redis.ConnectionError):
            pipe.execute()
    deadline = time.monotonic() + 10
    while direct.get("n") != b"29" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert direct.get("n") == b"29"


@pytest.mark.parametrize("keep", [False, True])
def test_the_link_can_lead_to_another_server(
    link: LossyLink, direct: redis.Redis, private_server: RealServer, keep: bool
) -> None:
    """New connections do; those that exist are closed, or stay with the server that they have."""
    with through(link, retries=0) as client, through(link, retries=0) as late:
        assert client.incr("n") == 1
        url = link.url
        link.lead_to(f"{private_server.url[:-1]}3", keep=keep)
        assert link.url == url
        assert late.incr("n") == 1
        assert client.incr("n") == 2
    assert direct.get("n") == (b"2" if keep else b"1")


def test_a_stopped_link_refuses_and_a_started_one_serves_at_the_same_address(link: LossyLink) -> None:
    url = link.url
    with through(link, retries=0) as client:
        assert client.incr("n") == 1
        link.stop()
        link.stop()
        with pytest.raises(redis.ConnectionError):
            client.incr("n")
        link.start()
        assert link.url == url
        assert client.incr("n") == 2


def test_threads_may_stop_and_start_the_link_at_the_same_time(link: LossyLink) -> None:
    url = link.url

    def restart() -> None:
        for _ in range(20):
            link.stop()
            link.start()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(restart) for _ in range(4)]:
            done.result(timeout=30)
    assert link.url == url
    with through(link, retries=0) as client:
        assert client.incr("n") == 1


def test_a_link_to_nowhere_closes_its_clients() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"redis://127.0.0.1:{free.getsockname()[1]}"
        with LossyLink(nowhere) as link, through(link, retries=0) as client, pytest.raises(redis.ConnectionError):
            client.ping()


def test_credentials_are_passed_on_and_not_shown() -> None:
    with LossyLink("redis://me:secret@127.0.0.1:1/2") as link:
        assert link.url.startswith("redis://me:secret@127.0.0.1:")
        assert link.url.endswith("/2")
        assert "secret" not in repr(link)


@pytest.mark.parametrize("fault", [{}, {"every": 2, "probability": 0.5}, {"every": 0}, {"probability": 1.5}])
def test_a_fault_that_says_nothing_clear_is_refused(link: LossyLink, fault: dict[str, float]) -> None:
    for method in (link.drop_reply, link.cut_before, link.duplicate):
        with pytest.raises(UsageError):
            method(**fault)  # type: ignore[arg-type] # wrong on purpose


def test_other_schemes_are_refused(link: LossyLink) -> None:
    with pytest.raises(UsageError, match="rediss://"):
        LossyLink("rediss://localhost")
    with pytest.raises(UsageError, match="rediss://"):
        link.lead_to("rediss://localhost")


FRAMES = [
    b"*2\r\n$4\r\nINCR\r\n$3\r\na\r\n\r\n",
    b"PING\r\n",
    b"+OK\r\n",
    b":-12\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"$0\r\n\r\n",
    b"*2\r\n*1\r\n:1\r\n%1\r\n+k\r\n*2\r\n_\r\n#t\r\n",
    b"~2\r\n,1.5\r\n(123\r\n",
    b">2\r\n+invalidate\r\n*0\r\n",
    b"|1\r\n+ttl\r\n:9\r\n*1\r\n$1\r\nx\r\n",
    b"=5\r\ntxt:x\r\n",
    b"!3\r\nERR\r\n",
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_do_not_depend_on_how_bytes_arrive(size: int) -> None:
    stream = b"".join(FRAMES)
    frames = Frames()
    assert [f for i in range(0, len(stream), size) for f in frames.feed(stream[i : i + size])] == FRAMES


def test_the_module_does_not_import_pytest() -> None:
    """The demo uses the link where pytest is not installed."""
    code = "import sys, redis_counters.testing; sys.exit('pytest' in sys.modules)"
    root = Path(__file__).resolve().parent.parent
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60).returncode == 0
