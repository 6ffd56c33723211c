"""Several servers together: a primary with a follower, Sentinels that watch the two, a Redis Cluster;
a proxy that changes the server behind open connections.
"""

from tests.topologies.clusters import SLOTS, Cluster, Moving, slot_of
from tests.topologies.nodes import Node
from tests.topologies.pairs import Pair, replication
from tests.topologies.sentinels import WATCHED, Sentinel, Sentinels
from tests.topologies.switches import Switch

__all__ = [
    "SLOTS",
    "WATCHED",
    "Cluster",
    "Moving",
    "Node",
    "Pair",
    "Sentinel",
    "Sentinels",
    "Switch",
    "replication",
    "slot_of",
]
