"""Both faces carry the same names, parameters and documentation; one counts as the other does."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import redis_counters
import redis_counters.asyncio
from redis_counters import Bounded, Counter, Counters, Exchange, Likes
from redis_counters.asyncio import Bounded as AsyncioBounded
from redis_counters.asyncio import Counter as AsyncioCounter
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.asyncio import Exchange as AsyncioExchange
from redis_counters.asyncio import Likes as AsyncioLikes
from redis_counters.protocol.wire.options import DEFAULTS, Options, OptionsAndUrl
from redis_counters.protocol.wire.settings import Settings, make_settings
from tests.servers import RealServer

PAIRS = [
    pytest.param(Counters, AsyncioCounters, id="Counters"),
    pytest.param(Counter, AsyncioCounter, id="Counter"),
    pytest.param(Likes, AsyncioLikes, id="Likes"),
    pytest.param(Bounded, AsyncioBounded, id="Bounded"),
    pytest.param(Exchange, AsyncioExchange, id="Exchange"),
]

COUNTERS = {
    "incr",
    "decr",
    "add",
    "get",
    "get_many",
    "counter",
    "flush",
    "close",
    "stats",
    "from_url",
    "reset",
    "delete",
}
KEYED = {"incr_once", "likes", "seed", "seed_many", "adopt", "bounded"}
LIKES = {"like", "unlike", "has", "has_many", "value", "adopt_likes"}
BOUNDED = {"add", "try_add", "spend", "try_spend", "give_back", "value", "available", "rights"}
COUNTER = {"incr", "decr", "add", "value", "reset", "delete"}
PLAIN = {
    "incr",
    "decr",
    "add",
    "stats",
    "counter",
    "from_url",
    "name",
    "likes",
    "bounded",
    "start",
}  # no I/O in either face

ONLY_IN = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
WRONG_KIND: dict[type, set[str]] = {
    Counters: {*ONLY_IN.values()},
    AsyncioCounters: {*ONLY_IN},
    Exchange: {*ONLY_IN.values()},
    AsyncioExchange: {*ONLY_IN},
}  # there to say what to write instead
WORDS = [
    ("any number of threads", "any number of tasks of one event loop"),
    ("of other threads", "of other tasks"),
    (">>> from redis_counters import", ">>> from redis_counters.asyncio import"),
    (">>> with", ">>> async with"),
    ("...     ", "...     await "),
    (">>> ", ">>> await "),
    ("), ", "), await "),
]  # where the texts have to differ


def members(face: type) -> dict[str, Any]:
    """Return what is public in the face, by name, with the special methods of its own."""
    return {
        name: inspect.getattr_static(face, name)
        for name in dir(face)
        if not name.startswith("_") or name in ("__init__", *ONLY_IN, *ONLY_IN.values())
        if name not in WRONG_KIND.get(face, set())
    }


def function(member: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
    assert callable(found)
    return found


def parameters(member: Any) -> list[tuple[str, str, object]]:
    """Return (name, kind, default) of each parameter."""
    signature = inspect.signature(function(member))
    return [(p.name, p.kind.name, p.default) for p in signature.parameters.values()]


@pytest.mark.parametrize(("blocking", "asyncio"), PAIRS)
def test_the_same_names(blocking: type, asyncio: type) -> None:
    """A name is public in both faces or in none; only the context manager is spelled as its kind asks."""
    assert {ONLY_IN.get(name, name) for name in members(blocking)} == set(members(asyncio))


@pytest.mark.parametrize(("blocking", "asyncio"), PAIRS)
def test_the_same_parameters(blocking: type, asyncio: type) -> None:
    """Each parameter has one name, kind and default in both faces."""
    for name, member in members(blocking).items():
        assert parameters(member) == parameters(members(asyncio)[ONLY_IN.get(name, name)]), name


@pytest.mark.parametrize(("blocking", "asyncio"), PAIRS)
def test_the_same_documentation(blocking: type, asyncio: type) -> None:
    """Every public name is documented, by the same text in both faces."""

    def text(thing: Any) -> str:
        documentation = inspect.getdoc(thing) or ""
        for ours, theirs in WORDS:
            documentation = documentation.replace(theirs, ours)
        return documentation

    assert text(blocking)
    assert text(blocking) == text(asyncio)
    for name, member in members(blocking).items():
        if not name.startswith("_"):
            assert inspect.getdoc(function(member)), name
            assert text(function(member)) == text(function(members(asyncio)[name])), name


@pytest.mark.parametrize(("blocking", "asyncio"), PAIRS)
def test_what_does_no_io_is_a_plain_call(blocking: type, asyncio: type) -> None:
    """Counting is a plain call in both faces; whatever asks Redis is awaited in the asyncio face."""
    for name, member in members(asyncio).items():
        awaited = inspect.iscoroutinefunction(function(member))
        plain = name in PLAIN and not (asyncio is AsyncioBounded and name in BOUNDED)  # Redis decides each of these
        assert awaited == (not plain and name != "__init__"), name
        if name in members(blocking):
            assert not inspect.iscoroutinefunction(function(members(blocking)[name])), name


def test_the_fixed_names_are_there() -> None:
    """The names that the interface fixes exist in both faces."""
    for counters in (Counters, AsyncioCounters):
        assert set(members(counters)) >= COUNTERS | KEYED
    for counter in (Counter, AsyncioCounter):
        assert set(members(counter)) >= COUNTER
    for likes in (Likes, AsyncioLikes):
        assert set(members(likes)) >= LIKES
    for bounded in (Bounded, AsyncioBounded):
        assert set(members(bounded)) >= BOUNDED


def test_the_module_says_what_it_exports() -> None:
    """Everything in `__all__` exists, and every error is an error of this library."""
    for name in redis_counters.__all__:
        assert hasattr(redis_counters, name), name
    errors = [getattr(redis_counters, n) for n in redis_counters.__all__]
    raised = [e for e in errors if isinstance(e, type) and issubclass(e, Exception)]
    assert raised
    assert all(issubclass(e, redis_counters.CounterError) for e in raised)


@pytest.mark.parametrize("face", [Counters, AsyncioCounters], ids=["blocking", "asyncio"])
def test_the_options_are_those_that_are_declared(face: type) -> None:
    """Every option is declared once, with a type and a default; both faces show it, and the settings know it."""
    assert list(Options.__annotations__) == list(DEFAULTS)
    assert OptionsAndUrl.__annotations__.keys() - Options.__annotations__.keys() == {"url"}
    options = {name: default for name, _kind, default in parameters(members(face)["__init__"]) if name != "self"}
    assert options.pop("client") is inspect.Parameter.empty
    assert len(options) > 10
    assert options == DEFAULTS
    renamed = {"actor": "display", "on_full": "block_when_full", "journal_mode": "journal_always"}
    assert {renamed.get(name, name) for name in options} - {"observer"} == set(Settings._fields)
    assert make_settings() == make_settings(**DEFAULTS)
    with pytest.raises(TypeError, match="no option 'flush_intervall'; is it 'flush_interval'"):
        make_settings(flush_intervall=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("face", [Counters, AsyncioCounters], ids=["blocking", "asyncio"])
def test_an_option_that_there_is_not(face: Any) -> None:
    """The constructor refuses it before anything else, and names the one that may be meant."""
    with pytest.raises(TypeError, match=r"Counters\(\) has no option 'flush_intervall'; is it 'flush_interval'"):
        face(None, flush_intervall=1)
    with pytest.raises(TypeError, match=r"Counters\(\) has no option 'x'$"):
        face(None, x=1)


@pytest.mark.parametrize("face", [Counters, AsyncioCounters], ids=["blocking", "asyncio"])
def test_only_the_client_has_a_place(face: type) -> None:
    """All options are given by name."""
    assert [name for name, kind, _default in parameters(members(face)["__init__"]) if kind != "KEYWORD_ONLY"] == [
        "self",
        "client",
    ]


def test_defaults_are_those_of_the_interface() -> None:
    """The documented defaults are the defaults."""
    defaults = {name: default for name, _kind, default in parameters(Counters.__init__)}
    assert {k: defaults[k] for k in ("namespace", "region", "shards", "flush_interval", "max_batch")} == {
        "namespace": "rc",
        "region": "main",
        "shards": 1,
        "flush_interval": 0.1,
        "max_batch": 500,
    }
    assert {k: defaults[k] for k in ("max_pending", "on_full", "max_age", "reassert_window")} == {
        "max_pending": 1_000_000,
        "on_full": "raise",
        "max_age": 1.0,
        "reassert_window": 60.0,
    }
    assert parameters(Counters.close)[1] == ("timeout", "POSITIONAL_OR_KEYWORD", 5.0)
    assert ("max_age", "KEYWORD_ONLY", None) in parameters(Counters.get)
    assert parameters(Counters.incr_once)[3:] == [
        ("amount", "POSITIONAL_OR_KEYWORD", 1),
        ("ttl", "KEYWORD_ONLY", 86400),
    ]


def test_the_other_kind_of_with(any_server: RealServer) -> None:
    """A context manager of the wrong kind says what to write instead; the counters can be used."""

    async def main() -> None:
        async with AsyncioCounters.from_url(any_server.url) as counters:
            with pytest.raises(TypeError, match="use `async with`"):
                counters.__enter__()  # type: ignore[attr-defined]
            with pytest.raises(TypeError, match="use `async with`"):
                exec("with counters: pass", {"counters": counters})  # noqa: S102 - what checkers of types would refuse
        with Counters.from_url(any_server.url) as blocking:
            with pytest.raises(TypeError, match=r"redis_counters\.asyncio"):
                await blocking.__aenter__()  # type: ignore[attr-defined]
            blocking.incr("a")

    asyncio.run(main())


def test_the_other_kind_of_with_for_an_exchange() -> None:
    """The same of an exchange."""

    async def main() -> None:
        with pytest.raises(TypeError, match="use `async with`"):
            AsyncioExchange({}).__enter__()  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match=r"redis_counters\.asyncio"):
            await Exchange({}).__aenter__()  # type: ignore[attr-defined]

    asyncio.run(main())


@pytest.mark.parametrize("face", [Counters, AsyncioCounters], ids=["blocking", "asyncio"])
def test_what_belongs_in_the_url(face: type[Any]) -> None:
    """An option of a client is none of from_url, which says where it goes."""
    with pytest.raises(TypeError, match=r"'password'.* belongs in the URL"):
        face.from_url("redis://localhost:1", password="sesame")  # noqa: S106 - of this test
