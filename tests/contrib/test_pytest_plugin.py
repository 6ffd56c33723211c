"""The fixtures for users' tests, in runs of pytest of their own: with and without asyncio plugins, and unused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = "_redis_counters_pytest"

COUNTING = """
def test_one(counters):
    counters.incr("visits")
    assert counters.get("visits") == 1

def test_another_begins_empty(counters):
    counters.likes("visits").like("ann")
    assert counters.get("visits") == 1

def test_it_shares_its_data_with_what_is_opened_by_the_url(counters, counters_url):
    from redis_counters import Counters
    with Counters.from_url(counters_url) as code:
        code.incr("visits", 3)
    assert counters.get("visits") == 3

def test_data_is_forgotten_after_the_test():
    from redis_counters.drivers import urls
    assert not urls._memories
"""

ASYNCIO = """
async def test_counts(async_counters, counters):
    async_counters.incr("visits")
    assert await async_counters.get("visits") == 1
    await async_counters.flush()
    assert counters.get("visits", max_age=0) == 1
    async_counters.incr("visits")  # not flushed when the test ends

async def test_is_not_used(async_counters):
    pass

async def test_closes_by_itself(async_counters):
    assert await async_counters.incr_once("orders", "17")
    await async_counters.close()
"""

BY_HAND = """
import asyncio

def test_counts(async_counters):
    async def visit():
        async_counters.incr("visits")
        return await async_counters.get("visits")
    assert asyncio.run(visit()) == 1
    assert asyncio.run(visit()) == 2
    async_counters.incr("visits")

def test_in_a_loop_that_stays_open(async_counters, loop):
    async_counters.incr("visits")
    assert loop.run_until_complete(async_counters.get("visits")) == 1

import pytest

@pytest.fixture(scope="module")
def loop():
    made = asyncio.new_event_loop()
    yield made
    assert not asyncio.all_tasks(made)
    made.close()
"""

LINK = """
from redis_counters import Counters

def test_replies_are_lost(lossy_link):
    lossy_link.drop_reply(every=2, times=3, commands={"EVALSHA"})
    with Counters.from_url(lossy_link.url, flush_interval=0.01) as counters:
        while lossy_link.dropped < 3:
            counters.incr("visits")
            counters.flush()
        issued = counters.stats().accepted
        assert counters.get("visits", max_age=0) == issued

def test_another_server(lossy_link):
    with Counters.from_url(lossy_link.url) as counters:
        assert counters.get("visits") == 0
"""

OWN = """
import pytest

@pytest.fixture
def counters():
    return "mine"

def test_own_fixtures_come_first(counters):
    assert counters == "mine"
"""

UNUSED = """
import sys

def test_nothing_is_imported():
    assert "_redis_counters_pytest" in sys.modules
    assert not {"redis_counters", "redis", "fakeredis", "asyncio"} & sys.modules.keys()
"""


def run(folder: Path, text: str, *arguments: str) -> str:
    """Return what pytest printed, when all tests of the file passed; any warning fails them."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-p", MODULE, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


OPTIONS = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function")
PYTEST_ASYNCIO = ["-p", "pytest_asyncio.plugin", *(part for option in OPTIONS for part in ("-o", option))]


@pytest.mark.parametrize(
    ("text", "arguments", "passed"),
    [
        pytest.param(COUNTING, [], 4, id="counting"),
        pytest.param(BY_HAND, [], 2, id="asyncio.run"),
        pytest.param(ASYNCIO, [*PYTEST_ASYNCIO], 3, id="pytest-asyncio"),
        pytest.param(
            ASYNCIO,
            [*PYTEST_ASYNCIO, "-o", "asyncio_default_test_loop_scope=module"],
            3,
            id="pytest-asyncio, one loop",
        ),
        pytest.param(
            "import pytest\npytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n"
            + ASYNCIO,
            ["-p", "anyio.pytest_plugin"],
            3,
            id="anyio",
        ),
        pytest.param(OWN, [], 1, id="own fixtures"),
        pytest.param(UNUSED, [], 1, id="unused"),
    ],
)
@pytest.mark.slow("a run of pytest each")
def test_fixtures(tmp_path: Path, text: str, arguments: list[str], passed: int) -> None:
    assert f"{passed} passed" in run(tmp_path, text, *arguments)


def test_the_link(tmp_path: Path, any_server: object) -> None:
    """``any_server``: where no server is found, there is nothing to link to."""
    assert "2 passed" in run(tmp_path, LINK)


def test_they_are_documented(tmp_path: Path) -> None:
    """``pytest --fixtures`` says what each is."""
    said = run(tmp_path, COUNTING, "--fixtures")
    for name in ("counters", "async_counters", "counters_url", "lossy_link"):
        assert f"\n{name} --" in said
    assert "no docstring available" not in said.partition(MODULE)[2]
