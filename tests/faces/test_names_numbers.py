"""Names are any text or bytes, amounts are ints; anything else is refused at the call, and nothing is counted."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import UsageError
from tests.faces.either import FACES, Either, name_bytes, truth
from tests.servers import RealServer

ODD_NAMES: list[str | bytes] = [
    *("", " ", ":", "{", "}", "{}", "}{", "{a}:b", "a{b}c", "rc", "{rc:0}:a", "rc:meta", "{rc:0}:c:0:x", "c:0:x"),
    *("*", "a*", "?", "[a-z]", "\\", "\0", "a\0b", "\n", "a\r\nb", "$3\r\nfoo", "-1", "+", "~", "k", "d", "%s", "{0}"),
    *("é", "e\u0301", "\u2028", "😀", "\ufeff", "名前", " lead", "trail "),
    *(b"\xff", b"\xff\xfe", b"\x80{}", b"\xc3", b"\xed\xa0\x80", bytes(range(256))),
    *("x" * 10_240, b"\xfe" * 10_240, "1", "01", "1.0"),
]


class Colour(str, enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Raw(bytes):
    """Bytes of a subclass."""


class Many(enum.IntEnum):
    THREE = 3


@pytest.mark.parametrize("face", FACES)
def test_odd_names_are_counters_of_their_own(server: RealServer, face: str) -> None:
    """Each odd name has the count it was given, read one by one and in a page, before and after closing."""
    assert len({name_bytes(n) for n in ODD_NAMES}) == len(ODD_NAMES)
    expected = {name: i + 1 for i, name in enumerate(ODD_NAMES)}

    async def main() -> None:
        async with Either.on(face, server) as counters:
            for name, amount in expected.items():
                counters.incr(name)
                counters.add(name, amount - 1)
            assert await counters.get_many(ODD_NAMES) == expected
            await counters.flush()
            assert await counters.get_many(ODD_NAMES, max_age=0) == expected
            for name, amount in expected.items():
                assert await counters.get(name, max_age=0) == amount

    asyncio.run(main())
    assert truth(server, ODD_NAMES) == {name_bytes(name): amount for name, amount in expected.items()}
    with pytest.raises(AssertionError):  # the comparison above can fail
        assert truth(server, ODD_NAMES[:1]) == {b"": 2}


@pytest.mark.parametrize("face", FACES)
def test_a_text_and_its_utf8_bytes_are_one_counter(any_server: RealServer, face: str) -> None:
    """Text, its UTF-8 bytes, subclasses of either and text enums name the same counter; handles show it as text."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            for name in ("grün", "grün".encode(), Text("grün"), Raw("grün".encode())):
                counters.incr(name)
                counters.counter(name).incr()
                assert counters.counters.counter(name).name == "grün"
            assert await counters.get("grün") == 8
            counters.incr(Colour.RED)
            counters.incr(Colour.RED, 2)
            counters.counter(Colour.RED).incr()
            assert await counters.get("red") == 4
            assert await counters.get(Colour.RED) == 4
            page = await counters.get_many(["grün", "grün".encode(), "red", Colour.RED])
            assert page == {"grün": 8, "grün".encode(): 8, "red": 4}
            assert counters.counters.counter(b"\xff").name == b"\xff"

    asyncio.run(main())
    assert truth(any_server, ["grün", "red"]) == {"grün".encode(): 8, b"red": 4}


def calls(counters: Any) -> dict[str, Callable[[Any], object]]:
    """Return every way in which a name gets in."""
    return {
        "incr": counters.incr,
        "incr by": lambda name: counters.incr(name, 5),
        "decr": counters.decr,
        "add": lambda name: counters.add(name, 5),
        "counter": counters.counters.counter,
        "get": counters.counters.get,
        "get_many": lambda name: counters.counters.get_many([name]),
    }


