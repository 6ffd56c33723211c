"""What both faces have in common: making a client, and counting, which never waits in either."""

from __future__ import annotations

import copy
import inspect
import os
import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from redis_counters.drivers.clock import monotonic, wall
from redis_counters.drivers.identity import default_display, mint
from redis_counters.drivers.process.wiped_page import new_sign
from redis_counters.drivers.redis_py.lanes import REPLY_TIMEOUT_S
from redis_counters.drivers.transport import AwaitedTransport, Transport
from redis_counters.errors import Refused, UsageError
from redis_counters.protocol.core import Core
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.wire.durability import Durability
from redis_counters.protocol.wire.keys import CLUSTER_BUCKETS
from redis_counters.protocol.wire.options import DEFAULTS, Options, check_names
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.wire.shard_counts import Auto
from redis_counters.protocol.wire.values import N, Name, name_bytes, name_shown, signed_amount, unsigned_amount
from redis_counters.protocol.write.buffer import Buffer, Counted
from redis_counters.protocol.write.expiries import Expiry, Moment

R = TypeVar("R", bound=Refused)

_ONE = 1  # `amount is _ONE` holds for the int 1 alone, not for True: the cheapest check there is


class Runner(Protocol):
    """What counting needs of a driver."""

    def request_flush_or_count(self, name: Name, amount: int) -> Counted: ...
    def add(self, name: Name, amount: int) -> None: ...
    def declare(self, name: bytes, shards: int | Auto | None, expire_at: Moment | None) -> Expiry | None: ...
    def stats(self) -> Stats: ...


def make_core(
    transport: Transport | AwaitedTransport,
    *,
    asyncio: bool,
    options: Options,
) -> Core:
    """Return a core with these options. Raises TypeError, UsageError for an option."""
    options = {**DEFAULTS, **options}
    actor, observer = options["actor"], options["observer"]
    if asyncio and options["on_full"] == "block":
        raise UsageError("on_full='block' is not possible in the asyncio face, where counting does not wait")
    if observer is not None and not callable(observer):
        raise TypeError(f"observer must be callable, not {type(observer).__name__}")
    options["journal"] = _journal_path(options["journal"])
    if transport.grouped and options["buckets"] is None:
        options["buckets"] = CLUSTER_BUCKETS
    if actor is None:
        options["actor"] = default_display()
    settings = make_settings(**options)
    if settings.durability is not None:
        check_timeout(settings.durability, transport.reply_timeout() or REPLY_TIMEOUT_S)
    buffer = Buffer(new_sign())
    core = Core(settings, mint, monotonic, wall, random.random, grouped=transport.grouped, buffer=buffer)
    core.observer = observer
    core.display = default_display if actor is None else None
    return core


def check_timeout(durability: Durability, limit: float) -> None:
    """Raises UsageError if the client, or we for it, would give up before Redis has answered."""
    if durability.timeout >= limit:
        raise UsageError(
            f"durability: timeout must be less than the client waits for an answer (its socket_timeout), {limit:g} s, "
            f"got {durability.timeout:g}"
        )


