"""What regions lose comes back from their peers; what was never durable does not leave, where that is asked for."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from redis_counters import Counters, Durability, Event, EventKind, Exchange
from tests.docs.pages import ROOT
from tests.regions.support import Regions
from tests.servers import Kind, RealServer
from tests.topologies import Pair
from tests.waiting import until

NURSERY = """
import os, random, signal, sys, time
from redis_counters import Exchange
regions = dict(zip(("eu", "us"), sys.argv[2:]))
rng = random.Random(int(sys.argv[1]))
Exchange(regions).close()  # all is imported
for _ in range(50):
    child = os.fork()
    if not child:
        Exchange(regions, interval=0.002).start()
        time.sleep(60)
        os._exit(1)
    time.sleep(rng.choice((0.005, 0.02, 0.05, 0.1)) * rng.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("killed 50 times")
"""


@pytest.mark.slow("a dozen exchanges are killed")
def test_killed_at_random_points(two: Regions) -> None:
    """The exchange is killed 50 times while others count: whatever it was doing, the next one goes on from there."""
    command = [sys.executable, "-c", NURSERY, "1", *two.urls.values()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as nursery:
        rng = random.Random(7)
        while nursery.poll() is None:
            for _ in range(50):
                two.incr(rng.choice(("eu", "us")), f"n{rng.randrange(200)}", rng.randrange(1, 5))
            two.flush()
            time.sleep(0.01)
        assert nursery.stdout is not None
        assert nursery.stdout.read() == "killed 50 times\n"
    exchange = two.exchange()
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()


def test_deleted_by_hand(two: Regions) -> None:
    """A key that somebody deletes in one region is a loss, and healed; what was counted since then counts, too."""
    for n in range(20):
        two.incr("eu", f"n{n}", 5)
        two.incr("us", f"n{n}", 7)
    two.flush()
    exchange = two.exchange()
    exchange.run_once()
    for n in range(0, 20, 2):
        keys = list(two.client("eu").scan_iter(f"*:c:0:n{n}"))
        assert two.client("eu").delete(*keys) == 1
    two.incr("eu", "n2", 1)
    two.incr("us", "n4", 1)
    two.flush()
    exchange.run_once()
    assert two.wrong() == []
    assert exchange.stats().pairs["eu", "us"].repaired > 0
    exchange.close()


@pytest.mark.parametrize("with_key", [True, False], ids=["with the key", "without the key"])
def test_a_region_that_falls_back(two: Regions, with_key: bool) -> None:
    """A server comes back with an older state: what its peers have of it comes back, and it counts on."""
    here = two
    here.counters["eu"].close()
    here.counters["eu"] = Counters.from_url(here.urls["eu"])  # it only reads, so it has nothing to tell again
    exchange = here.exchange()
    if with_key:
        with Counters.from_url(here.urls["eu"]) as gone:
            gone.incr("a", 5)
        here.truth["a"] = 5
    exchange.run_once()
    here.client("eu").save()
    with Counters.from_url(here.urls["eu"]) as gone:
        gone.incr("a", 30)
        gone.incr("b", 3)
    here.truth["a"] = here.truth.get("a", 0) + 30
    here.truth["b"] = 3
    exchange.run_once()
    assert here.wrong() == []
    here.servers["eu"].disconnect()
    here.servers["eu"].kill()
    here.servers["eu"].restart()  # whoever counted there is gone, so nobody tells it again
    here.counters["eu"].close()
    here.counters["eu"] = Counters.from_url(here.urls["eu"], flush_interval=0.02)
    here.incr("eu", "a", 1)
    here.incr("eu", "c", 1)
    here.flush()
    exchange.run_once()
    wrong = here.wrong()
    # A new actor's counts under the dot that fell back are told from the old ones only by who is alive.
    assert [each for each in wrong if each[1] != "a"] == []
    here.counters["us"].incr("a", 100)
    here.truth["a"] += 100
    here.flush()
    exchange.run_once()
    values = here.read("a")
    assert len(set(values.values())) == 1
    assert values["eu"] in (here.truth["a"], here.truth["a"] - 1)
    exchange.close()


@pytest.mark.slow("servers that are killed")
def test_only_durable_state_leaves(any_kind: Kind) -> None:
    """With durability nothing goes on that the followers do not have; it does once they have it."""
    pair = Pair(any_kind)
    us = RealServer.start(any_kind)
    try:
        durability = Durability(replicas=1, timeout=0.05)
        with (
            Counters.from_url(pair.primary.url) as eu,
            Counters.from_url(us.url) as there,
            Exchange(
                {"eu": pair.primary.url, "us": us.url}, durability=durability, links=[("eu", "us")], interval=0.02
            ) as exchange,
        ):
            us_follower = RealServer.start(any_kind, "--repl-diskless-sync-delay", "0")
            try:
                us_follower.client().execute_command("REPLICAOF", us.host, us.port)  # type: ignore[no-untyped-call]
                eu.incr("a", 3)
                eu.flush()
                until(lambda: there.get("a", max_age=0) == 3, "what is durable has gone over")
                pair.pause_replication()
                eu.incr("a", 4)
                eu.flush()
                stats = exchange.stats().pairs["eu", "us"]
                before = stats.unconfirmed
                until(lambda: exchange.stats().pairs["eu", "us"].unconfirmed > before + 2, "that is counted")
                assert there.get("a", max_age=0) == 3
                assert "confirmed" in (exchange.stats().pairs["eu", "us"].last_error or "")
                pair.follow()
                until(lambda: there.get("a", max_age=0) == 7, "the followers have it, so it goes over")
            finally:
                us_follower.stop()
    finally:
        pair.stop()
        us.stop()


@pytest.mark.parametrize("once", [True, False], ids=["once", "going on"])
def test_a_failover_of_the_source(any_kind: Kind, once: bool) -> None:
    """A follower that lags is promoted: it has a new incarnation, and gets back what its peer has of it."""
    pair = Pair(any_kind)
    us = RealServer.start(any_kind)
    try:
        urls = {"eu": pair.primary.url, "us": us.url}
        with Counters.from_url(urls["eu"]) as eu:
            eu.incr("a", 3)
            eu.flush()
            Exchange(urls).run_once()
            pair.caught_up()
            pair.pause_replication()
            eu.incr("a", 4)
            eu.incr("b", 9)
            eu.flush()
            Exchange(urls).run_once()
        pair.primary.kill()
        pair.promote()
        urls["eu"] = pair.primary.url
        events: list[Event] = []
        exchange = Exchange(urls, observer=events.append)
        with Counters.from_url(urls["eu"]) as eu, Counters.from_url(urls["us"]) as there:

            def healed() -> bool:
                return all(each.get_many(["a", "b"], max_age=0) == {"a": 7, "b": 9} for each in (eu, there))

            if once:
                exchange.run_once()
                assert healed()
            else:
                exchange.start()
                until(healed, "what was lost is back, long before all was compared")
        exchange.close()
        behind = [event.message for event in events if event.kind is EventKind.REGION_BEHIND]
        assert behind
        assert not once or "region eu had lost counts of its own, in 2 shards" in behind[0]
    finally:
        pair.stop()
        us.stop()
