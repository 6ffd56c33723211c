"""What a checker of types makes of the faces: wrong options and clients are found, and names keep their type."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SNIPPET = """
import redis
import redis.asyncio
from redis.sentinel import Sentinel

from redis_counters import Counters, Durability, Event, Exchange, Options
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.contrib.flask import FlaskCounters
from redis_counters.contrib.starlette import lifespan

URL = "redis://localhost"

def watch(event: Event) -> None: ...

Counters.from_url(URL, flush_interval=1, max_age=1, on_full="block", journal=None, observer=watch)
Counters.from_url(URL, shards="auto", durability=Durability(replicas=1), journal_mode="always")
Counters(redis.Redis(), shards={"page:": "auto", "post:": 4}, actor=None)
sentinel = Sentinel([("localhost", 26379)])  # type: ignore[no-untyped-call]  # redis-py has no type there
Counters(sentinel.master_for("x"))  # type: ignore[no-untyped-call]
Counters(redis.RedisCluster(host="localhost"), buckets=64)
AsyncioCounters.from_url(URL, flush_interval=0.2)
AsyncioCounters(redis.asyncio.Redis(), max_batch=10)
options: Options = {"namespace": "x", "flush_interval": 0.5}
Counters.from_url(URL, **options)
FlaskCounters(url=URL, namespace="x")
lifespan(URL, namespace="x")

Counters.from_url(URL, flush_intervall=1)  # E: call-arg
Counters.from_url(URL, max_age="1")  # E: arg-type
Counters.from_url(URL, on_full="blok")  # E: arg-type
Counters.from_url(URL, journal_mode="sometimes")  # E: arg-type
Counters.from_url(URL, shards="many")  # E: arg-type
Counters.from_url(URL, observer=print, durability=1)  # E: arg-type
Counters("redis://x")  # E: arg-type
Counters(redis.asyncio.Redis())  # E: arg-type
Counters(redis.Redis(), flush_intervall=1)  # E: call-arg
Counters(redis.Redis(), "rc")  # E: call-arg
AsyncioCounters.from_url(URL, flush_intervall=1)  # E: call-arg
AsyncioCounters.from_url(URL, max_age="1")  # E: arg-type
AsyncioCounters("redis://x")  # E: arg-type
AsyncioCounters(redis.Redis())  # E: arg-type
wrong: Options = {"namespaze": "x"}  # E: typeddict-unknown-key
FlaskCounters(namespace=1)  # E: arg-type
lifespan(URL, namespaze="x")  # E: call-arg

with Counters.from_url(URL) as counters:
    texts: list[str] = ["a"]
    raws: list[bytes] = [b"a"]
    both: list[str | bytes] = ["a", b"b"]
    reveal_type(counters.get_many(texts))  # R: dict[str, CounterValue]
    reveal_type(counters.get_many(raws))  # R: dict[bytes, CounterValue]
    reveal_type(counters.get_many(both))  # R: dict[str | bytes, CounterValue]
    reveal_type(counters.get_many(["a", "b"]))  # R: dict[str, CounterValue]
    reveal_type(Exchange({}).read_skew(texts))  # R: dict[str, int]
    counters.get_many([1])  # E: type-var
    for name, value in counters.get_many(texts).items():
        name.upper()

async def main() -> None:
    async with AsyncioCounters.from_url(URL) as counters:
        texts: list[str] = ["a"]
        reveal_type(await counters.get_many(texts))  # R: dict[str, CounterValue]
"""

MYPY = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-version=3.10", "--follow-imports=silent"]
MARK = re.compile(r"# (?:E: (?P<code>[\w-]+)|R: (?P<type>.+))$")
SHORT = re.compile(r"\b(?:builtins|redis_counters[.\w]*)\.(?=\w)")


@pytest.mark.timeout(300)
def test_what_a_checker_finds(tmp_path: Path) -> None:
    """mypy --strict finds what is marked, and nothing else, for Python 3.10; typing_extensions need not be there."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    done = subprocess.run(
        [*MYPY, f"--cache-dir={tmp_path / 'cache'}", str(snippet)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=280,
    )
    found: set[tuple[int, str]] = set()
    for line, kind, text in re.findall(r"snippet\.py:(\d+): (error|note): (.*)", done.stdout):
        revealed = re.fullmatch(r'Revealed type is "(.*)"', text)
        if revealed:
            found.add((int(line), SHORT.sub("", revealed[1])))
        elif kind == "error":
            found.add((int(line), text.rpartition("[")[2].rstrip("]")))
    marked = {
        (number, mark["code"] or mark["type"])
        for number, line in enumerate(SNIPPET.splitlines(), 1)
        if (mark := MARK.search(line))
    }
    assert found == marked, done.stdout + done.stderr


def test_no_need_for_typing_extensions() -> None:
    """Everything is imported without it, and the annotations that need it are never looked at."""
    code = """
import sys
sys.modules["typing_extensions"] = None
import redis_counters, redis_counters.asyncio, redis_counters.protocol.wire.settings
import inspect
assert "flush_interval" in inspect.signature(redis_counters.Counters).parameters
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "fine\n", done.stderr
