"""Every error says what has become of the call that raised it, as the table in errors.md has it."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

import redis_counters
import redis_counters.asyncio
from redis_counters import CounterError, Durability, Outcome, Unavailable, errors
from redis_counters.drivers import deadline, embedded
from redis_counters.drivers.journal.file import JournalFile
from redis_counters.protocol.wire.keys import KeySpace
from tests.docs.pages import ROOT, code, section, table
from tests.faces.either import FACES, Either
from tests.servers import NOWHERE, RealServer

PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text()
KEYS = KeySpace(b"rc", 16)
AWAY = f"redis://localhost:{NOWHERE}"
BIG = 2**63 - 1

Row = tuple[str, str]


class World(NamedTuple):
    """Where a case plays."""

    face: str
    server: RealServer
    path: Path
    patch: pytest.MonkeyPatch

    @asynccontextmanager
    async def counters(self, url: str = "", **options: Any) -> AsyncIterator[Any]:
        """Counters, which are closed whatever waits."""
        made = Either.url(self.face, url or self.server.url, flush_interval=0.01, **options)
        try:
            yield made.counters
        finally:
            with suppress(CounterError):
                await made.close(0.2)

    def spoil(self, name: str, value: str = "something else") -> None:
        """The key of a counter's first shard holds something else."""
        with redis.Redis(host=self.server.host, port=self.server.port) as client:
            client.set(KEYS.shard_key(name.encode(), 0)[1], value)


async def raised(*calls: Callable[[], Any]) -> list[CounterError]:
    """Return what each of these calls raises."""
    found = []
    for call in calls:
        try:
            result = call()
            if isinstance(result, Awaitable):
                result = await result
        except CounterError as error:
            found.append(error)
        else:
            pytest.fail(f"no error, but {result!r}")
    return found


Case = Callable[[World], Coroutine[Any, Any, list[CounterError]]]
CASES: dict[Row, list[Case]] = {}


def case(call: str, error: str) -> Callable[[Case], Case]:
    def keep(played: Case) -> Case:
        CASES.setdefault((call, error), []).append(played)
        return played

    return keep


@case("any", "`UsageError`")
async def usage(world: World) -> list[CounterError]:
    async with world.counters() as c:
        return await raised(lambda: c.incr("x", -1), lambda: c.incr_once("x", ""), lambda: c.counter("x", shards=0))


@case("`incr`, `decr`, `add`", "`Overflow`, `BufferFull`, `NotRecorded`")
async def counting(world: World) -> list[CounterError]:
    def fails(*_arguments: object) -> None:
        raise OSError(5, "Input/output error")

    async with world.counters() as c:
        found = await raised(lambda: c.add("x", BIG + 1))
    async with world.counters(AWAY, max_pending=1) as c:
        for number in range(1_000):
            try:
                c.incr(f"n{number}")
            except CounterError as error:
                found.append(error)
                break
            await asyncio.sleep(0.01)
    async with world.counters(journal=world.path, journal_mode="always") as c:
        with world.patch.context() as patch:
            patch.setattr(JournalFile, "append", fails)
            found += await raised(lambda: c.incr("x"), lambda: c.decr("x"), lambda: c.add("x", 2))
    assert [type(error).__name__ for error in found] == ["Overflow", "BufferFull", *["NotRecorded"] * 3]
    return found


@case(
    "what only reads: `get`, `get_many`, `value`, `inspect`, `has`, `has_many`, `available`, `rights`, `read_skew`",
    "any",
)
async def reading(world: World) -> list[CounterError]:
    found = []
    world.spoil("x")
    for url in (AWAY, world.server.url):
        async with world.counters(url) as c:
            found += await raised(
                lambda: c.get("x", max_age=0),
                lambda: c.get_many(["x", "y"], max_age=0),
                lambda: c.counter("x").value(max_age=0),
                lambda: c.inspect("x"),
            )
            if url == AWAY:
                found += await raised(lambda: c.likes("x").has(1), lambda: c.likes("x").has_many([1]))
                stock = c.bounded("x", floor=0)
                found += await raised(stock.value, stock.available, stock.rights)
    module: Any = redis_counters if world.face == "blocking" else redis_counters.asyncio
    exchange = module.Exchange({"eu": AWAY, "us": world.server.url})
    try:
        found += await raised(lambda: exchange.read_skew(["y"]))
    finally:
        await ended(exchange.close())
    return found


