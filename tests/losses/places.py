"""Servers that lose counts: some of them with a new connection, some behind a connection that stays open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack

from redis_counters.testing import LossyLink
from tests.servers import Kind, RealServer
from tests.topologies import Pair, Switch


class Place(ABC):
    """Where a process counts. What it counts after `part` is going to be lost, by `strike`."""

    def __init__(self, kind: Kind, stack: ExitStack) -> None:
        self.kind = kind
        self.stack = stack
        self.begin()

    def server(self, *arguments: str) -> RealServer:
        server = RealServer.start(self.kind, *arguments)
        self.stack.callback(server.stop)
        return server

    def pair(self) -> Pair:
        pair = Pair(self.kind)
        self.stack.callback(pair.stop)
        return pair

    @property
    @abstractmethod
    def url(self) -> str:
        """The address that the process counts at."""

    @property
    @abstractmethod
    def holder(self) -> RealServer:
        """The server that has the counts now."""

    @abstractmethod
    def begin(self) -> None:
        """Servers run."""

    def part(self) -> None:  # noqa: B027 - most lose everything
        """What was counted until now stays."""

    @abstractmethod
    def strike(self) -> None:
        """It is lost, and the server is back."""


class Alone(Place):
    """One server."""

    def begin(self) -> None:
        self.one = self.server()

    @property
    def url(self) -> str:
        return self.one.url

    @property
    def holder(self) -> RealServer:
        return self.one


class Flushed(Alone):
    """FLUSHALL: no connection breaks."""

    def strike(self) -> None:
        self.one.client().flushall()


class Restarted(Alone):
    """Killed, and started again with nothing: the address and the port are the same."""

    def strike(self) -> None:
        self.one.kill()
        self.one.restart()


class Twofold(Place):
    """A primary and a follower, which falls behind."""

    def begin(self) -> None:
        self.both = self.pair()

    @property
    def holder(self) -> RealServer:
        return self.both.primary

    def part(self) -> None:
        self.both.caught_up()
        self.both.pause_replication()


class FailedOver(Twofold):
    """The primary is killed, the follower promoted behind the same address; connections break."""

    def begin(self) -> None:
        super().begin()
        self.link = self.stack.enter_context(LossyLink(self.both.primary.url))

    @property
    def url(self) -> str:
        return self.link.url

    def strike(self) -> None:
        self.link.stop()
        self.both.primary.kill()
        self.both.promote()
        self.link.lead_to(self.both.primary.url)
        self.link.start()


class Switched(Twofold):
    """A proxy leads to the promoted follower from now on, also with connections that were open before."""

    def begin(self) -> None:
        super().begin()
        self.switch = self.stack.enter_context(Switch(self.both.primary.url))

    @property
    def url(self) -> str:
        return self.switch.url

    def strike(self) -> None:
        self.both.promote()
        self.switch.lead_to(self.both.primary.url)


class Demoted(Twofold):
    """The primary follows the other one for a while, and is the primary again; connections to it stay open."""

    def begin(self) -> None:
        super().begin()
        self.here = self.both.primary

    @property
    def url(self) -> str:
        return self.here.url

    def strike(self) -> None:
        self.both.promote()
        self.both.follow()
        self.both.promote()
        assert self.both.primary is self.here


PLACES: dict[str, type[Place]] = {
    "FLUSHALL": Flushed,
    "restarted empty": Restarted,
    "failed over": FailedOver,
    "switched behind open connections": Switched,
    "demoted and promoted again": Demoted,
}
