"""A Redis Cluster of the tests does what its methods say, on every kind of server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from redis import exceptions

from tests.servers import Kind
from tests.topologies import SLOTS, Cluster, Moving, slot_of

pytestmark = pytest.mark.slow("clusters")


@pytest.fixture
def whole(kind: Kind) -> Iterator[Cluster]:
    cluster = Cluster(kind, followers=1)
    yield cluster
    cluster.stop()


def other_than(cluster: Cluster, key: str) -> Any:
    """Return a primary that the key is not at."""
    return next(node for node in cluster.primaries() if node is not cluster.node_of(key))


def test_it_has_all_slots_and_a_follower_for_each_primary(whole: Cluster) -> None:
    """Three processes with a third of the hash slots each, three that follow them; any key can be written."""
    primaries = whole.primaries()
    assert len(primaries) == 3
    assert len({node.pid for node in whole.nodes}) == 6
    assert [[follower] for follower in whole.nodes[3:]] == [whole.followers_of(primary) for primary in primaries]
    assert [whole.node_of(SLOTS * n // 3) for n in range(3)] == primaries
    assert whole.node_of(SLOTS - 1) is primaries[2]
    client = whole.client()
    for n in range(100):
        client.set(f"k{n}", n)
        assert int(whole.node_of(f"k{n}").ask("GET", f"k{n}")) == n
    assert sum(stats["set"] for node, stats in whole.commandstats().items() if node in primaries) == 100
    whole.reset_stats()
    assert not any("set" in stats for stats in whole.commandstats().values())
    whole.flushall()
    assert [node.ask("DBSIZE") for node in primaries] == [0, 0, 0]


def test_a_follower_takes_over_from_a_killed_primary(whole: Cluster) -> None:
    """It has what the primary had; the old one comes back as its follower. Asked to, it hands back."""
    client = whole.client()
    client.set("x", "1")
    old = whole.node_of("x")
    (follower,) = whole.followers_of(old)
    assert client.wait(1, 0, target_nodes=client.get_node(old.host, old.port)) == 1
    old.kill()
    assert whole.wait_for_failover(old) is follower
    assert whole.node_of("x") is follower
    assert client.get("x") == b"1"
    old.restart()
    whole.agreed()
    assert whole.followers_of(follower) == [old]
    assert whole.fail_over(follower) is old
    assert client.get("x") == b"1"


def test_a_follower_takes_over_from_a_primary_that_is_silent(whole: Cluster) -> None:
    """Stopped by SIGSTOP, its connections stay open; when it goes on it becomes a follower."""
    old = whole.node_of("x")
    old.pause()
    new = whole.wait_for_failover(old)
    old.resume()
    whole.agreed()
    assert whole.followers_of(new) == [old]


def test_a_slot_on_its_way_answers_ask_and_tryagain_and_then_moved(cluster: Cluster) -> None:
    """ASK for what the old primary does not have, TRYAGAIN for what is split, MOVED when it is over."""
    source, target = cluster.node_of("{x}1"), other_than(cluster, "{x}1")
    for n in range(1, 4):
        source.ask("SET", f"{{x}}{n}", n)
    source.ask("SET", b"{x}\xff", "4")
    moving = Moving(cluster, slot_of("{x}"), target)
    assert sorted(moving.keys()) == [b"{x}1", b"{x}2", b"{x}3", b"{x}\xff"]
    moving.move("{x}1")
    assert source.ask("GET", "{x}2") == b"2"
    with pytest.raises(exceptions.AskError) as asked:
        source.ask("GET", "{x}1")
    assert asked.value.node_addr == (target.host, target.port)
    with pytest.raises(exceptions.MovedError):
        target.ask("GET", "{x}1")
    target.ask("ASKING")
    assert target.ask("GET", "{x}1") == b"1"
    target.ask("ASKING")
    with pytest.raises(exceptions.TryAgainError):
        target.ask("MGET", "{x}1", "{x}2")
    moving.finish()
    assert cluster.node_of("{x}1") is target
    with pytest.raises(exceptions.MovedError):
        source.ask("GET", "{x}1")
    assert target.ask("MGET", "{x}1", "{x}2", "{x}3", b"{x}\xff") == [b"1", b"2", b"3", b"4"]
    cluster.move_slot(slot_of("{x}"), source)
    assert source.ask("GET", "{x}1") == b"1"


def test_without_a_follower_the_slots_of_a_killed_primary_are_down(any_kind: Kind) -> None:
    """The whole cluster says CLUSTERDOWN, until the primary is back."""
    cluster = Cluster(any_kind)
    try:
        old = cluster.node_of("x")
        elsewhere = other_than(cluster, "x")
        old.kill()
        cluster.until(lambda: not elsewhere.view().ok, "the others notice")
        with pytest.raises(exceptions.ClusterDownError):
            elsewhere.ask("GET", next(f"y{n}" for n in range(1000) if cluster.node_of(f"y{n}") is elsewhere))
        old.restart()
        cluster.agreed()
        assert old.ask("SET", "x", "1")
    finally:
        cluster.stop()


def test_a_cluster_whose_nodes_never_agree_shows_their_logs(any_kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads of the failure sees which node was in the way, and what it said last."""
    cluster = Cluster(any_kind)
    try:
        monkeypatch.setattr("tests.waiting.PATIENCE", 0.1)
        cluster.nodes[0].pause()
        with pytest.raises(AssertionError, match=r"(?s)never: .*paused.*Cluster state changed: ok"):
            cluster.agreed()
        cluster.nodes[0].resume()
    finally:
        cluster.stop()


def test_after_stop_no_process_is_left(any_kind: Kind) -> None:
    """Every node is ended by its pid, also a paused one."""
    cluster = Cluster(any_kind)
    pids = [node.pid for node in cluster.nodes]
    cluster.nodes[1].pause()
    cluster.stop()
    assert not cluster.running()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
