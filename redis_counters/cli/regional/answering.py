"""The regions that answer: one that hangs is left out, and the others are looked at all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from redis_counters.cli.client import driven
from redis_counters.cli.regional.comparison import Region
from redis_counters.cli.regional.facts import Facts, facts_of
from redis_counters.cli.regional.urls import of_region
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.transport import Asking
from redis_counters.errors import Unavailable
from redis_counters.protocol.wire.commands import Command

_MIN_REGIONS = 2  # that can be compared


class SilentRegion(Exception):  # noqa: N818 - it says which
    """A region does not answer, or not in time."""

    def __init__(self, name: str, error: Unavailable) -> None:
        super().__init__(name)
        self.name = name
        self.error = error


class _Named:
    """A deployment that raises SilentRegion, with its region's name, when it does not answer."""

    def __init__(self, name: str, server: Asking) -> None:
        self._name = name
        self._server = server

    def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        try:
            with of_region(self._name):
                return self._server.ask(commands, deadline)
        except Unavailable as error:
            raise SilentRegion(self._name, error) from error


class Answering:
    """The regions that answer. ``silent``: the others, and their errors."""

    def __init__(self, servers: Mapping[str, Asking]) -> None:
        self._servers = {name: _Named(name, server) for name, server in servers.items()}
        self.silent: dict[str, str] = {}

    def facts(self, namespace: str) -> dict[str, Facts]:
        """Return the facts of all that answer, asked at the same time. Raises Unavailable where too few do."""
        found: dict[str, Facts] = {}
        with ThreadPoolExecutor(len(self._servers)) as pool:
            asked = {name: pool.submit(driven, each, facts_of(name, namespace)) for name, each in self._servers.items()}
            for name, future in asked.items():
                try:
                    with of_region(name):
                        found[name] = future.result()
                except SilentRegion as silent:
                    self.give_up(silent)
        return found

    def regions(self, facts: Mapping[str, Facts]) -> list[Region]:
        """Return those that answer, to be compared."""
        return [Region(name, server, facts[name]) for name, server in self._servers.items()]

    def give_up(self, silent: SilentRegion) -> None:
        """Leave the region out from now on. Raises Unavailable where too few are left."""
        self.silent[silent.name] = str(silent.error)
        del self._servers[silent.name]
        if len(self._servers) < _MIN_REGIONS:
            raise silent.error
