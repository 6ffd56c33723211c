"""Real servers: ``server`` runs a test on every kind at hand, ``any_server`` on one, ``private_server`` on its own.

``cluster``, ``any_cluster`` and ``private_cluster`` are the same of a Redis Cluster.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import settings

from tests.browser import installed
from tests.needs import required
from tests.servers import REQUIRED, Kind, RealServer, kinds, missing
from tests.topologies import Cluster, Pair, Sentinels

pytest_plugins = ("tests.selection",)  # which tests are left to `make test-all`

NO_SERVER = "no server: neither redis-server nor valkey-server on PATH, and none of the wheels with one is installed"

settings.register_profile("patient", deadline=None)  # a machine may be busy
settings.load_profile("patient")


def pytest_sessionstart() -> None:
    """Fail at once if a required server or browser is not here, instead of skipping what would have used it."""
    absent = missing(os.environ.get(REQUIRED, ""), [kind.name for kind in kinds()])
    if absent:
        raise pytest.UsageError(f"{REQUIRED}: not found: {', '.join(absent)}; found: {_found()}")
    if os.environ.get(installed.REQUIRED) and installed.missing():
        raise pytest.UsageError(f"{installed.REQUIRED}: {installed.missing()}")
    required()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # children have the default again, too


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> Iterator[None]:
    """Some hundred tests start processes: where none may write bytecode beside the sources, each would compile them."""
    with tempfile.TemporaryDirectory(prefix="rc-test-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", folder)
        yield


def pytest_report_header() -> str:
    return f"servers: {_found()}"


def _found() -> str:
    return ", ".join(f"{kind.name} ({kind.binary})" for kind in kinds()) or "none"


@pytest.fixture(scope="session")
def _running() -> Iterator[Callable[[Kind], RealServer]]:
    """One server a kind for the whole session, started when first asked for."""
    servers: dict[str, RealServer] = {}

    def get(kind: Kind) -> RealServer:
        if kind.name not in servers:
            servers[kind.name] = RealServer.start(kind)
        return servers[kind.name]

    yield get
    for server in servers.values():
        server.stop()


def _emptied(server: RealServer) -> Iterator[RealServer]:
    server.client().flushall()
    yield server
    server.disconnect()


@pytest.fixture(
    params=[pytest.param(kind, id=kind.name) for kind in kinds()]
    or [pytest.param(None, id="none", marks=pytest.mark.skip(reason=NO_SERVER))]
)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of server at hand, one after the other."""
    found: Kind = request.param
    return found


@pytest.fixture
def any_kind() -> Kind:
    """One kind, for tests where it does not matter which."""
    if not kinds():
        pytest.skip(NO_SERVER)
    return kinds()[0]


@pytest.fixture
def server(kind: Kind, _running: Callable[[Kind], RealServer]) -> Iterator[RealServer]:
    """An empty server of every kind; shared by the session, so it must be left running."""
    yield from _emptied(_running(kind))


@pytest.fixture
def any_server(any_kind: Kind, _running: Callable[[Kind], RealServer]) -> Iterator[RealServer]:
    """An empty server of one kind; shared by the session, so it must be left running."""
    yield from _emptied(_running(any_kind))


@pytest.fixture
def private_server(any_kind: Kind) -> Iterator[RealServer]:
    """A fresh server for one test, which may pause, kill and restart it."""
    server = RealServer.start(any_kind)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _running_clusters() -> Iterator[Callable[[Kind], Cluster]]:
    """One cluster a kind for the whole session, started when first asked for."""
    clusters: dict[str, Cluster] = {}

    def get(kind: Kind) -> Cluster:
        if kind.name not in clusters:
            clusters[kind.name] = Cluster(kind)
        return clusters[kind.name]

    yield get
    for cluster in clusters.values():
        cluster.stop()


def _emptied_cluster(cluster: Cluster) -> Iterator[Cluster]:
    cluster.flushall()
    before = cluster.layout
    yield cluster
    cluster.disconnect()
    assert cluster.agreed() == before, "the test has left the shared cluster other than it was"


@pytest.fixture
def cluster(kind: Kind, _running_clusters: Callable[[Kind], Cluster]) -> Iterator[Cluster]:
    """An empty cluster of every kind, three primaries; shared by the session, so its slots must be left in place."""
    yield from _emptied_cluster(_running_clusters(kind))


@pytest.fixture
def any_cluster(any_kind: Kind, _running_clusters: Callable[[Kind], Cluster]) -> Iterator[Cluster]:
    """An empty cluster of one kind, three primaries; shared by the session, so its slots must be left in place."""
    yield from _emptied_cluster(_running_clusters(any_kind))


@pytest.fixture
def private_cluster(any_kind: Kind) -> Iterator[Cluster]:
    """A fresh cluster for one test, which may break it: three primaries with a follower each."""
    cluster = Cluster(any_kind, followers=1)
    yield cluster
    cluster.stop()


@pytest.fixture
def sentinels(any_kind: Kind) -> Iterator[Sentinels]:
    """Three Sentinels for one test, round a fresh pair of a primary and a follower."""
    pair = Pair(any_kind)
    try:
        sentinels = Sentinels(pair)
        yield sentinels
        sentinels.stop()
    finally:
        pair.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the logs of its cluster."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Cluster):
                report.sections.append((f"logs of {name}", value.logs()))
    return report