def _journal_path(journal: str | os.PathLike[str] | None) -> str | None:
    """Return the option, a text. Raises TypeError, UsageError."""
    if journal is None:
        return None
    path = os.fspath(journal) if isinstance(journal, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise TypeError(f"journal must be a path of type str, or None, not {type(journal).__name__}")
    if not path or "\0" in path:
        raise UsageError(f"journal must be the path of a directory, got {path!r}")
    return path


def check_options(counters: type[CountersBase], options: Mapping[str, Any]) -> None:
    """Raises TypeError for an option that is none of the counters, but, it may be, one of a client."""
    parameters = inspect.signature(counters).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return  # a class of the caller's, which passes them on: only it knows
    hint = ": what is for the connection belongs in the URL, or hand a client to Counters()"
    check_names("from_url()", options, parameters.keys() - {"client"}, hint)


class OnePerProcess:
    """What is neither pickled nor copied: of two that share connections and counts, neither would be right."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Asked for by pickle, by `copy.copy` and by `copy.deepcopy`."""
        raise TypeError(
            f"{type(self).__module__}.{type(self).__name__} cannot be pickled or copied, for it has connections and "
            "counts of this process: make one in each process"
        )


class NotBlocking:
    """Belongs to an event loop: `with` is refused, with words that say what to do."""

    if not TYPE_CHECKING:  # for callers who check no types

        def __enter__(self) -> NoReturn:
            raise TypeError(f"this {type(self).__name__} is of asyncio: use `async with`, or that of redis_counters")

        def __exit__(self, *_of_an_error: object) -> None:
            """Python looks for it before it calls __enter__."""


class NotAsyncio:
    """Blocks: `async with` is refused, with words that say what to do."""

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            raise TypeError(f"this {type(self).__name__} blocks: use `with`, or that of redis_counters.asyncio")

        async def __aexit__(self, *_of_an_error: object) -> None:
            """Python looks for it before it calls __aenter__."""


class CountersBase(OnePerProcess):
    """Counting by name."""

    _core: Core
    _runner: Runner

    def _begin(self, core: Core, runner: Runner) -> None:
        self._core = core
        self._runner = runner
        self._ones, self._flush_requested = core.buffer.ones, core.buffer.flush_requested
        self._request_flush_or_count = runner.request_flush_or_count

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Counters namespace={self._core.settings.namespace.decode()!r}>"

    def incr(self, name: Name, amount: int = 1) -> None:
        """The counter is higher by ``amount`` (an int, 0 or more), and this process reads it so at once.

        Cost: no I/O; about 0.1 microseconds.
        Raises: TypeError, UsageError for the name or amount; Overflow for an amount that its slot has no room for;
        BufferFull if `max_pending` names wait for Redis. Nothing is counted then.

        >>> counters.incr("views:home")
        >>> counters.incr("bytes:sent", 1500)
        >>> counters.incr("bytes:sent", -1)
        Traceback (most recent call last):
            ...
        redis_counters.errors.UsageError: amount must not be negative, got -1; use add() or decr()
        """
        if amount is _ONE and (type(name) is bytes or (type(name) is str and name.isascii())):
            if not self._flush_requested and self._request_flush_or_count(name, 1) is Counted.HERE:
                return
            self._ones.append(name)
        else:
            self._add(name_bytes(name), unsigned_amount(amount, name))

    def decr(self, name: Name, amount: int = 1) -> None:
        """The counter is lower by ``amount`` (an int, 0 or more); otherwise as `incr`."""
        self._add(name_bytes(name), -unsigned_amount(amount, name))

    def add(self, name: Name, amount: int) -> None:
        """The counter is higher by a signed ``amount``; otherwise as `incr`."""
        self._add(name_bytes(name), signed_amount(amount, name))

    def _add(self, name: bytes, amount: int) -> None:
        if self._flush_requested or self._request_flush_or_count(name, amount) is not Counted.HERE:
            self._runner.add(name, amount)

    def stats(self) -> Stats:
        """Return the figures of this client."""
        return self._runner.stats()


class Named(OnePerProcess):
    """A handle on one name."""

    __slots__ = ("_name",)

    def __init__(self, name: bytes) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name!r}>"

    @property
    def name(self) -> Name:
        """The counter's name: str where it is UTF-8, else bytes."""
        return name_shown(self._name)


class CounterBase(Named):
    """A handle on one counter. `incr` here is the fastest way to count."""

    __slots__ = ("_base", "_expiry", "_flush_requested", "_ones", "_request_flush_or_count")

    def __init__(self, base: CountersBase, name: bytes, expiry: Expiry | None) -> None:
        super().__init__(name)
        self._expiry = expiry  # it is known for as long as the handle is there
        self._base = base
        self._ones, self._flush_requested = base._ones, base._flush_requested
        self._request_flush_or_count = base._request_flush_or_count

    def incr(self, amount: int = 1) -> None:
        """The counter is higher by ``amount``; as `Counters.incr`."""
        if amount is _ONE:
            if not self._flush_requested and self._request_flush_or_count(self._name, 1) is Counted.HERE:
                return
            self._ones.append(self._name)
        else:
            self._base.incr(self._name, amount)

    def decr(self, amount: int = 1) -> None:
        """The counter is lower by ``amount``; as `Counters.decr`."""
        self._base.decr(self._name, amount)

    def add(self, amount: int) -> None:
        """The counter is higher by a signed ``amount``; as `Counters.add`."""
        self._base.add(self._name, amount)


def names_bytes(names: Iterable[N]) -> dict[N, bytes]:
    """Return the names as given, and as they are used. Raises TypeError, UsageError."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names must be an iterable of names, not one {type(names).__name__}")
    names = tuple(names)
    try:
        return dict(zip(names, map(str.encode, names), strict=True))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):  # bytes among them, or what is no name
        return {name: name_bytes(name) for name in names}


def named(error: R, wanted: Mapping[N, bytes]) -> R:
    """Return the error of a read, with its values and errors under the names as given."""
    ours = copy.copy(error)  # other callers may get the same
    ours.values = {name: error.values[raw] for name, raw in wanted.items() if raw in error.values}
    errors = error.errors or ({} if error.counter is None else {error.counter: error})
    ours.errors = {name: errors[raw] for name, raw in wanted.items() if raw in errors}
    return ours
