"""One region hangs, or drips: ``exchange --once`` and ``verify`` end, with what there is of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from redis_counters import Counters
from redis_counters.testing import LossyLink
from tests.cli.commands import run
from tests.servers import RealServer

pytestmark = pytest.mark.slow("each waits for a region that hangs")

NAMES = ("eu", "us", "ap")


@pytest.fixture(scope="module")
def servers() -> Iterator[list[RealServer]]:
    from tests.servers import kinds

    if not kinds():
        pytest.skip("no server")
    found = [RealServer.start(kinds()[0]) for _ in NAMES]
    yield found
    for server in found:
        server.stop()


@pytest.fixture
def hung(servers: list[RealServer]) -> Iterator[LossyLink]:
    """The third region, by a link that does not get through."""
    for server in servers:
        server.client().flushall()
    for server, amount in zip(servers, (4, 2, 1), strict=True):
        with Counters.from_url(server.url) as counters:
            counters.add("likes", amount)
    with LossyLink(servers[2].url) as link:
        yield link


def regions(servers: list[RealServer], link: LossyLink) -> list[str]:
    urls = [servers[0].url, servers[1].url, link.url]
    return [word for name, url in zip(NAMES, urls, strict=True) for word in ("--region", f"{name}={url}")]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("drips", [False, True])
def test_exchange_once(servers: list[RealServer], hung: LossyLink, drips: bool) -> None:
    """The healthy two have what the other has, the table says so, and why not of the third; exit code as for any."""
    words = regions(servers, hung)
    if drips:
        hung.drip(0.5)
    else:
        hung.delay(3600)
    done = run(None, "exchange", "--once", *words)
    assert done.returncode not in (0, 130)
    lines = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert lines[0][:2] == ["from", "to"]
    pairs = {(line[0], line[1]): line for line in lines[1:]}
    assert len(pairs) == 6
    for pair, line in pairs.items():
        assert ("ap" in pair) == (line[2] == "never"), line
        assert ("ap" in pair) == bool(line[-1]), line
    assert b"region ap" in done.stderr
    for server in servers[:2]:
        with Counters.from_url(server.url) as counters:
            assert counters.get("likes", max_age=0) == 6


@pytest.mark.timeout(120)
@pytest.mark.parametrize("drips", [False, True])
def test_verify(servers: list[RealServer], hung: LossyLink, drips: bool) -> None:
    """The healthy two are compared; that the third is not is said as JSON, and is no agreement."""
    assert run(None, "exchange", "--once", *regions(servers, hung)).returncode == 0
    with Counters.from_url(servers[0].url) as counters:
        counters.add("likes", 10)
    if drips:
        hung.drip(0.5)
    else:
        hung.delay(3600)
    done = run(None, "verify", "--wait", "0", "--json", *regions(servers, hung))
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [(d["region"], d["owner"], d["lacks"]) for d in found["differences"]] == [("us", "eu", 10)]
    assert list(found["not_compared"]) == ["ap"]
    assert done.stderr == b""


@pytest.mark.timeout(120)
def test_verify_of_a_region_that_hangs_later(servers: list[RealServer], hung: LossyLink) -> None:
    """It answered at first: the others are compared anew, without it."""
    assert run(None, "exchange", "--once", *regions(servers, hung)).returncode == 0
    hung.delay(3600, commands={"ZSCAN"}, every=1)
    done = run(None, "verify", *regions(servers, hung))
    assert (done.returncode, hung.delayed > 0) == (1, True)
    assert b"compared 1 shard in eu, us: nothing differs" in done.stdout
    assert b"region ap is not compared: " in done.stderr


@pytest.mark.timeout(120)
def test_verify_of_too_few(servers: list[RealServer], hung: LossyLink) -> None:
    """Where fewer than two answer there is nothing to compare: it says why, and fails as it did."""
    hung.delay(3600)
    done = run(None, "verify", "--region", f"eu={servers[0].url}", "--region", f"ap={hung.url}")
    assert done.returncode == 1
    assert b"region ap: " in done.stderr
    assert done.stdout == b""
