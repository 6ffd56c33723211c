"""Faults between client and server, by a lossy link. Each returns the server that has the counts afterwards."""

from __future__ import annotations

import time

from tests.faults.world import World
from tests.servers import RealServer

COUNTING = {"INCRBY", "EVALSHA", "EVAL"}  # what the ways of counting send; what a connection begins with is spared
RARE = 100  # one in so many commands is struck
TIMEOUT = 0.1  # seconds, where a fault is about time-outs


def replies_lost(world: World) -> RealServer:
    server = world.server()
    link = world.link(server.url)
    link.drop_reply(every=RARE, commands=COUNTING)
    world.client(link.url).count_until(lambda: world.reached() and link.dropped >= world.times)
    world.struck = link.dropped
    return server


def cut_before_applying(world: World) -> RealServer:
    server = world.server()
    link = world.link(server.url)
    link.cut_before(every=RARE - 1, commands=COUNTING)  # 99: not always at the same place of a batch
    world.client(link.url).count_until(lambda: world.reached() and link.cut >= world.times)
    world.struck = link.cut
    return server


def replies_late(world: World) -> RealServer:
    server = world.server()
    link = world.link(server.url)
    link.delay(3 * TIMEOUT, every=RARE, commands=COUNTING)
    client = world.client(link.url, socket_timeout=TIMEOUT)
    client.count_until(lambda: world.reached() and link.delayed >= world.times)
    world.struck = link.delayed
    return server


def commands_doubled(world: World) -> RealServer:
    server = world.server()
    link = world.link(server.url)
    link.duplicate(every=RARE, commands=COUNTING)
    world.client(link.url).count_until(lambda: world.reached() and link.duplicated >= world.times)
    world.struck = link.duplicated
    return server


def server_away(world: World) -> RealServer:
    """Nothing listens for two seconds, in the middle of counting."""
    server = world.server()
    link = world.link(server.url)
    client = world.client(link.url)
    for _ in range(2):
        client.go()
        client.reach(world.size // 3)
        link.stop()
        world.struck += 1
        time.sleep(2)
        link.start()
        client.reach(world.size // 6)
        client.pause()
    return server


def tasks_cancelled(world: World) -> RealServer:
    """Counting in tasks of asyncio over a slow link, each task cancelled at some moment."""
    server = world.server()
    link = world.link(server.url)
    client = world.client(link.url)
    link.delay(0.005)
    while not world.reached():
        client.order("cancel", 10)
        world.struck += 10
    link.heal()
    return server
