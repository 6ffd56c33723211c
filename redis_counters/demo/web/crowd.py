"""The crowd: users that like posts, and sometimes take it back, some thousand times a second, counted both ways."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import accumulate

from redis_counters.asyncio import Counters
from redis_counters.demo.web.clicks import Plain, apply
from redis_counters.demo.web.posts import POSTS, Post
from redis_counters.errors import Unavailable

USERS = 50_000  # so that what Redis keeps of them, a set of users per post, has an end
ROUND = 200  # likes
_BACK = 0.2  # the part of users asked again that take their like back
_REST = 0.5  # seconds, when Redis is away
CONNECTIONS = 8  # that count by INCR at the same time


class Crowd:
    """Likes in rounds. Between two rounds nothing is in flight, and all counts can be compared.

    ``likes`` is the truth: how many users like each post.
    """

    def __init__(self, counters: Counters, plain: Plain, rng: random.Random) -> None:
        self._counters, self._plain, self._rng = counters, plain, rng
        self._liked = [bytearray(USERS) for _ in POSTS]
        # A few posts are liked much more than the others.
        weights = [1 / (1 + rank) ** 0.8 for rank in range(len(POSTS))]
        rng.shuffle(weights)
        self._weights = list(accumulate(weights))
        self.likes = [0] * len(POSTS)
        self.done = 0  # likes and unlikes

    async def round(self) -> None:
        """Let some users like or unlike, and count it both ways."""
        acts = self._choose()
        # Not one by one: a server has many users at the same time, and their calls share scripts.
        todo = iter(acts.items())
        await asyncio.gather(
            *(self._apply(f"crowd:{user}", post, liked) for (user, post), liked in acts.items()),
            *(self._count(todo) for _ in range(CONNECTIONS)),
        )
        self.done += len(acts)

    def _choose(self) -> dict[tuple[int, Post], bool]:
        """Choose likes and unlikes, none of them twice, and record them as true."""
        acts: dict[tuple[int, Post], bool] = {}
        for post in self._rng.choices(POSTS, cum_weights=self._weights, k=ROUND):
            user = self._rng.randrange(USERS)
            liked = self._liked[post.number - 1]
            if (user, post) in acts or (liked[user] and self._rng.random() > _BACK):
                continue
            liked[user] = not liked[user]
            self.likes[post.number - 1] += 1 if liked[user] else -1
            acts[user, post] = bool(liked[user])
        return acts

    async def _apply(self, user: str, post: Post, liked: bool) -> None:
        while True:
            try:
                return await apply(self._counters, user, post, liked)
            except Unavailable:
                await asyncio.sleep(_REST)

    async def _count(self, todo: Iterator[tuple[tuple[int, Post], bool]]) -> None:
        for (_, post), liked in todo:
            await self._plain.count(post, 1 if liked else -1)
