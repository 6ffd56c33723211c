"""Busy processes while everything is lost, again and again: none of them ever reads less than it has counted itself."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from tests.faces.either import FACES, Either, truth
from tests.losses.witness import LIMIT, NAMES
from tests.servers import RealServer
from tests.waiting import until_async

WRITERS = 3
LOSSES = 12


class Busy:
    """A process that counts and reads without pause. ``own`` is its own, others are everybody's."""

    def __init__(self, counters: Either, number: int, everybody: dict[str, int]) -> None:
        self.counters = counters
        self.own = f"own{number}"
        self.counted = dict.fromkeys([*NAMES.lost, self.own], 0)
        self.everybody = everybody
        self.reads = 0

    async def go_on(self, over: asyncio.Event) -> None:
        while not over.is_set():
            for name in self.counted:
                self.counters.incr(name, 3)
                self.counted[name] += 3
                self.everybody[name] = self.everybody.get(name, 0) + 3
            await asyncio.sleep(0)
            await self._read()

    async def _read(self) -> None:
        least = dict(self.counted)
        for name, value in (await self._get_many(list(least))).items():
            assert least[name] <= value <= self.everybody[name], (name, value, least[name], self.everybody[name])
        value = int(await self._get(self.own))
        assert value == self.counted[self.own]
        self.reads += 1

    async def _get_many(self, names: list[str]) -> Any:
        return await self._called(partial(self.counters.counters.get_many, names, max_age=0))

    async def _get(self, name: str) -> Any:
        return await self._called(partial(self.counters.counters.get, name, max_age=0))

    async def _called(self, call: Any) -> Any:
        """Others go on meanwhile."""
        found = await asyncio.to_thread(call)  # of asyncio a coroutine that has not begun
        return await found if asyncio.iscoroutine(found) else found


def _read_or_failed(busy: list[Busy], tasks: list[asyncio.Task[None]], times: int) -> bool:
    return any(task.done() for task in tasks) or all(each.reads >= times for each in busy)


@pytest.mark.parametrize("face", FACES)
def test_flushall_again_and_again(any_server: RealServer, face: str) -> None:
    """Each read has at least what its process had counted, and never more than all have."""

    async def main() -> None:
        everybody: dict[str, int] = {}
        async with AsyncExitStack() as stack:
            busy = [
                Busy(
                    await stack.enter_async_context(Either.on(face, any_server, flush_interval=0.01)), number, everybody
                )
                for number in range(WRITERS)
            ]
            over = asyncio.Event()
            tasks = [asyncio.create_task(each.go_on(over)) for each in busy]
            try:
                for loss in range(LOSSES):
                    await until_async(partial(_read_or_failed, busy, tasks, 3 * loss), "all have read some times more")
                    await asyncio.to_thread(any_server.client().flushall)
            finally:
                over.set()
                failed = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if each]
            assert not failed, failed
            expected = {name.encode(): value for name, value in everybody.items()}
            begun = time.monotonic()
            while (seen := await asyncio.to_thread(truth, any_server, expected)) != expected:
                assert time.monotonic() < begun + LIMIT, (seen, expected)
                await asyncio.sleep(0.05)

    asyncio.run(main())
