"""A lane over the primaries of a cluster, awaited, and asking over it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import again_options
from redis_counters.drivers.redis_py.cancelling import AWAITED_BROKEN
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.redis_py.exchanging_asyncio import AwaitedExchanging
from redis_counters.drivers.redis_py.hash_slots import Address, HashSlots
from redis_counters.drivers.redis_py.in_flight import ASKING, EVERYWHERE, InFlight, Sent
from redis_counters.drivers.redis_py.lanes import REPLY_TIMEOUT_S, AsyncioLane
from redis_counters.drivers.redis_py.partial_replies import PartialReplies
from redis_counters.drivers.transport import Meanwhile
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command, NoAnswer

if TYPE_CHECKING:
    from redis_counters.drivers.redis_py.cluster_asyncio import ClusterAsyncio


class AwaitedClusterAsking(HashSlots):
    """Asks the primaries of a cluster; what one of them does not answer is asked again."""

    @abstractmethod
    def lane(self, deadline: Deadline | None = None, *, patient: bool = True) -> ClusterLaneAsyncio: ...

    async def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        return all_answered(await self.ask_each(commands, deadline))

    async def ask_each(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        from tenacity import AsyncRetrying

        asked = PartialReplies(commands)
        deadline = deadline or Deadline()
        try:
            async for attempt in AsyncRetrying(**again_options()):
                with attempt:
                    asked.take(await self._ask(asked.left(), deadline))
                    self.stale = self.stale or asked.error is not None
                    asked.check()
        except Unavailable:
            if not asked.answers:
                raise
        return asked.answers

    async def _ask(self, commands: Sequence[Command], deadline: Deadline) -> list[object]:
        try:
            async with self.lane(deadline) as lane:
                return await lane.exchange(commands)
        except AWAITED_BROKEN as error:
            raise translate(error) or error from error


class ClusterLaneAsyncio(AwaitedExchanging):
    """One connection per primary that is needed. Leaving it with unread answers closes theirs."""

    def __init__(
        self,
        cluster: ClusterAsyncio,
        deadline: Deadline | None,
        *,
        patient: bool,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self.patient = patient
        self.meanwhile = meanwhile
        self._lanes: dict[Address, AsyncioLane] = {}
        self._under_way = InFlight(cluster)

    async def __aenter__(self) -> ClusterLaneAsyncio:
        await self._cluster.look_up(self._until())
        return self

    def _until(self) -> Deadline:
        return self._deadline or Deadline(REPLY_TIMEOUT_S)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        lanes, self._lanes = self._lanes, {}
        stack = AsyncExitStack()
        for lane in lanes.values():
            stack.push_async_exit(lane)
        await stack.__aexit__(kind, error, tb)

    async def send(self, command: Command, text: bool) -> None:
        sent = self._under_way.new(command, text)
        try:
            if command.plain in EVERYWHERE:
                await self._send_everywhere(sent)
            else:
                await self._send_to(await self._cluster.address_of(command, self._until()), sent)
        except CounterError as error:
            sent.answer = NoAnswer(error)

    async def _send_everywhere(self, sent: Sent) -> None:
        """To every server that was written to in this lane, and to none if one of them has broken off."""
        self._under_way.check()
        for address in list(self._lanes) or await self._cluster.primaries(self._until()):
            part = Sent(sent.command, sent.text)
            sent.parts.append(part)
            await self._send_to(address, part)

    def on_new_connection(self) -> bool:
        new = [lane.on_new_connection() for lane in self._lanes.values()]  # each is asked
        return self._under_way.was_redirected() or any(new)

    async def receive(self) -> object:
        sent = self._under_way.next_wanted()
        while (address := sent.awaits()) is not None:
            await self._receive_from(address)
        return sent.whole_answer()

    async def _send_to(self, address: Address, sent: Sent, *, asking: bool = False) -> None:
        if not self._under_way.aim(address, sent):
            return
        try:
            lane = self._lanes.get(address)
            if lane is None:
                lane = await self._cluster.lane_to(address, self._deadline)
                lane.patient = self.patient and not self._lanes
                lane.meanwhile = self.meanwhile
                self._lanes[address] = await lane.__aenter__()
            if asking:
                await lane.send(ASKING, False)
                self._under_way.sending(address, Sent(ASKING, False))
            self._under_way.sending(address, sent)
            await lane.send(sent.command, sent.text)
        except (CounterError, *AWAITED_BROKEN) as error:
            await self._lose(address, error)
            self._under_way.aim(address, sent)  # so it has its answer

    async def _receive_from(self, address: Address) -> None:
        """The oldest command at this server has its answer, or is at another one now."""
        try:
            answer = await self._lanes[address].receive()
        except AWAITED_BROKEN as error:
            await self._lose(address, error)
            return
        redirected = self._under_way.answered(address, answer)
        if redirected is not None:
            sent, elsewhere = redirected
            await self._send_to(self._cluster.follow(elsewhere), sent, asking=not elsewhere.for_good)

    async def _lose(self, address: Address, error: BaseException) -> None:
        """The server's commands have no answer, and nothing more is sent to it in this lane."""
        self._under_way.lose(address, error)
        lane = self._lanes.pop(address, None)
        if lane is not None:
            with suppress(*AWAITED_BROKEN):
                await lane.__aexit__(type(error), error, None)
