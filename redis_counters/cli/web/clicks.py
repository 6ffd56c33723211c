"""One click: what is true is noted, then both ways of counting are told."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from redis_counters.asyncio import Counters
from redis_counters.cli.web.board import Board, Click, plain_key
from redis_counters.cli.web.posts import Post
from redis_counters.errors import Unavailable

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
        """The key is higher by ``amount``, or by more: who repeats what was applied counts it twice.

        Or by less: after some attempts it gives up.
        """
        for _ in range(_ATTEMPTS):
            with suppress(redis.ConnectionError, redis.TimeoutError):
                await self._client.incrby(plain_key(post), amount)
                return

    async def close(self) -> None:
        """No connection is open."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


async def tell(counters: Counters, user: str, post: Post, liked: bool) -> None:
    """The user likes the post, or not: repeated if need be, which changes nothing. Raises: Unavailable."""
    likes = counters.likes(post.counter)
    for attempt in range(_ATTEMPTS):
        try:
            await (likes.like(user) if liked else likes.unlike(user))
        except Unavailable:
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return


async def click(counters: Counters, plain: Plain, board: Board, user: str, post: Post, liked: bool) -> int:
    """The browser likes the post, or not; return how many do. Again changes nothing.

    Raises: Unavailable, redis.RedisError: the click may be repeated, and is finished by `settle` otherwise.
    """
    async with board.turn(user, post):
        if await board.begin(user, post, liked):
            await plain.count(post, 1 if liked else -1)
        await tell(counters, user, post, liked)
        await board.finish(user, post)
    return int(await counters.likes(post.counter).value())


async def settle(counters: Counters, board: Board, clicks: Iterable[Click]) -> int:
    """These clicks are told, as far as their own process has not; return how many that were. Raises as `click`."""
    settled = 0
    for user, post in clicks:
        async with board.turn(user, post):
            if await board.is_open(user, post):  # else its own process was only slow
                await tell(counters, user, post, await board.wants(user, post))
                await board.finish(user, post)
                settled += 1
    return settled