@case("`flush`", "`Unavailable`")
async def flushing_away(world: World) -> list[CounterError]:
    async with world.counters(AWAY) as c:
        c.incr("x")
        (error,) = await raised(lambda: c.flush(0.2))
    assert type(error) is Unavailable
    assert error.pending == {"x": 1}
    return [error]


@case("`flush`", "`Overflow`")
async def flushing_too_much(world: World) -> list[CounterError]:
    async with world.counters() as c:
        c.add("x", BIG)
        c.incr("x")
        (error,) = await raised(c.flush)
    assert type(error) is redis_counters.Overflow
    return [error]


@case("`flush`", "`WrongType`, `NotPermitted`, `SchemaMismatch`, any other `Refused`")
async def flushing_refused(world: World) -> list[CounterError]:
    world.spoil("x")
    async with world.counters() as c:
        c.incr("x")
        found = await raised(c.flush)
    async with world.counters(region="us") as c:  # the first counter has just recorded another
        c.incr("y")
        found += await raised(c.flush)
    async with world.counters(world.server.url.replace("://", "://nobody:wrong@")) as c:
        c.incr("y")
        found += await raised(c.flush)
    kinds = [type(error).__name__ for error in found]
    assert kinds in (["WrongType", "SchemaMismatch", "NotPermitted"], ["WrongType", "SchemaMismatch", "Refused"])
    return found


@case("`flush`, `reset`, `delete`", "`Unconfirmed`")
async def unconfirmed(world: World) -> list[CounterError]:
    async with world.counters(durability=Durability(replicas=1, timeout=0.05)) as c:
        c.incr("x")
        error: CounterError = Unavailable("not yet")
        while type(error) is Unavailable:  # until Redis has answered once within that time
            (error,) = await raised(lambda: c.flush(0.5))
    assert type(error) is redis_counters.Unconfirmed
    found: list[CounterError] = [error]
    async with world.counters(durability=Durability(replicas=1, timeout=0.05)) as c:
        found += await raised(lambda: c.reset("x"), lambda: c.delete("x"))
    return found


@case("`close`", "`Unavailable`")
async def closing_away(world: World) -> list[CounterError]:
    async with world.counters(AWAY) as c:
        c.incr("x")
        (error,) = await raised(lambda: c.close(0.2))
    assert isinstance(error, Unavailable)
    assert error.pending == {"x": 1}
    return [error]


@case("`close`", "`Refused` for a counter")
async def closing_refused(world: World) -> list[CounterError]:
    world.spoil("x")
    async with world.counters() as c:
        c.incr("x")
        return await raised(c.close)


@case("`close`", "`NotPermitted`, `SchemaMismatch` for the whole")
async def closing_refused_as_a_whole(world: World) -> list[CounterError]:
    async with world.counters() as c:
        c.incr("x")  # records the region
    found = []
    with redis.Redis(host=world.server.host, port=world.server.port) as client:
        client.execute_command("ACL", "SETUSER", "reading", "on", ">secret", "~*", "+evalsha", "+eval", "+hmget")
    for url, options in (("", {"region": "us"}), (world.server.url.replace("://", "://reading:secret@"), {})):
        async with world.counters(url, **options) as c:
            c.incr("y")
            found += await raised(lambda: c.close(0.5))
    assert [type(error).__name__ for error in found] == ["SchemaMismatch", "NotPermitted"]
    return found


@case("`close`, with a journal", "`Unavailable`, `Refused`")
async def closing_with_a_journal(world: World) -> list[CounterError]:
    async with world.counters(AWAY, journal=world.path / "away") as c:
        c.incr("x")
        found = await raised(lambda: c.close(0.2))
    world.spoil("x")
    async with world.counters(journal=world.path / "here") as c:
        c.incr("x")
        found += await raised(c.close)
    return found


def keyed(c: Any) -> list[Callable[[], Any]]:
    likes = c.likes("x")
    return [
        lambda: c.incr_once("x", "key"),
        lambda: likes.like(1),
        lambda: likes.unlike(1),
        lambda: c.seed("x", 5, "token"),
        lambda: c.adopt("plain", "x"),
    ]


@case("`incr_once`, `like`, `unlike`, `seed`, `adopt`", "`Unavailable`")
async def keyed_away(world: World) -> list[CounterError]:
    async with world.counters(AWAY) as c:
        return await raised(*keyed(c))


