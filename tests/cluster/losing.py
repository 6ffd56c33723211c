"""A primary of a cluster is replaced by a follower that lacks what it has confirmed, and answers all the while."""

from __future__ import annotations

from tests.topologies.clusters import Cluster
from tests.topologies.nodes import Node


def leave_behind(primary: Node, follower: Node) -> None:
    """The follower hears nothing of its primary any more, though it tries to: it is not let in."""
    for option in ("masterauth", "masteruser"):
        follower.ask("CONFIG", "SET", option, "nobody")
    primary.ask("CLIENT", "KILL", "TYPE", "replica")


def take_over(cluster: Cluster, primary: Node, follower: Node) -> None:
    """It does without asking anybody; the old primary runs, answers MOVED and becomes its follower."""
    follower.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    assert cluster.wait_for_failover(primary) is follower
