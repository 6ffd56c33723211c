"""Clients that reach the servers of a cluster by links only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.cluster import ClusterNode as AsyncioNode
from redis.cluster import ClusterNode

from redis_counters.testing import LossyLink

Address = tuple[str, int]
Links = dict[Address, LossyLink]


def address_of(link: LossyLink) -> Address:
    parts = urlsplit(link.url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def through(face: str, links: Links, **options: Any) -> Any:
    """Return a client that reaches each server by its link only."""
    known: dict[Any, Address] = {address: address_of(link) for address, link in links.items()}
    known |= {there: there for there in known.values()}
    node: Any = AsyncioNode if face == "asyncio" else ClusterNode
    cluster: Any = redis.asyncio.RedisCluster if face == "asyncio" else redis.RedisCluster
    nodes = [node(*address_of(link)) for link in links.values()]
    return cluster(startup_nodes=nodes, address_remap=known.__getitem__, **options)