@case("`incr_once`, `like`, `unlike`, `seed`, `adopt`", "`KeyConflict`, `WrongType`, any other `Refused`")
async def keyed_refused(world: World) -> list[CounterError]:
    with redis.Redis(host=world.server.host, port=world.server.port) as client:
        client.set("plain", 3)
    async with world.counters() as c:
        await ended(c.incr_once("z", "key", 1))
        found = await raised(lambda: c.incr_once("z", "key", 2))
        world.spoil("x")
        return found + await raised(*keyed(c))


def changes(c: Any) -> list[Callable[[], Any]]:
    stock = c.bounded("x", floor=0)
    return [
        lambda: stock.add(1),
        lambda: stock.try_add(1, "a"),
        lambda: stock.spend(1),
        lambda: stock.try_spend(1, "s"),
        lambda: stock.give_back("s"),
    ]


@case("methods of `Bounded` that change something", "`Unavailable`")
async def bounded_away(world: World) -> list[CounterError]:
    async with world.counters(AWAY) as c:
        return await raised(*changes(c))


@case("methods of `Bounded`", "`InsufficientRights`, `KeyConflict`, `WrongType`, any other `Refused`")
async def bounded_refused(world: World) -> list[CounterError]:
    async with world.counters() as c:
        stock = c.bounded("z", floor=0)
        await ended(stock.add(1, "a"))
        found = await raised(lambda: stock.spend(2), lambda: stock.try_spend(1, "a"))
        assert [type(error).__name__ for error in found] == ["InsufficientRights", "KeyConflict"]
        with redis.Redis(host=world.server.host, port=world.server.port) as client:
            client.set(KEYS.bounded_key(b"x")[1], "something else")
        stock = c.bounded("x", floor=0)
        return found + await raised(*changes(c), stock.value, stock.available, stock.rights)


def take_away(c: Any, name: str = "x") -> list[Callable[[], Any]]:
    return [lambda: c.reset(name), lambda: c.delete(name)]


@case("`reset`, `delete`", "`Unavailable`")
async def taking_away_away(world: World) -> list[CounterError]:
    async with world.counters(AWAY) as c:
        return await raised(*take_away(c))


@case("`reset`, `delete`", "`Unavailable`, as the flush before it failed")
async def taking_away_after_a_flush(world: World) -> list[CounterError]:
    world.patch.setattr(deadline, "CALL_TIMEOUT_S", 0.2)
    async with world.counters(AWAY) as c:
        c.incr("x")
        return await raised(*take_away(c))


@case("`reset`, `delete`", "`WrongType`, any other `Refused`")
async def taking_away_refused(world: World) -> list[CounterError]:
    world.spoil("x")
    async with world.counters() as c:
        return await raised(*take_away(c))


@case("`reset`, `delete`", "any, after other shards were done (`taken`)")
async def taking_away_in_part(world: World) -> list[CounterError]:
    with redis.Redis(host=world.server.host, port=world.server.port) as client:
        for name in ("x", "y"):
            for shard in range(4):
                key = KEYS.shard_key(name.encode(), shard)[1]
                client.hset(key, mapping={"d": f"gen.{shard}", "+": "10", **({} if shard else {"k": "4"})})
            client.hset(KEYS.shard_key(name.encode(), 2)[1], "somebody's+", "not a count")
    async with world.counters() as c:
        found = await raised(lambda: c.reset("x"), lambda: c.delete("y"))
    assert [error.taken for error in found] == [30, 30]
    return found


@case("`from_url`", "`Unavailable`")
async def opening(world: World) -> list[CounterError]:
    silent = world.path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o700)
    found: list[CounterError] = []
    with world.patch.context() as patch:
        patch.setattr(embedded, "_START_TIMEOUT", 0.1)
        for binary in (silent, world.path / "absent"):
            patch.setattr(embedded, "find_server", lambda binary=binary: binary)
            found += await raised(lambda: Either.url(world.face, "embedded://"))
    return found


