"""What users and operators rely on, as one text: names and signatures, options, events, commands, and what is in Redis.

``python -m tests.public.interface`` writes it beside this file: a change of it is a change for users, and is seen.
"""

from __future__ import annotations

import builtins
import inspect
import re
import socket
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.main import get_command

from redis_counters import Counters, Exchange
from redis_counters.cli.app import app
from redis_counters.protocol.wire.options import DEFAULTS
from tests.servers import RealServer, kinds

RECORDED = Path(__file__).with_name("recorded.txt")
MODULES = [
    "",
    ".asyncio",
    ".testing",
    ".contrib.celery",
    ".contrib.fastapi",
    ".contrib.flask",
    ".contrib.litestar",
    ".contrib.starlette",
]


def python() -> Iterator[str]:
    """Yield a line a public name, and one a member of each class of this library."""
    for suffix in MODULES:
        module = import_module(f"redis_counters{suffix}")
        for name in sorted(module.__all__):
            found = getattr(module, name)
            if suffix and getattr(import_module("redis_counters"), name, None) is found:
                continue
            yield from _described(f"{module.__name__}.{name}", found)


def _described(name: str, found: Any) -> Iterator[str]:
    if not inspect.isclass(found):
        yield f"{name}{_signature(found)}"
        return
    known = {*dir(import_module("redis_counters")), *dir(builtins)} - {"object"}
    bases = [base.__name__ for base in found.__mro__[1:] if base.__name__ in known]
    own = "" if issubclass(found, (Enum, tuple)) else _signature(found)
    yield f"class {name}({', '.join(bases)}){own}"
    if issubclass(found, Enum):
        yield from (f"  {each.name} = {each.value!r}" for each in found)
    for field, kind in getattr(found, "__annotations__", {}).items():
        if not field.startswith("_"):
            yield f"  {field}: {getattr(kind, '__forward_arg__', kind)}"
    for member in sorted(dir(found)):
        if member.startswith("_") and member not in {"__enter__", "__aenter__", "__iter__", "__len__", "__contains__"}:
            continue
        value = inspect.getattr_static(found, member)
        if isinstance(value, property):
            assert value.fget is not None
            yield f"  {member} -> {inspect.signature(value.fget).return_annotation}"
            continue
        method = getattr(found, member)
        if callable(method) and str(getattr(method, "__module__", "")).startswith("redis_counters"):
            coroutine = "async " if inspect.iscoroutinefunction(method) else ""
            yield f"  {coroutine}{member}{_signature(method)}"


def _signature(found: Any) -> str:
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        return ""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def options() -> Iterator[str]:
    """Yield a line an option of `Counters`, with its default."""
    for name, default in DEFAULTS.items():
        yield f"{name} = {default!r}"


def commands() -> Iterator[str]:
    """Yield a line a parameter of each command."""
    yield from _commands("redis-counters", get_command(app))


def _commands(path: str, command: Any) -> Iterator[str]:
    for each in command.params:
        names = "/".join([*each.opts, *each.secondary_opts])
        many = each.nargs != 1 or getattr(each, "multiple", False)
        yield f"{path} {names}{' required' if each.required else ''}{' many' if many else ''}"
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(f"{path} {name}", inner)


def layout() -> Iterator[str]:
    """Yield each key, type, field and value of two regions in which everything was done, all that varies masked."""
    kind = kinds()[0]
    servers = [RealServer.start(kind), RealServer.start(kind)]
    try:
        here, there = servers
        options: dict[str, Any] = {"buckets": 1, "flush_interval": 60}
        with Counters.from_url(here.url, **options) as counters, Counters.from_url(there.url, **options) as others:
            counters.incr("up", 5)
            counters.decr("down", 3)
            counters.incr_once("once", key="order-1")
            counters.likes("post").like("ann")
            hall = counters.bounded("hall", floor=0, cap=9)
            hall.add(5, key="delivery-1")
            hall.spend(2, key="order-1")
            hall.give_back("order-1")
            counters.flush()
            counters.reset("up")
            with Counters.from_url(here.url, shards=2, **options) as wide:
                wide.incr("wide", 7)
            with Exchange({"eu": here.url, "us": there.url}) as exchange:
                exchange.run_once()
                others.incr("up")
                others.flush()
                exchange.run_once()
        found: set[str] = set()
        for server in servers:
            found.update(_masked(server))
        yield from sorted(found)
    finally:
        for server in servers:
            server.stop()


def _masked(server: RealServer) -> Iterator[str]:
    client: Any = server.client()
    for key in client.scan_iter():
        kind = client.type(key).decode()
        if kind == "hash":
            members = client.hgetall(key)
        else:
            members = dict.fromkeys(client.zrange(key, 0, -1) if kind == "zset" else client.smembers(key))
        for member, value in members.items():
            shown = "" if value is None else f" = {_mask(value)}"
            yield f"{_mask(key)} {kind} {_mask(member)}{shown}"


MASKS = [  # in this order: what is random may contain what comes later
    (r"[^ -~]", "?"),
    (r"\?.*\?.*", "BYTES"),
    (rf"{re.escape(socket.gethostname())}:\d+(:\w{{4}})?$", "HOST:PID"),
    (r"-{60,}", "DASHES"),
    (r"^\w{5}\.\d+\.\w{4}$", "GEN.N.OWNE"),
    (r"\b\w{5}[0-9a-f]{16}\b", "INCARNATION"),
    (r"(?<= )r\w{12,}(?= )", "rTOKEN"),
    (r"\b\w{12}\b", "TOKEN"),
    (r"(?<![^/~@])\w{5}(?=\.\d)|^(?!value)\w{5}$", "GEN"),
    (r"\d+", "N"),
    (r"INCARNATION( N)+", "INCARNATION N..."),
    (r"N:N( N:N)+", "N:N"),  # moments: a second one, where the recording took longer than a second
]


def _mask(value: bytes) -> str:
    text = value.decode("latin-1")
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return text


PARTS = {
    "Names": python,
    "Options": options,
    "Commands": commands,
    "In Redis: key, type, field or member, value": layout,
}


def describe() -> str:
    """Return all of it."""
    return "".join(f"# {title}\n\n" + "\n".join(part()) + "\n\n" for title, part in PARTS.items())


if __name__ == "__main__":
    RECORDED.write_text(describe())
