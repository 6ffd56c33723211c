"""The examples in docstrings are run, in both faces, and print what stands below them."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import io
import sys
from contextlib import redirect_stdout
from typing import Any

import pytest

import redis_counters
import redis_counters.asyncio
from redis_counters import CounterError
from tests.faces.either import truth
from tests.servers import RealServer

FACES: dict[str, Any] = {"blocking": redis_counters, "asyncio": redis_counters.asyncio}
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CHECKER = doctest.OutputChecker()


def examples(documented: Any, url: str) -> list[doctest.Example]:
    """Return the examples of a docstring, with this server in place of the one on localhost."""
    text = (inspect.getdoc(documented) or "").replace("redis://localhost:6379", url)
    return doctest.DocTestParser().get_examples(text)


async def played(example: doctest.Example, names: dict[str, Any]) -> None:
    """It prints, or raises, what it says."""
    code = compile(example.source, "<docstring>", "single", FLAGS)
    raised = ""
    with redirect_stdout(io.StringIO()) as told:
        sys.displayhook = sys.__displayhook__
        try:
            result = eval(code, names)  # noqa: S307 - of our own docstrings
            if inspect.isawaitable(result):
                await result
        except CounterError as error:
            raised = f"{type(error).__module__}.{type(error).__name__}: {error}\n"
    assert raised == (example.exc_msg or ""), example.source
    assert CHECKER.check_output(example.want, told.getvalue(), 0) or raised, (example.source, told.getvalue())


@pytest.mark.parametrize("face", FACES)
def test_counters(any_server: RealServer, face: str) -> None:
    """That of the class counts and reads, by its own import."""
    shown = examples(FACES[face].Counters, any_server.url)
    assert len(shown) == 2

    async def main() -> None:
        names: dict[str, Any] = {}
        for example in shown:
            await played(example, names)

    asyncio.run(main())
    assert truth(any_server, ["likes:post:42"]) == {b"likes:post:42": 3}


@pytest.mark.parametrize("face", FACES)
def test_incr(any_server: RealServer, face: str) -> None:
    """That of `incr` counts twice, and is refused once."""
    shown = examples(FACES[face].Counters.incr, any_server.url)
    assert len(shown) == 3

    async def main() -> None:
        counters = FACES[face].Counters.from_url(any_server.url)
        for example in shown:
            await played(example, {"counters": counters})
        closing = counters.close()
        if inspect.isawaitable(closing):
            await closing

    asyncio.run(main())
    assert truth(any_server, ["views:home", "bytes:sent"]) == {b"views:home": 1, b"bytes:sent": 1500}


@pytest.mark.parametrize("face", FACES)
def test_bounded(any_server: RealServer, face: str) -> None:
    """Those of `bounded`, `try_add` and `give_back` sell what is there."""
    kind = FACES[face].Bounded

    async def main() -> None:
        counters = FACES[face].Counters.from_url(any_server.url)
        for documented, most in ((FACES[face].Counters.bounded, 3), (kind.try_add, 2), (kind.give_back, 5)):
            shown = examples(documented, any_server.url)
            assert len(shown) == most
            names: dict[str, Any] = {"counters": counters}
            for example in shown:
                await played(example, names)
        closing = counters.close()
        if inspect.isawaitable(closing):
            await closing

    asyncio.run(main())


def test_every_example_is_run() -> None:
    """No other docstring of the faces has one."""
    found = set()
    for module in FACES.values():
        for kind in (module.Counters, module.Counter, module.Likes, module.Bounded, module.Exchange):
            each = {
                kind.__name__: kind,
                **{f"{kind.__name__}.{n}": m for n, m in inspect.getmembers(kind) if n[0] != "_"},
            }
            found |= {name for name, member in each.items() if ">>>" in (inspect.getdoc(member) or "")}
    assert found == {"Counters", "Counters.incr", "Counters.bounded", "Bounded.try_add", "Bounded.give_back"}