@case("`run_once`, `add_regions`, `evict`", "`Unavailable`")
async def exchanging(world: World) -> list[CounterError]:
    module: Any = redis_counters if world.face == "blocking" else redis_counters.asyncio
    found: list[CounterError] = []
    for us in (world.server.url, AWAY):
        exchange = module.Exchange({"eu": AWAY, "us": us})
        try:
            found += await raised(lambda: exchange.run_once(1.0), lambda: exchange.add_regions({"as": AWAY}))  # noqa: B023 - at once
            if us == AWAY:
                found += await raised(lambda: exchange.evict("us"))  # noqa: B023
        finally:
            await ended(exchange.close())
    return found


@case("the command `redis-counters incr`", "`OutcomeUnknown`")
async def command(world: World) -> list[CounterError]:
    return [redis_counters.OutcomeUnknown("as cli/incr.py makes it")]


async def ended(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


def documented() -> dict[Row, Outcome]:
    """Return the table of calls, from the page."""
    text = section(PAGE, "What has become of it")
    rows = table(text[text.index("| call |") :])
    return {(row["call"], row["error"]): Outcome[code(row["`outcome`"])] for row in rows}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("row", CASES, ids=lambda row: f"{row[0]}: {row[1]}".replace("`", ""))
def test_outcomes(any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row, face: str) -> None:
    """What a call raises says of itself what the page says of it."""
    for played in CASES[row]:
        found = asyncio.run(played(World(face, any_server, tmp_path, monkeypatch)))
        assert found
        assert {repr(error): error.outcome for error in found} == {repr(error): documented()[row] for error in found}
        assert [pickle.loads(pickle.dumps(error)).outcome for error in found] == [e.outcome for e in found]  # noqa: S301


def test_every_row_is_played() -> None:
    """Each row of the page has its case here, and each case its row."""
    assert set(documented()) == set(CASES)


def test_every_outcome_is_in_the_page() -> None:
    """The page has the outcomes with their values, and each of them comes up."""
    text = section(PAGE, "What has become of it")
    rows = table(text[: text.index("| call |")])
    assert {code(row["`Outcome`"]): code(row["value"]).strip('"') for row in rows} == {o.name: o.value for o in Outcome}
    assert set(documented().values()) == set(Outcome)


def test_every_error_has_an_outcome() -> None:
    """Each class has one before a call says more, and the page names each that is raised."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, CounterError)]
    assert len(kinds) > 10
    assert all(isinstance(kind.outcome, Outcome) for kind in kinds)
    named = " ".join(f"{error}" for _call, error in documented())
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in named] == ["CounterError"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("call", ["flush", "close"])
def test_the_cause(face: str, call: str) -> None:
    """What a flush raises is caused by what the last attempt ended in, and that by what redis-py raised; no frames."""

    async def main() -> Unavailable:
        counters = Either.url(face, AWAY, flush_interval=0.01)
        counters.incr("x")
        while not counters.stats().failures:
            with suppress(Unavailable):
                await counters.flush(0.05)
        try:
            await (counters.close(0.05) if call == "close" else counters.flush(0.05))
        except Unavailable as error:
            return error
        finally:
            with suppress(CounterError):
                await counters.close(0)
        pytest.fail("no error")

    error = asyncio.run(main())
    ours = error.__cause__
    assert isinstance(ours, Unavailable)
    assert str(ours) in str(error)
    assert isinstance(ours.__cause__, redis.ConnectionError)
    assert (ours.__traceback__, ours.__cause__.__traceback__) == (None, None)


@pytest.mark.parametrize("face", FACES)
def test_the_cause_of_one_that_came_too_early(face: str, private_server: RealServer) -> None:
    """Where no attempt has ended yet, the cause is that time."""

    async def main() -> Unavailable:
        async with Either.on(face, private_server) as counters:
            counters.incr("x")
            await counters.flush()
            private_server.pause()
            try:
                counters.incr("x")
                await counters.flush(0.2)
            except Unavailable as error:
                return error
            finally:
                private_server.resume()
        pytest.fail("no error")

    assert isinstance(asyncio.run(main()).__cause__, TimeoutError)


def test_the_cause_of_an_error_that_is_ours_already() -> None:
    """A server of a cluster that broke off is told by an error of ours, whose cause is what redis-py raised."""
    ours = Unavailable("the server broke off")
    ours.__cause__ = redis.ConnectionError("reset by peer")
    kept = errors.without_traceback(ours, ours)
    assert isinstance(kept.__cause__, redis.ConnectionError)
    assert (kept.__traceback__, kept.__cause__.__traceback__) == (None, None)
