"""Losses that end no call with an error. What others see is compared while the processes that counted live.

Each returns the server, or the cluster, that has the counts then.
"""

from __future__ import annotations

import time

from redis_counters.protocol.wire.keys import KeySpace
from tests.cluster.losing import leave_behind, take_over
from tests.faults.sides import NAME, OURS
from tests.faults.world import Client, World
from tests.servers import RealServer
from tests.topologies import Cluster, Pair

WINDOW = 1.0  # seconds: a re-assert window that is soon over

IDLE = 95.0  # seconds of doing nothing: by then a process looks as seldom as it ever does, and has just looked


def _apart(world: World, keys: KeySpace, cluster: Cluster | None = None) -> str:
    """Return another counter, whose telling tells nothing of x: in another bucket, of the same primary."""
    if world.side not in OURS:
        return "y"
    bucket, key = keys.shard_key(NAME.encode(), 0)
    places = {f"y{n}": keys.shard_key(b"y%d" % n, 0) for n in range(1000)}
    return next(
        name
        for name, (its_bucket, its_key) in places.items()
        if its_bucket != bucket and (cluster is None or cluster.node_of(its_key) is cluster.node_of(key))
    )


def _of_one_server(world: World) -> str:
    return _apart(world, KeySpace(b"rc", 16))


def _counted(world: World, client: Client, other: str, pause: float = 0.0) -> None:
    """Some of x, and the other one, is in Redis."""
    client.count(world.size // 20)
    client.order("turn to", other)
    client.count(1)
    client.order("turn to", NAME)
    client.order("flush")
    time.sleep(pause)


def _counted_more(world: World, client: Client, pause: float = 0.0) -> None:
    """This much of x is going to be lost."""
    client.count(world.size // 20)
    client.order("flush")
    time.sleep(pause)


def _goes_on(client: Client, other: str) -> None:
    """It counts nothing but the other one."""
    client.order("turn to", other)
    client.go()


def _fallen_behind(world: World, pair: Pair, address: str, pause: float = 0.0) -> tuple[Client, str]:
    """The follower lacks half of x."""
    client, other = world.client(address, ours={"reassert_window": WINDOW} if pause else {}), _of_one_server(world)
    _counted(world, client, other, pause)
    pair.caught_up()
    pair.pause_replication()
    _counted_more(world, client, pause)
    return client, other


def promoted_behind_the_address(world: World, pause: float = 0.0) -> RealServer:
    """The primary is killed, and the follower, which was left behind, promoted at the same address."""
    pair = world.pair()
    link = world.link(pair.primary.url)
    client, other = _fallen_behind(world, pair, link.url, pause)
    link.stop()
    pair.primary.kill()
    pair.promote()
    link.lead_to(pair.primary.url)
    link.start()
    world.lost()
    _goes_on(client, other)
    return pair.primary


def promoted_after_the_window(world: World) -> RealServer:
    """The same; the re-assert window was over before the follower fell behind, and again before it was promoted."""
    return promoted_behind_the_address(world, pause=2.5 * WINDOW)


def switched_behind_open_connections(world: World) -> RealServer:
    """A proxy leads to the promoted follower, by the connections that it has."""
    pair = world.pair()
    switch = world.switch(pair.primary.url)
    client, other = _fallen_behind(world, pair, switch.url)
    pair.promote()
    switch.lead_to(pair.primary.url)
    world.lost()
    _goes_on(client, other)
    return pair.primary


def demoted_and_promoted_again(world: World) -> RealServer:
    """The primary has followed the one that was left behind, and is the primary again; its connections were open."""
    pair = world.pair()
    client, other = _fallen_behind(world, pair, pair.primary.url)
    pair.promote()
    pair.follow()
    pair.promote()
    world.lost()
    _goes_on(client, other)
    return pair.primary


def taken_over_in_a_cluster(world: World) -> Cluster:
    """CLUSTER FAILOVER TAKEOVER by a follower that was left behind; the old primary runs, and answers MOVED."""
    cluster, keys = world.cluster(), KeySpace(b"rc", 64)
    other = _apart(world, keys, cluster)
    primary = cluster.node_of(keys.shard_key(NAME.encode(), 0)[1] if world.side in OURS else NAME)
    (follower,) = cluster.followers_of(primary)
    client = world.client(f"cluster://{','.join(f'{host}:{port}' for host, port in cluster.addresses)}")
    _counted(world, client, other)
    cluster.caught_up(primary)
    leave_behind(primary, follower)
    _counted_more(world, client)
    take_over(cluster, primary, follower)
    world.lost()
    _goes_on(client, other)
    return cluster


def promoted_by_sentinels_while_idle(world: World) -> RealServer:
    """Sentinels promote a follower that was left behind; the process does nothing until then, and then it reads."""
    pair = world.pair()
    sentinels, address = world.sentinels(pair)
    client, _other = _fallen_behind(world, pair, address)
    pair.primary.kill()
    sentinels.wait()
    world.lost()
    client.order("look")
    return pair.primary


def flushed_and_read(world: World) -> RealServer:
    """FLUSHALL while the process does nothing; then it reads what it has counted."""
    server = _flushed(world)
    world.clients[0].order("look")
    return server


def restarted_and_read(world: World) -> RealServer:
    """The server is killed and starts anew, empty, while the process does nothing; then it reads."""
    server = world.server()
    client = world.client(server.url)
    _counted_more(world, client)
    server.kill()
    server.restart()
    world.lost()
    client.order("look")
    return server


def flushed_and_left_alone(world: World) -> RealServer:
    """FLUSHALL while the process does nothing, and goes on doing nothing."""
    return _flushed(world, idle=IDLE if world.size >= 1000 and world.side in OURS else 1.0)


def _flushed(world: World, idle: float = 0.0) -> RealServer:
    server = world.server()
    _counted_more(world, world.client(server.url), idle)
    server.client().flushall()
    world.lost(silent=bool(idle))
    return server


def flushed_under_busy_processes(world: World) -> RealServer:
    """FLUSHALL again and again while processes count, and read what they have counted."""
    server = world.server()
    clients = [world.client(server.url) for _ in range(2)]
    for client in clients:
        client.order("look", 1)
        client.go()
    for _ in range(5):
        for client in clients:
            client.reach(world.size // 12)
        server.client().flushall()
        world.lost()
    for client in clients:
        client.pause()
    return server
