"""The server of a cluster that a command belongs to, and redirections: the answers of a wrong server."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from redis import exceptions
from redis.crc import key_slot

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.errors import Unavailable
from redis_counters.protocol.wire.commands import Command, ErrorReply

BROKEN = (exceptions.RedisError, exceptions.RedisClusterException, OSError)  # what comes up when a server is not there

Address = tuple[str, int]


class Redirection(NamedTuple):
    """Where a command is to be sent; ``for_good`` (MOVED), or this once (ASK) while the slot is on its way."""

    slot: int
    address: Address
    for_good: bool


def hash_slot_of(command: Command) -> int | None:
    """Return the hash slot of the command's keys, or of where it is meant to go; None if any server will do."""
    key = command.keys[0] if command.keys else command.at
    if not key:
        return None
    end = key.find(b"}") + 1
    return _slot(key[:end] if key[:1] == b"{" and end > 2 else key)  # a bucket's keys have one tag


@lru_cache(maxsize=20_000)  # more than there are buckets
def _slot(key: bytes) -> int:
    return key_slot(key)


def redirection(answer: object, asked: Address) -> Redirection | None:
    """Return where a command is to be sent instead, None if this was no such answer."""
    if not isinstance(answer, ErrorReply) or answer.code not in ("MOVED", "ASK"):
        return None
    code, *rest = answer.text.split(" ")
    host, colon, port = rest[1].rpartition(":") if len(rest) > 1 else ("", "", "")
    if not colon or not port.isdigit() or not rest[0].isdigit():
        return None
    return Redirection(int(rest[0]), (host or asked[0], int(port)), code == "MOVED")


LOOK_TIMEOUT_S = 1.0  # that a look at where the slots are may take, where it is known where they were;
LOOK_REST_S = 5.0  # and for which that has to do, if it took longer


class HashSlots:
    """Where hash slots are: as redis-py knows, and as servers have said since it asked for all of them."""

    def __init__(self, client: Any) -> None:
        self._client = client  # redis-py's RedisCluster, or None as long as there is none
        self._moved: dict[int, Address] = {}  # since redis-py asked for all slots
        self.stale = False  # it should ask for all of them again,
        self.look_at = 0.0  # but not before

    def address_in(self, client: Any, command: Command) -> Address:
        """Return the primary that the command belongs to. Raises Unavailable if its slot has none."""
        slot = hash_slot_of(command)
        moved = None if slot is None else self._moved.get(slot)  # another thread may forget it at any moment
        if moved is not None:
            return moved
        node: Any = None
        with suppress(*BROKEN, LookupError):
            node = client.get_primaries()[0] if slot is None else client.nodes_manager.get_node_from_slot(slot)
        if node is None:
            self.stale = True
            raise Unavailable(f"no server of the cluster has the slot {slot}")
        return node.host, int(node.port)

    def may_look(self) -> bool:
        """True if it should ask for all of them now."""
        return self.stale and monotonic() >= self.look_at

    def waits_for_look(self, deadline: Deadline) -> Deadline:
        """Return until when to wait for what may not come: a part of the time of a call that has more to do."""
        return Deadline(min(LOOK_TIMEOUT_S, deadline.left() / 2))

    def follow(self, elsewhere: Redirection) -> Address:
        """Return where we reach the server that another one has named; what has moved for good is known from now on.

        The client's ``address_remap`` may say where that is.
        """
        host, port = self._client.nodes_manager.remap_host_port(*elsewhere.address)
        there = host, int(port)
        if elsewhere.for_good:
            self._moved[elsewhere.slot] = there
            self.stale = True
        return there


def primaries_in(client: Any) -> list[Address]:
    """Return where all primaries are."""
    return [(node.host, int(node.port)) for node in client.get_primaries()]
