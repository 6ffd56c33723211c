"""What large flushes have noted comes to other regions like everything else, and is compared like everything else."""

from __future__ import annotations

from zlib import crc32

import pytest

from redis_counters import Counters
from redis_counters.drivers.exchange.sessions import drive
from redis_counters.protocol.exchange.asks import Job, Meter, together
from redis_counters.protocol.exchange.compare import Comparison
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.pull import MAX_CHANGES
from tests.regions.support import Regions
from tests.regions.test_quiet import Simulated

pytestmark = pytest.mark.slow("thousands of counters")

COUNTERS = 4_000  # 250 of them in a bucket


def noted(here: Regions, region: str) -> int:
    """Return how many names wait to be entered."""
    client = here.client(region)
    return sum(int(client.hget(key, "p") or 0) for key in client.scan_iter("{rc:*}:a"))


def count(here: Regions, region: str, amount: int = 1) -> None:
    for n in range(COUNTERS):
        here.incr(region, f"likes:{n}", amount)
    here.counters[region].flush()


def compare(here: Regions) -> list[Comparison]:
    """Compare all buckets, and nothing else."""
    simulated, link = Simulated(here), ("eu", "us")
    route, errors = simulated.pairs[link].route, list[object]()
    assert route is not None
    comparisons = [Comparison(route, bucket, both=True) for bucket in range(16)]
    metrics = SyncMetrics()
    jobs = [Job(each.whole(metrics), lambda error, _: errors.append(error), Meter()) for each in comparisons]
    drive(together(iter(jobs)), simulated.lanes[link], link)
    simulated.close()
    assert errors == []
    return comparisons


def test_all_of_it_comes(two: Regions) -> None:
    """New counters and known ones, of both; whatever came in between."""
    two.exchange().run_once()
    for amount in (1, 2, 3):
        for region in two.servers:
            count(two, region, amount)
            assert noted(two, region) >= COUNTERS * 0.9
        two.exchange().run_once()
        assert (noted(two, "eu"), noted(two, "us")) == (0, 0)
        assert two.wrong() == []


def test_what_was_lost_and_made_again_is_added(two: Regions) -> None:
    """By another process, which has not looked whether it was there: under another dot."""
    two.exchange().run_once()
    count(two, "eu", 5)
    two.exchange().run_once()
    two.counters["eu"].close()
    client = two.client("eu")
    client.delete(*client.scan_iter("{rc:*}:c:*", count=1000))
    two.counters["eu"] = Counters.from_url(two.servers["eu"].url, flush_interval=0.02)
    count(two, "eu", 7)
    compare(two)
    two.exchange().run_once()
    assert two.wrong() == []


def test_while_more_comes(two: Regions) -> None:
    with two.exchange():
        for amount in range(1, 8):
            count(two, "eu", amount)
            count(two, "us", amount)
        two.equal()


def test_it_is_compared_too(two: Regions) -> None:
    """Without pulling: what either side has only noted is found, and what it lacks of the other's, brought."""
    two.exchange().run_once()
    count(two, "eu")
    for n in range(COUNTERS, 2 * COUNTERS):
        two.incr("us", f"likes:{n}")
    two.flush()
    comparisons = compare(two)
    assert [each.differed for each in comparisons] == [each.at - 1 for each in comparisons]  # (one stands for none)
    assert two.wrong() == []


def test_more_than_two_pages_to_settle(two: Regions) -> None:
    """What was lost again goes without a change, so there is no news; what is behind it comes all the same."""
    names = [name for n in range(80_000) if crc32(name := b"a%d" % n) % 16 == 0]
    last = next(f"z{n}" for n in range(100) if crc32(b"z%d" % n) % 16 == 0)
    two.incr("eu", last, 5)
    two.flush()
    two.exchange().run_once()
    client = two.client("eu")
    client.delete(f"{{rc:0}}:c:0:{last}")
    client.zadd("{rc:0}:x", {b"\nc\n0:" + last.encode(): -client.hincrby("{rc:0}:a", "v", 1)})
    client.hset("{rc:0}:a", "p", 1)
    two.incr("eu", last, 3)
    two.flush()
    two.counters["eu"].reset("a0")  # which enters all notes
    client.zadd("{rc:0}:x", {b"\nr\n0:" + name: 0 for name in names})
    two.exchange().run_once()
    assert two.wrong() == []


def test_a_registry_that_is_lost_joins_again(two: Regions) -> None:
    """Alone, as by eviction: the bucket's record of joining is still there, and so are its notes."""
    count(two, "eu")
    two.exchange().run_once()
    count(two, "eu", 2)
    two.client("eu").delete("{rc:0}:a")
    count(two, "eu", 3)
    two.exchange().run_once()
    assert two.wrong() == []


def test_a_version_that_is_entered_in_parts_is_pulled_whole(two: Regions) -> None:
    """Of a flush that has made more than are entered at a time: what else it changed is not left for the next look."""
    two.incr("eu", "a")
    two.flush()
    simulated, link = Simulated(two), ("eu", "us")
    pair = simulated.pairs[link]
    drive(pair.pull_all(set()), simulated.lanes[link], link)
    bucket, client = crc32(b"a") % 16, two.client("eu")
    two.incr("eu", "a", 2)
    two.flush()
    version = int(client.hget(f"{{rc:{bucket}}}:a", "v") or 0)
    made = b"\n".join(b"0:%d" % n for n in range(MAX_CHANGES))
    client.zadd(f"{{rc:{bucket}}}:x", {b"\nm%d\n%b" % (version, made): -version, b"\nc\n0:a": -version, b"0:a": 1})
    client.hset(f"{{rc:{bucket}}}:a", "p", MAX_CHANGES + 1)
    drive(pair.pull_all(set()), simulated.lanes[link], link)
    simulated.close()
    assert two.wrong() == []
