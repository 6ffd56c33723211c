"""What happened reaches the log and the observer, with its kind, outside of all locks; a bad observer harms nobody."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest

from redis_counters import Counters, Event, EventKind, NotPermitted
from redis_counters.drivers.pacing import MAX_PAUSE_S
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.servers import RealServer

KEYS = KeySpace(b"rc", 16)


def kinds(events: list[Event]) -> list[EventKind]:
    return [event.kind for event in events]


@pytest.mark.parametrize("face", FACES)
def test_a_deleted_counter(any_server: RealServer, face: str) -> None:
    """Shard missing, with the counter's name and the actor, once for the counter."""
    events: list[Event] = []

    async def main() -> None:
        async with Either.on(face, any_server, observer=events.append) as counters:
            counters.incr("x", 5)
            await counters.flush()
            any_server.client().delete(KEYS.shard_key(b"x", 0)[1])
            counters.incr("x", 2)
            await counters.flush()
            assert await counters.get("x", max_age=0) == 2

    asyncio.run(main())
    (event,) = [event for event in events if event.kind is EventKind.SHARD_MISSING]
    assert (event.counter, event.bucket) == ("x", KEYS.bucket(b"x", 0))
    assert event.actor


@pytest.mark.parametrize("face", FACES)
def test_a_lost_state_and_its_healing(any_server: RealServer, face: str, caplog: pytest.LogCaptureFixture) -> None:
    """Everything is gone: regressed, then healed; both in the log with their levels."""
    events: list[Event] = []

    async def main() -> None:
        async with Either.on(face, any_server, observer=events.append) as counters:
            counters.incr("x", 5)
            await counters.flush()
            any_server.client().flushall()
            counters.incr("x", 2)
            await counters.flush()
            assert await counters.get("x", max_age=0) == 7

    with caplog.at_level(logging.INFO, "redis_counters"):
        asyncio.run(main())
    assert kinds(events) == [EventKind.REGRESSED, EventKind.HEALED]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (event.kind.level, str(event)) for event in events
    ]


@pytest.mark.parametrize("face", FACES)
def test_an_outage_is_told_once(private_server: RealServer, face: str) -> None:
    """However often a flush fails meanwhile: flush failed once, flush recovered once."""
    events: list[Event] = []

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        async with Either(face, client, observer=events.append, flush_interval=0.01) as counters:
            counters.incr("x")
            await counters.flush()
            private_server.kill()
            counters.incr("x")
            for _ in range(1000):
                if counters.stats().failures > 3:
                    break
                await asyncio.sleep(0.02 * MAX_PAUSE_S)
            private_server.restart()
            await counters.flush(20)
        await closed(client)

    asyncio.run(main())
    told = kinds(events)
    assert told.count(EventKind.FLUSH_FAILED) == told.count(EventKind.FLUSH_RECOVERED) == 1


@pytest.mark.parametrize("face", FACES)
def test_an_eviction_policy_is_warned_of(private_server: RealServer, face: str) -> None:
    """Any policy but noeviction, once at the start; under noeviction nothing is said."""

    async def main() -> list[Event]:
        events: list[Event] = []
        async with Either.on(face, private_server, observer=events.append) as counters:
            counters.incr("x")
            await counters.flush()
        return events

    assert asyncio.run(main()) == []
    for policy in ("allkeys-lru", "volatile-lru", "volatile-ttl"):
        private_server.client().config_set("maxmemory-policy", policy)
        (event,) = asyncio.run(main())
        assert event.kind is EventKind.EVICTION
        assert policy in event.message


