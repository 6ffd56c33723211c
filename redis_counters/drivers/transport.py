"""The interface of the drivers to Redis: few calls, so that another client library could stand here.

`redis_py` has them for one server and for a cluster. Commands go out as `protocol.wire.commands` has them; an answer is
what Redis says, in bytes, an `ErrorReply`, or a `NoAnswer`. What a transport raises is one of our errors, or one that
`redis_py.errors.translate` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, Protocol

from redis_counters.drivers.deadline import Deadline
from redis_counters.protocol.wire.commands import Command


class Meanwhile(NamedTuple):
    """While an answer is awaited, ``call`` is called at least every so many seconds; it may raise."""

    call: Callable[[], None]
    every: float


class Lane(Protocol):
    """A connection, or several, with commands in flight; answers come in the order of the commands."""

    def send(self, command: Command, text: bool) -> None: ...

    def receive(self) -> object:
        """Return the next answer."""

    def exchange(self, commands: Sequence[Command]) -> list[object]:
        """Return the answers to commands, in order; a script that Redis does not know is sent with its text."""

    def on_new_connection(self) -> bool:
        """True once for each connection that was never asked about before, and once where a command was redirected."""


class Asking(Protocol):
    """Answers commands."""

    def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        """Return the answers to commands that may be repeated, in order, `CALL_TIMEOUT_S` from now at the latest.

        Raises our errors.
        """


class Transport(Asking, Protocol):
    """A Redis deployment, for the blocking driver."""

    grouped: bool  # keys of different buckets may not go together in one command

    def lane(
        self, deadline: Deadline | None = None, *, patient: bool = True, meanwhile: Meanwhile | None = None
    ) -> AbstractContextManager[Lane]:
        """A lane; leaving it with unread answers closes its connection. Without a deadline each answer has its own.

        ``patient``: where the client may have no more connections, one is waited for.
        """

    def ask_each(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        """As `ask`, with a `NoAnswer` for each that there is none of: servers of a cluster fail by themselves."""

    def reply_timeout(self) -> float | None:
        """How many seconds an answer is waited for; None if the client sets no limit."""

    def disconnect_idle(self) -> None:
        """Idle connections are closed."""

    def begin_in_child(self) -> None:
        """After a fork nothing of the parent's is used."""


class AwaitedLane(Protocol):
    """As `Lane`, awaited."""

    async def send(self, command: Command, text: bool) -> None: ...
    async def receive(self) -> object: ...
    async def exchange(self, commands: Sequence[Command]) -> list[object]: ...
    def on_new_connection(self) -> bool: ...


class AwaitedTransport(Protocol):
    """As `Transport`, for the driver of asyncio."""

    grouped: bool

    def lane(
        self, deadline: Deadline | None = None, *, patient: bool = True
    ) -> AbstractAsyncContextManager[AwaitedLane]: ...
    async def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]: ...
    async def ask_each(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]: ...
    def reply_timeout(self) -> float | None: ...

    def drop_connections(self, *, of_parent: bool) -> None:
        """New connections are made from now on: the event loop is another, or (``of_parent``) the process is."""

    async def disconnect(self) -> None:
        """All connections are closed."""

    async def end(self) -> None:
        """Everything that it made besides the client is closed."""
