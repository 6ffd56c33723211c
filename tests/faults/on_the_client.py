"""What happens to processes that count. Each returns the server that has the counts afterwards."""

from __future__ import annotations

import time

from tests.faults.world import World
from tests.servers import RealServer


def killed_after_a_flush(world: World) -> RealServer:
    """SIGKILL, after all it counted is confirmed; the next process counts on."""
    server = world.server()
    while not world.reached():
        client = world.client(server.url)
        client.count(world.size // 30)
        client.order("flush")
        client.kill()
        world.struck += 1
        world.leave(client)
    return server


def killed_before_a_flush(world: World) -> RealServer:
    """SIGKILL in the middle of a batch; this library keeps a journal, which the next process finds."""
    server = world.server()
    journal = {"flush_interval": 60, "journal": world.directory(), "journal_mode": "always"}
    while not world.reached():
        client = world.client(server.url, ours=journal)
        client.count(world.size // 30)
        client.order("half")
        client.kill()
        world.struck += 1
        world.leave(client)
    last = world.client(server.url, ours=journal)
    last.count(1)
    last.order("flush")
    return server


def frozen_until_folded(world: World) -> RealServer:
    """SIGSTOP for so long that others have closed and folded what it had, as they do with dead processes."""
    server = world.server()
    client = world.client(server.url)
    for _ in range(3):
        client.go()
        client.reach(world.size // 6)
        client.freeze()
        world.fold(server)
        world.struck += 1
        client.thaw()
        client.reach(world.size // 6)
        client.pause()
    return server


def frozen_and_resumed(world: World) -> RealServer:
    """SIGSTOP for a second wherever it is, while another one counts on."""
    server = world.server()
    frozen, other = world.client(server.url), world.client(server.url)
    for client in (frozen, other):
        client.go()
    for _ in range(2):
        frozen.reach(world.size // 8)
        frozen.freeze()
        world.struck += 1
        time.sleep(1)
        other.reach(world.size // 8)
        frozen.thaw()
    for client in (frozen, other):
        client.reach(world.size // 8)
        client.pause()
    return server


def forked_in_a_batch(world: World) -> RealServer:
    """fork() in the middle of a batch of ten; parent and child count on."""
    server = world.server()
    client = world.client(server.url)
    while not world.reached() or world.struck < world.times:
        child = client.order("fork", 5)["child"]
        world.issued += child["issued"]
        world.raised += child["raised"]
        world.struck += 1
    return server


def replaced(world: World) -> RealServer:
    """A process closes while its replacement counts already, as in a rolling upgrade."""
    server = world.server()
    old = world.client(server.url)
    old.go()
    for _ in range(3):
        old.reach(world.size // 8)
        new = world.client(server.url)
        new.go()
        new.reach(world.size // 8)
        old.pause()
        world.close(old)
        world.struck += 1
        old = new
    old.reach(world.size // 8)
    old.pause()
    return server
