"""The connections over which a process flushes: when it writes on one for the first time, its driver says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.keys import bucket_of

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World


class Connections:
    """Of one process, one to each server. ``broken``: whoever waits for an answer finds out."""

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process
        self.written: set[int] = set()  # servers, over the connection to them that there is
        self.broken = False
        self.as_of = 0  # how often the server's state had gone back when it last wrote on a new one

    def write(self, command: Command) -> None:
        """The command goes to its server; where it is the first over that connection, the core hears of it."""
        key = command.keys[0] if command.keys else b""
        node = self.world.nodes[bucket_of(key) if key.startswith(b"{") else 0]
        if node not in self.written:
            self.written.add(node)
            self.as_of = self.world.fall_backs
            self.process.core.new_connection()

    def close(self) -> None:
        """There is none any more."""
        self.written.clear()
        self.broken = False