async def done(result: Any) -> None:
    if hasattr(result, "__await__"):
        await result


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "name", [None, 1, 1.5, True, bytearray(b"x"), memoryview(b"x"), ("x",), ["x"]], ids=lambda x: type(x).__name__
)
def test_what_is_no_name_is_a_type_error(any_server: RealServer, face: str, name: Any) -> None:
    """Neither text nor bytes: TypeError at the call, naming the argument; nothing is counted or asked."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            for way, call in calls(counters).items():
                with pytest.raises(TypeError, match="name must be a str or bytes, not"):
                    await done(call(name))
                assert way
            assert counters.stats().accepted == 0

    asyncio.run(main())
    assert any_server.client().keys() == []


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["\ud800", "a\udcffb", "x" * 300 + "\udfff"], ids=ascii)
def test_a_text_without_utf8_form_is_refused(any_server: RealServer, face: str, name: str) -> None:
    """Lone surrogates are a UsageError at the call, and the flush of what else was counted goes on."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            counters.incr("good")
            for way, call in calls(counters).items():
                with pytest.raises(UsageError, match="name must be valid Unicode") as caught:
                    await done(call(name))
                assert (way, caught.value.argument) == (way, "name")
            counters.incr("good")
            await counters.flush(5)

    asyncio.run(main())
    assert truth(any_server, ["good"]) == {b"good": 2}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("amount", [True, False, 1.0, 2.5, "1", b"1", None, [1], 1j], ids=repr)
def test_what_is_no_int_is_a_type_error(any_server: RealServer, face: str, amount: Any) -> None:
    """Amounts are ints and nothing that looks like one: TypeError at the call, naming the argument."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            handle = counters.counters.counter("x")
            for call in (counters.incr, counters.decr, counters.add):
                with pytest.raises(TypeError, match="amount must be an int, not"):
                    call("x", amount)
            for call in (handle.incr, handle.decr, handle.add):
                with pytest.raises(TypeError, match="amount must be an int, not"):
                    call(amount)
            assert await counters.get("x") == 0
            assert counters.stats().accepted == 0

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_signs(any_server: RealServer, face: str) -> None:
    """`incr` and `decr` refuse negative amounts, `add` takes both signs; 0 counts nothing and creates no key."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            handle = counters.counters.counter("x")
            for call in (counters.incr, counters.decr):
                with pytest.raises(ValueError, match="must not be negative, got -1") as caught:
                    call("x", -1)
                assert isinstance(caught.value, UsageError)
                assert caught.value.argument == "amount"
            for call in (handle.incr, handle.decr):
                with pytest.raises(ValueError, match="must not be negative"):
                    call(-(2**60))
            for call in (counters.incr, counters.decr, counters.add):
                call("zero", 0)
            handle.add(0)
            await counters.flush()
            assert any_server.client().keys("*:c:*") == []
            counters.add("x", -5)
            counters.decr("x", 3)
            handle.decr()
            handle.add(-1)
            counters.incr("x", Many.THREE)
            counters.add("x", Many.THREE)
            assert await counters.get("x") == -4
            await counters.flush()
            assert await counters.get("x", max_age=0) == -4
            counters.incr("x", 4)
            assert await counters.get("x") == 0

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 0}


ODD_NAMESPACES = ["a", "a:", "a:0", "a:c", "a:c:0", "a:meta", "b c", "*", "ü", "a\n", "rc", "rc:1", "c:0:x", ":", "-"]


@pytest.mark.parametrize("face", FACES)
def test_namespaces_are_apart(any_server: RealServer, face: str) -> None:
    """The same names in namespaces that look like parts of keys count apart, and no key is shared."""
    names: list[str | bytes] = ["x", "c:0:x", "0:x", ":x", "}:c:0:x", "meta", "a"]

    async def main() -> None:
        keys: dict[str, set[bytes]] = {}
        client: Any = any_server.client()
        for number, namespace in enumerate(ODD_NAMESPACES, start=1):
            before = set(client.keys())
            async with Either.on(face, any_server, namespace=namespace, shards=2, buckets=3) as counters:
                for name in names:
                    counters.incr(name, number)
            keys[namespace] = set(client.keys()) - before
            assert len(keys[namespace]) > len(names)
        for number, namespace in enumerate(ODD_NAMESPACES, start=1):
            assert set(truth(any_server, names, namespace=namespace).values()) == {number}, namespace
        assert sum(map(len, keys.values())) == client.dbsize()

    asyncio.run(main())


@pytest.mark.parametrize("namespace", ["", "a{b", "a}b", "{a}", "\ud800"])
def test_namespaces_that_cannot_be(any_server: RealServer, namespace: str) -> None:
    """A namespace with braces, empty or without UTF-8 form is a UsageError when the client is made."""
    for face in FACES:
        with pytest.raises(UsageError, match="namespace"):
            Either.on(face, any_server, namespace=namespace)
