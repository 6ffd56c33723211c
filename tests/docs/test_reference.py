"""The reference pages and the code name the same options, methods, errors and commands, with the same defaults."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import _redis_counters_pytest as plugin
import redis_counters
import redis_counters.asyncio
from redis_counters import (
    Counter,
    Counters,
    CounterValue,
    EventKind,
    ExchangeStats,
    Inspection,
    PairStats,
    RegionStatus,
    Stats,
    UsageError,
    errors,
    events,
)
from redis_counters.cli.app import app
from redis_counters.contrib import http_errors
from tests.docs.pages import ROOT, code, section, table

REFERENCE = ROOT / "docs" / "reference"
OPTIONS, API, ERRORS, CLI, EVENTS, CONTRIB = (
    (REFERENCE / f"{name}.md").read_text() for name in ("options", "api", "errors", "cli", "events", "contrib")
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
    methods = [*_public(face.Counters), *_public(face.Counter), *_public(face.Likes), *_public(face.Bounded)]
    methods += _public(face.Exchange)
    assert sorted(documented) == sorted([*methods, f"period{_bare(redis_counters.period)}", "exit_on_sigterm()"])
    assert len(documented) > 10


def test_what_is_awaited() -> None:
    """api.md names the plain calls; in the asyncio face all other methods are coroutines."""
    (named,) = re.findall(r"Plain calls in both\s+are\s+(.+?);", API, re.DOTALL)
    face = redis_counters.asyncio
    plain = {"period", "exit_on_sigterm"} | {
        f"Exchange.{name}" if (kind, name) == (face.Exchange, "start") else name
        for kind in (face.Counters, face.Counter, face.Likes, face.Bounded, face.Exchange)
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and not inspect.iscoroutinefunction(member)
    }
    assert set(re.findall(r"`(.+?)`", named)) == plain


def test_values() -> None:
    """api.md has the fields of what is returned."""
    assert [code(row["attribute"]) for row in table(section(API, "CounterValue"))] == list(CounterValue.__annotations__)
    assert [code(row["field"]) for row in table(section(API, "Stats"))] == [f.name for f in fields(Stats)]
    for figures in (ExchangeStats, PairStats, RegionStatus):
        assert [code(row["field"]) for row in table(section(API, figures.__name__))] == [
            f.name for f in fields(figures)
        ]
    assert [code(row["field"]) for row in table(section(API, "Inspection"))] == [f.name for f in fields(Inspection)]


def test_public_names() -> None:
    """Every public name of the package is in the reference."""
    absent = [name for name in redis_counters.__all__ if f"`{name}" not in API + ERRORS + OPTIONS + EVENTS]
    assert absent == []
    assert {Counter.__name__, Counters.__name__} <= set(redis_counters.__all__)


def test_errors() -> None:
    """errors.md has every error below the class that it is derived from."""
    documented = {code(row["error"]): code(row["is a"]) for row in table(section(ERRORS, "The errors"))}
    public = [getattr(errors, name) for name in errors.__all__]
    kinds = [each for each in public if issubclass(each, errors.CounterError)]
    bases = {kind.__name__: [base.__name__ for base in kind.__bases__] for kind in kinds}
    assert documented.keys() == bases.keys()
    assert {name: parent for name, parent in documented.items() if parent != bases[name][0]} == {}


def _default(value: object) -> str:
    if value is None:
        return "none"
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


SHARED = {"http_errors", "idempotency", "proxy", "shutdown", "url_config"}  # by the integrations; not for users


def test_integrations() -> None:
    """contrib.md has every module of redis_counters.contrib, with what it offers, and its parameters."""
    package = Path(redis_counters.__file__).parent / "contrib"
    modules = {
        ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
    }
    documented = re.split(r"^## `redis_counters\.contrib\.([\w.]+)`$", CONTRIB, flags=re.MULTILINE)[1:]
    pages = dict(zip(documented[::2], documented[1::2], strict=True))
    inside = {"django.apps", "django.check", "django.client", "django.config", "django.requests", "django.templatetags"}
    assert pages.keys() == modules - SHARED - inside - {"__init__"}
    for name, text in pages.items():
        module = importlib.import_module(f"redis_counters.contrib.{name}")
        headings = re.findall(r"^### `(\w+)(\(.*\))?`$", text, re.MULTILINE)
        assert sorted(heading for heading, _ in headings) == sorted(module.__all__), name
        for heading, parameters in headings:
            offered = getattr(module, heading)
            if parameters:
                assert _bare(offered) == parameters, f"{name}.{heading}"


def test_errors_over_http() -> None:
    """contrib.md has every error that is answered, with its status and sentence."""
    rows = {code(row["error"]): row for row in table(section(CONTRIB, "Errors over HTTP"))}
    assert rows.keys() == {kind.__name__ for kind in http_errors.ANSWERED}
    for kind in http_errors.ANSWERED:
        found = http_errors.answer(UsageError("...", argument="user") if kind is UsageError else kind("..."))
        assert found is not None
        row = rows[kind.__name__]
        headers = "".join(f", `{name}: {value}`" for name, value in found.headers.items())
        assert row["status"] == f"{found.status}{headers}"
        assert row["the sentence"].rstrip(".") == found.sentence.rstrip(".")


def test_fixtures() -> None:
    """contrib.md has every fixture of the plugin."""
    fixtures = {name for name, found in vars(plugin).items() if "fixture" in type(found).__name__.lower()}
    assert {code(row["fixture"]) for row in table(section(CONTRIB, "Fixtures of pytest"))} == fixtures
    assert len(fixtures) == 4
