"""The reference pages and the code name the same options, methods, errors and commands, with the same defaults."""

from __future__ import annotations

import ast
import inspect
import logging
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import typer

import redis_counters
import redis_counters.asyncio
from redis_counters import Counter, Counters, CounterValue, EventKind, Inspection, Stats, errors, events
from redis_counters.cli.app import app
from tests.docs.pages import ROOT, code, section, table

REFERENCE = ROOT / "docs" / "reference"
OPTIONS, API, ERRORS, CLI, EVENTS = (
    (REFERENCE / f"{name}.md").read_text() for name in ("options", "api", "errors", "cli", "events")
)


@pytest.mark.parametrize("face", [redis_counters.Counters, redis_counters.asyncio.Counters])
def test_options(face: type[Any]) -> None:
    """options.md has every option of the constructor, in its order, with its type and default."""
    client, *options = list(inspect.signature(face).parameters.values())
    assert client.name == "client"
    documented = [
        (code(row["option"]), code(row["type"]), ast.literal_eval(code(row["default"])))
        for row in table(section(OPTIONS, "Options of Counters"))
    ]
    assert documented == [(option.name, option.annotation, option.default) for option in options]


def _bare(function: Any) -> str:
    """The signature as one calls it: without self, and without types."""
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _public(kind: type[Any]) -> Iterator[str]:
    """What is public in a class, as a heading of api.md has it."""
    for name in dir(kind):
        if name.startswith("_"):
            continue
        member = getattr(kind, name)
        yield f"{kind.__name__}.{name}" + (_bare(member) if callable(member) else "")


@pytest.mark.parametrize("face", [redis_counters, redis_counters.asyncio])
def test_methods(face: Any) -> None:
    """api.md has a heading for each method of both faces, with its parameters and defaults, and no other heading."""
    documented = re.findall(r"^### `(.+)`$", API, re.MULTILINE)
    assert sorted(documented) == sorted([*_public(face.Counters), *_public(face.Counter), *_public(face.Likes)])
    assert len(documented) > 10


def test_values() -> None:
    """api.md has the fields of what is returned."""
    assert [code(row["attribute"]) for row in table(section(API, "CounterValue"))] == list(CounterValue.__annotations__)
    assert [code(row["field"]) for row in table(section(API, "Stats"))] == [f.name for f in fields(Stats)]
    assert [code(row["field"]) for row in table(section(API, "Inspection"))] == [f.name for f in fields(Inspection)]


def test_public_names() -> None:
    """Every public name of the package is in the reference."""
    absent = [name for name in redis_counters.__all__ if f"`{name}" not in API + ERRORS + OPTIONS + EVENTS]
    assert absent == []
    assert {Counter.__name__, Counters.__name__} <= set(redis_counters.__all__)


def test_errors() -> None:
    """errors.md has every error below the class that it is derived from."""
    documented = {code(row["error"]): code(row["is a"]) for row in table(section(ERRORS, "The errors"))}
    bases = {name: [base.__name__ for base in getattr(errors, name).__bases__] for name in errors.__all__}
    assert documented.keys() == bases.keys()
    assert {name: parent for name, parent in documented.items() if parent != bases[name][0]} == {}


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "off" if not value else "on"
    return f"{value:g}" if isinstance(value, float) else str(value) or "empty"


def test_commands() -> None:
    """cli.md has every command with its arguments, and every option with its default and where it is taken."""
    group: Any = typer.main.get_command(app)
    commands = {name: command for name, command in group.commands.items() if not command.hidden}
    assert set(re.findall(r"^### (\w+)$", CLI, re.MULTILINE)) == commands.keys()

    real = {
        (param.opts[0], name, _default(param.default))
        for name, command in commands.items()
        for param in command.params
        if param.param_type_name == "option" and "--help" not in param.opts
    }
    documented = {
        (code(row["option"]).split()[0], command, code(row["default"]))
        for row in table(section(CLI, "Options of the commands"))
        for command in re.findall(r"\w+", row["commands"])
    }
    assert documented == real

    for name, command in commands.items():
        usage = "".join(
            f" {'' if param.required else '['}{param.metavar}{'' if param.required else ']'}"
            f"{'...' if param.nargs == -1 else ''}"
            for param in command.params
            if param.param_type_name == "argument"
        )
        assert f"`redis-counters {name}{usage}`" in section(CLI, name), f"the arguments of {name} are{usage}"


def test_events() -> None:
    """events.md has every kind of event, with its word and level; so has the table in the module."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \| (\w+) \| ([^|]+) \|$", EVENTS, re.MULTILINE)
    assert [row[:3] for row in rows] == [(k.name, k.word, logging.getLevelName(k.level).lower()) for k in EventKind]
    assert events.__doc__ is not None
    for _name, word, level, happened in rows:
        assert re.search(rf"^{word} +{level} +{re.escape(happened)}$", events.__doc__, re.MULTILINE), word
