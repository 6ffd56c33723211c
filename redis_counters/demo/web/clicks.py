"""One click: the truth is recorded, then it is counted both ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from redis_counters.asyncio import Counters
from redis_counters.demo.web.board import Board, Click, plain_key
from redis_counters.demo.web.posts import Post
from redis_counters.errors import Unavailable

T = TypeVar("T")

_ATTEMPTS = 3


class Plain:
    """Counting by INCR as code in use does it: a command whose connection broke is sent again."""

    def __init__(self, url: str, connections: int) -> None:
        # No repetition by redis-py itself, whose own differs from version to version: 0 times, 3 times, 10 times.
        pool = redis.BlockingConnectionPool.from_url(
            url, max_connections=connections, timeout=10, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        )
        self._client: Any = redis.Redis(connection_pool=pool)

    async def count(self, post: Post, amount: int) -> None:
        """Add ``amount`` to the key, or more: an applied command that is repeated counts twice.

        Or less: after some attempts it gives up.
        """
        for _ in range(_ATTEMPTS):
            with suppress(redis.ConnectionError, redis.TimeoutError):
                await self._client.incrby(plain_key(post), amount)
                return

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call, repeated if it is not answered: for reads, and for idempotent calls.

    Raises: Unavailable.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(Unavailable):
            return await call()
    return await call()


async def apply(counters: Counters, user: str, post: Post, liked: bool) -> None:
    """Let the user like the post, or not. Raises: Unavailable."""
    likes = counters.likes(post.counter)
    await repeated(lambda: likes.like(user) if liked else likes.unlike(user))


@dataclass(frozen=True, slots=True)
class Clicked:
    """The state after a click: how many like the post, whether this browser does, and the number of its last click."""

    likes: int
    liked: bool
    number: int


async def click(
    counters: Counters, plain: Plain, board: Board, user: str, post: Post, liked: bool, number: int | None = None
) -> Clicked:
    """Let the browser like the post, or not. A repetition changes nothing, nor does a late copy.

    ``number`` separates copies from clicks: a number not above that of the last click taken is a copy, and is only
    answered. Without a number, it is a new click.
    Raises: Unavailable, redis.RedisError: the click may be repeated, and is finished by `settle` otherwise.
    """
    async with board.turn(user, post):
        if await board.begin(user, post, liked, number):
            await plain.count(post, 1 if liked else -1)
        liked = await board.wants(user, post)
        await apply(counters, user, post, liked)
        await board.finish(user, post)
        last = (await board.numbers(user))[post.number]
    return Clicked(int(await repeated(counters.likes(post.counter).value)), liked, last)


async def settle(counters: Counters, board: Board, clicks: Iterable[Click]) -> int:
    """Finish these clicks, unless their own process has; return how many were left. Raises as `click`."""
    settled = 0
    for user, post in clicks:
        async with board.turn(user, post):
            if await board.is_open(user, post):  # otherwise its own process was only slow
                await apply(counters, user, post, await board.wants(user, post))
                await board.finish(user, post)
                settled += 1
    return settled
