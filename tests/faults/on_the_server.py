"""Faults of the server. Each returns the server that has the counts afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.on_the_link import TIMEOUT
from tests.faults.world import World
from tests.servers import RealServer
from tests.topologies import Pair

RESTARTS = 3


def scripts_flushed(world: World) -> RealServer:
    server = world.server()
    client = world.client(server.url)
    client.go()
    while not (world.reached() and world.struck >= 20):
        server.client().script_flush()
        world.struck += 1
        client.reach(1)
    client.pause()
    return server


def _restarted(world: World, server: RealServer, between: Callable[[], None]) -> None:
    client = world.client(server.url)
    for _ in range(RESTARTS):
        client.go()
        client.reach(world.size // RESTARTS // 2)
        server.kill()
        world.struck += 1
        between()
        server.restart()
        client.reach(world.size // RESTARTS // 2)
        client.pause()


def killed_with_aof(world: World) -> RealServer:
    server = world.server("--appendonly", "yes")
    _restarted(world, server, lambda: None)
    return server


def killed_without_persistence(world: World) -> RealServer:
    server = world.server()
    _restarted(world, server, lambda: None)
    return server


def stopped_and_resumed(world: World) -> RealServer:
    """SIGSTOP for longer than the client's time-out."""
    server = world.server()
    client = world.client(server.url, socket_timeout=TIMEOUT)
    for _ in range(world.times):
        client.go()
        client.reach(world.size // world.times // 2)
        server.pause()
        world.struck += 1
        time.sleep(5 * TIMEOUT)
        server.resume()
        client.reach(world.size // world.times // 2)
        client.pause()
    return server


def key_deleted(world: World) -> RealServer:
    """What was counted until then is to be gone, what is counted from then on is to be there."""
    server = world.server()
    client = world.client(server.url)
    client.count(world.size // 20)
    client.order("flush")
    world.delete(server)
    world.struck += 1
    world.issued -= client.issued
    client.count(world.size // 20)
    return server


def sentinel_fail_over(world: World) -> RealServer:
    """A healthy pair changes its parts while a client of the Sentinels counts."""
    pair = world.pair()
    sentinels, address = world.sentinels(pair)
    client = world.client(address)
    client.go()
    client.reach(world.size // 2)
    sentinels.fail_over()
    world.struck += 1
    client.reach(world.size // 4)  # at the old one, which goes on as a primary for some seconds
    client.pause()
    sentinels.demoted()
    client.go()
    client.reach(world.size // 4)
    client.pause()
    return pair.primary


def sentinel_primary_killed(world: World) -> RealServer:
    """The primary of a healthy pair is killed; the Sentinels find it and promote the follower."""
    pair = world.pair()
    sentinels, address = world.sentinels(pair)
    client = world.client(address)
    client.go()
    client.reach(world.size // 2)
    pair.primary.kill()
    world.struck += 1
    sentinels.wait()
    client.reach(world.size // 2)
    client.pause()
    return pair.primary


def follower_left_behind(world: World) -> RealServer:
    """Replication is paused, counting goes on, the primary is killed, the follower promoted at the same address."""
    pair = world.pair()
    link = world.link(pair.primary.url)
    client = world.client(link.url)
    client.count(world.size // 30)
    pair.caught_up()
    pair.pause_replication()
    client.count(world.size // 30)
    client.order("flush")
    pair.primary.kill()
    world.struck += 1
    pair.promote()
    link.lead_to(pair.primary.url)
    client.count(world.size // 30)
    return pair.primary


def demoted_with_open_connections(world: World) -> RealServer:
    """New connections lead to the promoted follower; those that exist stay with what is a follower now."""
    pair = world.pair()
    link = world.link(pair.primary.url)
    client = world.client(link.url)
    client.go()
    client.reach(world.size // 2)
    pair.promote()
    _follows(pair)
    link.lead_to(pair.primary.url, keep=True)
    world.struck += 1
    client.reach(world.size // 2)
    client.pause()
    return pair.primary


def _follows(pair: Pair) -> None:
    pair.follow()