@pytest.mark.parametrize("face", FACES)
def test_who_may_not_ask_for_the_policy_counts_all_the_same(any_server: RealServer, face: str) -> None:
    """INFO denied: nothing is said, nothing fails."""
    admin: Any = any_server.client()
    admin.execute_command("ACL", "SETUSER", "blind", "on", "nopass", "~*", "+@all", "-info")
    events: list[Event] = []

    async def main() -> None:
        client = client_of(face, any_server, username="blind", password="")
        async with Either(face, client, observer=events.append) as counters:
            counters.incr("x")
        await closed(client)

    try:
        asyncio.run(main())
    finally:
        admin.execute_command("ACL", "DELUSER", "blind")
    assert events == []
    assert truth(any_server, ["x"]) == {b"x": 1}


@pytest.mark.parametrize("face", FACES)
def test_a_proxy_that_hangs_up_on_info_is_asked_once(any_server: RealServer, face: str) -> None:
    """The question costs one attempt, and never counts."""

    async def main(link: LossyLink) -> None:
        link.cut_before(every=1, commands=["INFO"])
        client = client_of(face, any_server, port=urlsplit(link.url).port)
        async with Either(face, client, flush_interval=0.01) as counters:
            for _ in range(3):
                counters.incr("x")
                await counters.flush()
            assert counters.stats().failures == 1
        await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, ["x"]) == {b"x": 3}


@pytest.mark.parametrize("face", FACES)
def test_an_observer_may_use_the_client_and_may_fail(any_server: RealServer, face: str) -> None:
    """It is called outside of locks: it counts and looks at figures; what it raises is logged, and counting goes on."""
    seen: list[int] = []
    box: list[Either] = []

    def observe(event: Event) -> None:
        box[0].incr("events")
        seen.append(box[0].stats().flushes)
        raise RuntimeError("of the observer's own")

    async def main() -> None:
        async with Either.on(face, any_server, observer=observe) as counters:
            box.append(counters)
            for _ in range(3):
                counters.incr("x")
                await counters.flush()
                any_server.client().flushall()
            counters.incr("x")
            await counters.flush()
            assert await counters.get("x", max_age=0) == 4
            assert seen
            assert await counters.get("events") == len(seen)

    asyncio.run(main())


def test_a_flood_of_one_kind_is_cut_short(any_server: RealServer) -> None:
    """A thousand deleted counters: some are named, and how many more there were."""
    events: list[Event] = []
    names = [f"n{i}" for i in range(1000)]
    with any_server.client() as client, Counters(client, observer=events.append) as counters:
        for name in names:
            counters.incr(name)
        counters.flush()
        client.delete(*(KEYS.shard_key(name.encode(), 0)[1] for name in names))
        for name in names:
            counters.incr(name)
        counters.flush()
    missing = [event for event in events if event.kind is EventKind.SHARD_MISSING]
    named = [event for event in missing if event.counter is not None]
    more = [int(event.message.split()[1].replace(",", "")) for event in missing if event.counter is None]
    assert len(named) <= 100
    assert len(named) + sum(more) == len(names)


@pytest.mark.parametrize("face", FACES)
def test_a_refusal_of_the_whole_is_told(any_server: RealServer, face: str) -> None:
    """A user without EVALSHA: flush failed names the command."""
    admin: Any = any_server.client()
    admin.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-evalsha", "-eval")
    events: list[Event] = []

    async def main() -> None:
        client = client_of(face, any_server, username="poor", password="")
        counters = Either(face, client, observer=events.append)
        counters.incr("x")
        with pytest.raises(NotPermitted, match="evalsha"):
            await counters.flush(2)
        admin.execute_command("ACL", "SETUSER", "poor", "+evalsha", "+eval")
        await counters.close()
        await closed(client)

    try:
        asyncio.run(main())
    finally:
        admin.execute_command("ACL", "DELUSER", "poor")
    assert EventKind.FLUSH_FAILED in kinds(events)
    assert "evalsha" in next(event.message for event in events if event.kind is EventKind.FLUSH_FAILED)


def test_observer_must_be_callable(any_server: RealServer) -> None:
    with any_server.client() as client, pytest.raises(TypeError, match="observer"):
        Counters(client, observer="print")  # type: ignore[arg-type]
