"""Sentinels asked by redis-py, so that its error says what each of them answered: by itself it says neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis import exceptions

from redis_counters.drivers.redis_py.errors import NO_SENTINEL, said
from redis_counters.errors import CounterError, NotPermitted, Refused, Unavailable

Heard = dict[str, Any]  # by address: the services that it knows, or the error


def named(finder: Any, addresses: Sequence[tuple[str, int]], *, asyncio: bool) -> None:
    """The errors of this `Sentinel` have an error of ours, ``told``, that names its Sentinels by address."""
    heard: Heard = {}
    listening, discovering = (_listening_asyncio, _discovering_asyncio) if asyncio else (_listening, _discovering)
    for client, (host, port) in zip(finder.sentinels, addresses, strict=True):
        client.sentinel_masters = listening(client.sentinel_masters, f"{host}:{port}", heard)
    finder.discover_master = discovering(finder.discover_master, heard)


def _listening(ask: Any, address: str, heard: Heard) -> Any:
    def sentinel_masters() -> Any:
        with _error_heard(address, heard):
            heard[address] = ask()
        return heard[address]

    return sentinel_masters


def _listening_asyncio(ask: Any, address: str, heard: Heard) -> Any:
    async def sentinel_masters() -> Any:
        with _error_heard(address, heard):
            heard[address] = await ask()
        return heard[address]

    return sentinel_masters


def _discovering(discover: Any, heard: Heard) -> Any:
    def discover_master(service: str) -> Any:
        with _error_named(service, heard):
            return discover(service)

    return discover_master


def _discovering_asyncio(discover: Any, heard: Heard) -> Any:
    async def discover_master(service: str) -> Any:
        with _error_named(service, heard):
            return await discover(service)

    return discover_master


@contextmanager
def _error_heard(address: str, heard: Heard) -> Iterator[None]:
    try:
        yield
    except exceptions.RedisError as error:
        heard[address] = error
        raise


@contextmanager
def _error_named(service: str, heard: Heard) -> Iterator[None]:
    """Raises an error that redis-py takes for a broken connection, whatever the Sentinels answered."""
    try:
        yield
    except exceptions.RedisError as cause:
        ours = told(service, heard)
        error: Any = exceptions.ConnectionError(str(ours))
        error.told = ours
        raise error from cause


def told(service: str, heard: Heard) -> CounterError:
    """Return our error where no Sentinel names a primary of the service. Only a caller's mistake is `Refused`."""
    heard = dict(heard)
    errors = {address: each for address, each in heard.items() if isinstance(each, Exception)}
    for address, error in errors.items():
        if said(error) == NO_SENTINEL:
            return Refused(f"{address} is no Sentinel: for a Redis use redis://{address}")
    absent = [address for address, each in heard.items() if address not in errors and service not in each]
    if absent and len(absent) == len(heard):
        return Refused("; ".join(f"{address} knows no {service!r}" for address in absent))
    words = [
        f"{address}: {said(each) or type(each).__name__}"
        if address in errors
        else f"{address} {'knows no' if address in absent else 'sees no primary that is up of'} {service!r}"
        for address, each in heard.items()
    ]
    what = f"no Sentinel names a primary of {service!r}{': ' if words else ''}{'; '.join(words)}"
    if heard and all(isinstance(each, exceptions.AuthenticationError) for each in heard.values()):
        return NotPermitted(f"{what}: give sentinel_password, and sentinel_username if they have users")
    return Unavailable(f"Redis is not reachable: {what}")
