"""One server (or the primary that Sentinels name) as a transport, in both faces."""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py import after_fork
from redis_counters.drivers.redis_py.asking import ask, ask_asyncio
from redis_counters.drivers.redis_py.clients import Client, KnownConnections, disconnect_idle, new_connection
from redis_counters.drivers.redis_py.hashes import Hashes
from redis_counters.drivers.redis_py.lanes import AsyncioLane, BlockingLane
from redis_counters.drivers.transport import Meanwhile
from redis_counters.protocol.wire.commands import Command


class _Single:
    """One server, in either face."""

    grouped = False

    def __init__(self, client: Client) -> None:
        self.client = client
        self._known = KnownConnections()

    def reply_timeout(self) -> float | None:
        limit: float | None = new_connection(self.client).socket_timeout  # defaults differ
        return limit


class Single(_Single):
    """A client of redis, blocking."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._hashes = Hashes()

    def lane(
        self, deadline: Deadline | None = None, *, patient: bool = True, meanwhile: Meanwhile | None = None
    ) -> BlockingLane:
        return BlockingLane(self.client, self._known, deadline, alone=True, patient=patient, meanwhile=meanwhile)

    def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        return ask(self.client, commands, self._hashes, deadline or Deadline())

    ask_each = ask  # one server answers all, or none

    def disconnect_idle(self) -> None:
        disconnect_idle(self.client.connection_pool)

    def begin_in_child(self) -> None:
        after_fork.begin_in_child(self.client)


class SingleAsyncio(_Single):
    """A client of redis.asyncio."""

    def lane(self, deadline: Deadline | None = None, *, patient: bool = True) -> AsyncioLane:
        return AsyncioLane(self.client, self._known, deadline, alone=True, patient=patient)

    async def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        return await ask_asyncio(self.client, commands, deadline or Deadline())

    ask_each = ask

    def drop_connections(self, *, of_parent: bool) -> None:
        after_fork.drop_connections(self.client, of_parent=of_parent)

    async def disconnect(self) -> None:
        await self.client.connection_pool.disconnect()

    async def end(self) -> None:
        """There is nothing besides the client."""
