"""Whatever answers in Redis's place, or stands under our keys: an error of ours, others go on, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters import CounterError, Event, EventKind, Refused, Unavailable, WrongType
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, truth
from tests.protocol.cleaning import House
from tests.servers import RealServer

NAMES = [f"n{i}" for i in range(40)]

GARBAGE = {
    "a status": b"+OK\r\n",
    "a number": b":5\r\n",
    "nothing": b"$-1\r\n",
    "no list": b"*-1\r\n",
    "an empty list": b"*0\r\n",
    "a text": b"$3\r\nabc\r\n",
    "an unknown word": b"*2\r\n$4\r\nWHAT\r\n:1\r\n",
    "a word of another script": b"*2\r\n$6\r\nFOLDED\r\n:1\r\n",
    "OK alone": b"*1\r\n$2\r\nOK\r\n",
    "OK, and no number": b"*2\r\n$2\r\nOK\r\n$3\r\nabc\r\n",
    "OK, refused without words": b"*3\r\n$2\r\nOK\r\n:1\r\n:1\r\n",
    # (A number that is no number of buckets, too: else this is what a namespace with 9,999 of them answers.)
    "OK, refused an item that was not sent": b"*4\r\n$2\r\nOK\r\n:1\r\n:99999\r\n$9\r\nWRONGTYPE\r\n",
    "OK, refused item 0": b"*4\r\n$2\r\nOK\r\n:1\r\n:0\r\n$9\r\nWRONGTYPE\r\n",
    "MISSING an item that was not sent": b"*2\r\n$7\r\nMISSING\r\n:9999\r\n",
    "MISSING item 0": b"*2\r\n$7\r\nMISSING\r\n:0\r\n",
    "MISSING, and no number": b"*2\r\n$7\r\nMISSING\r\n$1\r\nx\r\n",
    "STALE with a list for a number": b"*2\r\n$5\r\nSTALE\r\n*1\r\n:1\r\n",
    "REGRESS below 0": b"*2\r\n$7\r\nREGRESS\r\n:-5\r\n",
    "bytes that are no text": b"*2\r\n$2\r\n\xff\xfe\r\n:1\r\n",
    "an error without a code": b"-what happened here\r\n",
    "an empty error": b"-\r\n",
    "a proxy's error": b"-ERR Connection timed out\r\n",
    "a web server": b"HTTP/1.1 400 Bad Request\r\n",
    "a count that is a number": b"*2\r\n$1\r\n+\r\n:1\r\n",
    "a count that is a list": b"*2\r\n$1\r\n+\r\n*0\r\n",
    "a nested error": b"*2\r\n-ERR inside\r\n:1\r\n",
}


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("command", ["EVALSHA", "HMGET", "HGETALL"])
@pytest.mark.parametrize("reply", [pytest.param(reply, id=name) for name, reply in GARBAGE.items()])
@pytest.mark.parametrize("face", FACES)
def test_garbage_is_not_believed(any_server: RealServer, face: str, reply: bytes, command: str) -> None:
    """Errors are ours, incr() goes on; as soon as the peer makes sense again, all that was counted is there, once."""

    async def main(link: LossyLink) -> None:
        async with Either.url(face, link.url, flush_interval=0.01, buckets=2) as counters:
            for name in NAMES:
                counters.incr(name, 5)
            await counters.flush()
            link.replace_reply(reply, every=1, commands={command}, times=8)
            for _ in range(4):
                for name in NAMES:
                    counters.incr(name)
                try:
                    await counters.flush(0.2)
                    await counters.get_many(NAMES[:5], max_age=0)
                    await counters.get(NAMES[0], max_age=0)
                except CounterError:
                    continue
            link.heal()
            await counters.flush(20)
            assert set((await counters.get_many(NAMES, max_age=0)).values()) == {9}
            assert link.replaced > 0 or command == "HMGET"

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert set(truth(any_server, NAMES).values()) == {9}


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("reply", [pytest.param(reply, id=name) for name, reply in GARBAGE.items()])
@pytest.mark.parametrize("face", FACES)
def test_garbage_from_the_first_command_on(any_server: RealServer, face: str, reply: bytes) -> None:
    """The namespace and the actors are opened against a peer that makes no sense, until it does."""

    async def main(link: LossyLink) -> None:
        link.replace_reply(reply, every=1, commands={"EVALSHA", "EVAL", "HMGET"}, times=6)
        async with Either.url(face, link.url, flush_interval=0.01, buckets=2) as counters:
            for _ in range(4):
                for name in NAMES:
                    counters.incr(name)
                try:
                    await counters.get(NAMES[0], max_age=0)
                    await counters.flush(0.2)
                except CounterError:
                    continue
            link.heal()
            await counters.flush(20)
        assert link.replaced > 0

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert set(truth(any_server, NAMES).values()) == {4}


@pytest.mark.parametrize("reply", [b"-ERR Connection timed out\r\n", b"-upstream failure\r\n", b"-ERR\r\n"])
@pytest.mark.parametrize("face", FACES)
def test_an_error_of_a_proxy_does_not_mean_that_nothing_was_applied(
    any_server: RealServer, face: str, reply: bytes
) -> None:
    """The flush was applied; while its owner is silent its slots are folded: it knows how far it got all the same."""
    house, events = House(any_server.client(), buckets=1), list[Event]()

    async def main(link: LossyLink) -> None:
        options = {"flush_interval": 60, "buckets": 1, "observer": events.append}
        async with Either.url(face, link.url, **options) as counters:
            for name in NAMES:
                counters.incr(name, 5)
            await counters.flush()
            link.replace_reply(reply, every=1, commands={"EVALSHA"})
            for name in NAMES:
                counters.incr(name, 3)
            with pytest.raises(CounterError):
                await counters.flush(0.3)
            for state in "cf":
                house.age(2 * 3600)
                house.clean_up()
                assert house.states() == state
            link.heal()
            for name in NAMES:
                counters.incr(name)
            await counters.flush(20)
            assert set((await counters.get_many(NAMES, max_age=0)).values()) == {9}

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert set(truth(any_server, NAMES).values()) == {9}
    assert [event for event in events if event.kind is EventKind.UNCERTAIN] == []


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("reply", [pytest.param(reply, id=name) for name, reply in GARBAGE.items()])
@pytest.mark.parametrize("face", FACES)
def test_garbage_while_closing(any_server: RealServer, face: str, reply: bytes) -> None:
    """Closing and folding against a peer that makes no sense for a while: the values stay what they are."""

    async def main(link: LossyLink) -> None:
        counters = Either.url(face, link.url, flush_interval=0.01, buckets=2)
        for name in NAMES:
            counters.add(name, 5 if name != NAMES[0] else -5)
        await counters.flush()
        link.replace_reply(reply, every=2, commands={"EVALSHA", "EVAL"}, times=6)
        await counters.close(20)
        assert link.replaced > 0
        assert counters.stats().pending == 0

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, NAMES) == {name.encode(): -5 if name == NAMES[0] else 5 for name in NAMES}


@pytest.mark.parametrize("face", FACES)
def test_a_registry_of_another_type_stops_its_bucket_alone(server: RealServer, face: str) -> None:
    """The error names the key; the other buckets go on; once it is gone, everything arrives."""
    client: Any = server.client()
    wrong = b"{rc:1}:a"
    events: list[Event] = []

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60, buckets=4, observer=events.append) as counters:
            client.set(wrong, "text")
            for _ in range(3):
                for name in NAMES:
                    counters.incr(name)
                with pytest.raises(WrongType, match=r"\{rc:1\}:a"):
                    await counters.flush(10)
            there = truth(server, NAMES)
            assert set(there.values()) == {0, 3}
            assert counters.stats().pending == list(there.values()).count(0)
            assert set((await counters.get_many(NAMES, max_age=0)).values()) == {3}
            assert client.get(wrong) == b"text"
            client.delete(wrong)
            await counters.flush(10)

    asyncio.run(main())
    assert set(truth(server, NAMES).values()) == {3}
    assert [event.kind for event in events[:2]] == [EventKind.FLUSH_FAILED, EventKind.FLUSH_RECOVERED]
    assert wrong.decode() in events[0].message


@pytest.mark.parametrize("face", FACES)
def test_a_registry_that_turns_into_another_type(server: RealServer, face: str) -> None:
    """In the middle of counting: an error that names it; when it is deleted, what is still held is told again."""
    client: Any = server.client()
    wrong = b"{rc:1}:a"

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60, buckets=4) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush(10)
            client.set(wrong, "text")
            for name in NAMES:
                counters.incr(name)
            with pytest.raises(WrongType, match=r"\{rc:1\}:a"):
                await counters.flush(10)
            assert set(truth(server, NAMES).values()) == {1, 2}
            client.delete(wrong)
            await counters.flush(10)

    asyncio.run(main())
    assert set(truth(server, NAMES).values()) == {2}


@pytest.mark.parametrize("face", FACES)
def test_a_namespace_record_of_another_type(server: RealServer, face: str) -> None:
    """Flushing and reading say what is wrong, and with which key; what was counted is kept, and arrives afterwards."""
    client: Any = server.client()

    async def main() -> None:
        client.set("rc:meta", "text")
        async with Either.on(face, server, flush_interval=60) as counters:
            counters.incr("x", 5)
            with pytest.raises(WrongType, match="rc:meta"):
                await counters.flush(10)
            with pytest.raises(WrongType, match="rc:meta"):
                await counters.get("x", max_age=0)
            counters.incr("x", 2)
            assert client.get("rc:meta") == b"text"
            client.delete("rc:meta")
            await counters.flush(10)
            assert await counters.get("x", max_age=0) == 7

    asyncio.run(main())
    assert truth(server, ["x"]) == {b"x": 7}


@pytest.mark.parametrize(
    "record",
    [
        {"schema": "abc", "buckets": "16", "region": "main"},
        {"schema": "1", "buckets": "abc", "region": "main"},
        {"schema": "1", "buckets": "-3", "region": "main"},
        {"schema": "1", "buckets": "9" * 30, "region": "main"},
    ],
)
@pytest.mark.parametrize("face", FACES)
def test_a_namespace_record_that_makes_no_sense(any_server: RealServer, face: str, record: dict[str, Any]) -> None:
    """It is refused, as a whole; what was counted is kept, and arrives afterwards."""
    client: Any = any_server.client()

    async def main() -> None:
        client.hset("rc:meta", mapping=record)
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.incr("x", 5)
            with pytest.raises(Refused, match="rc"):
                await counters.flush(10)
            with pytest.raises(Refused, match="rc"):
                await counters.get("x", max_age=0)
            client.delete("rc:meta")
            await counters.flush(10)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 5}


@pytest.mark.parametrize(
    "fields",
    [
        {"z.1.abcd+": "abc"},
        {"z.1.abcd+": "1.5"},
        {"z.1.abcd+": "-3"},
        {"+": ""},
        {"~z.1.abcd-": "1e5"},
        {"z.1.abcd+": "1 2"},
        {"k": "many"},
        {"k": "-1"},
        {"k": "9" * 30},
        {"z.1.abcd+": b"\xff\x00"},
        {"z.1.abcd+": "9" * 5000},
    ],
)
@pytest.mark.parametrize("face", FACES)
def test_fields_of_a_counter_that_make_no_sense(any_server: RealServer, face: str, fields: dict[str, Any]) -> None:
    """Reading it says so, and names it; the others are read, and flushing goes on; without the fields all is exact."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60, buckets=1) as counters:
            counters.incr("bad", 5)
            counters.incr("good", 3)
            await counters.flush(10)
            key = (await counters.inspect("bad")).parts[0].key
            client.hset(key, mapping=fields)
            for read in (counters.get("bad", max_age=0), counters.get_many(["good", "bad"], max_age=0)):
                with pytest.raises(WrongType, match="bad") as caught:
                    await read
                assert caught.value.counter == b"bad"
            with pytest.raises(WrongType, match="bad"):
                await counters.inspect("bad")
            assert await counters.get("good", max_age=0) == 3
            counters.incr("bad", 2)
            counters.incr("good", 2)
            await counters.flush(10)
            client.hdel(key, *fields)
            assert await counters.get_many(["good", "bad"], max_age=0) == {"good": 5, "bad": 7}

    asyncio.run(main())
    assert truth(any_server, ["bad", "good"]) == {b"bad": 7, b"good": 5}


@pytest.mark.parametrize("field", ["n", "g", "c", "own record"])
@pytest.mark.parametrize("face", FACES)
def test_a_registry_whose_fields_make_no_sense(any_server: RealServer, face: str, field: str) -> None:
    """An error of ours or an answer; when it is mended nothing that was counted is lost or counted twice."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60, buckets=1) as counters:
            counters.incr("x", 5)
            await counters.flush(10)
            registry: dict[bytes, bytes] = client.hgetall("{rc:0}:a")
            own = next(name for name in registry if name.count(b".") == 2 and not name.startswith(b"@"))
            broken = own if field == "own record" else field.encode()
            client.hset("{rc:0}:a", broken, "nonsense")
            counters.incr("x", 2)
            counters.incr("new")
            try:
                await counters.flush(1)
            except (Refused, Unavailable):
                client.hset("{rc:0}:a", broken, registry[broken])
            await counters.flush(10)
            assert await counters.get_many(["x", "new"], max_age=0) == {"x": 7, "new": 1}

    asyncio.run(main())
    assert truth(any_server, ["x", "new"]) == {b"x": 7, b"new": 1}
