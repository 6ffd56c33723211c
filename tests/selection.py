"""``make test`` runs most tests, ``make test-all`` every one: by these rules a test is left to the second.

Of what takes seconds a few stay, so that each layer is run: a demo of each kind, a web server, a block of schedules.
pytest runs the same most tests; ``--all`` every one, ``--rest`` those that were left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from tests.servers import Kind, kinds

# Starting these takes longer than most tests; what they are started for has tests of its own, with stand-ins.
FIXTURES = {
    "cluster": "clusters",
    "any_cluster": "clusters",
    "private_cluster": "clusters",
    "sentinels": "Sentinels",
    "_browser_is_here": "browsers",
}
# Elsewhere a test of both faces is one of the code below them, which they share.
BOTH_FACES = ("faces", "drivers")
LEFT = pytest.StashKey[Counter[str]]()
REASON = pytest.StashKey[str | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection", "which tests are run (default: most of them)")
    group.addoption("--all", dest="selection", action="store_const", const="all", default="most", help="every test")
    group.addoption("--rest", dest="selection", action="store_const", const="rest", help="only what is left by default")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow(reason): left to `make test-all`")
    config.addinivalue_line("markers", "every(n, reason): of its rows the first and then each n-th are not left")
    config.stash[LEFT] = Counter()


def left_for(item: pytest.Item) -> str | None:
    """Return for what a test is left to ``make test-all``; None where ``make test`` runs it."""
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in FIXTURES:
            return FIXTURES[fixture]
    given: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    if any(isinstance(value, Kind) and value != kinds()[0] for value in given.values()):
        return "other servers"
    if given.get("face") == "asyncio" and not set(BOTH_FACES) & set(item.path.parts):
        return "the second face"
    return "slow" if item.get_closest_marker("slow") else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection = config.getoption("selection")
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    rows: Counter[str] = Counter()
    for item in items:
        reason = left_for(item)
        if not reason and (mark := item.get_closest_marker("every")):
            test = item.nodeid.partition("[")[0]
            reason = "rows of one test" if rows[test] % mark.args[0] else None
            rows[test] += 1
        item.stash[REASON] = reason
        (left if reason else kept).append(item)
        if reason and selection == "most":
            config.stash[LEFT][reason] += 1
    if selection != "all":
        items[:], dropped = (kept, left) if selection == "most" else (left, kept)
        config.hook.pytest_deselected(items=dropped)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """A worker tells the process that prints: only workers know tests."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        left: Counter[str] = session.config.stash[LEFT]
        output["left"] = dict(left)
    yield


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    left: Counter[str] = Counter(getattr(node, "workeroutput", {}).get("left", {}))
    node.config.stash[LEFT] = left


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash[LEFT]:
        why = ", ".join(f"{reason} {count}" for reason, count in left.most_common())
        terminalreporter.write_line(f"left to make test-all: {left.total()} tests ({why})")
