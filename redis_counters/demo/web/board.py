"""The state that the processes of the demo share, in keys of their own beside those of the library.

Only the demo's own keys are written here, by plain commands and over a connection that loses nothing: the switches,
the counts, and the true likes of each browser.

=======================  ======  ======================================================================
key                      type    holds
=======================  ======  ======================================================================
demo:switches            hash    crowd, losses: yes or no
demo:facts               string  the counts as the owner of crowd and link last saw them, as JSON
demo:history             list    of the last minute, [seconds, plain - issued, ours - issued], as JSON
demo:issued:<post>       set     the browsers that like the post: the truth that both counts are compared with
demo:plain:<post>        string  the same count by plain INCR
demo:numbers:<user>      hash    post → number of the last click of this browser on it that was taken
demo:open                set     clicks that were begun and not finished: "<post> <user>"
demo:turn:<post>:<user>  string  a lock: clicks of one browser on one post go one after the other
=======================  ======  ======================================================================
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import redis.asyncio as redis

from redis_counters.demo.web.posts import POSTS, Post

Click = tuple[str, Post]  # of a browser, on a post
SWITCHES = ("crowd", "losses")
SECONDS = 60  # that the history reaches back
_SWITCHES, _FACTS, _HISTORY, _OPEN = "demo:switches", "demo:facts", "demo:history", "demo:open"
_LEASE = 3.0  # seconds until the turn of a process that was killed is over


@dataclass(frozen=True, slots=True)
class Facts:
    """The counts, at a moment when no like of the crowd was in flight."""

    issued: int = 0
    plain: int = 0
    ours: int = 0
    rate: int = 0  # likes of the crowd a second
    lost: int = 0  # replies, since the beginning
    crowd: bool = False
    losses: bool = False
    workers: tuple[int, ...] = ()  # the process ids of the web servers


def plain_key(post: Post) -> str:
    """Return the key in which plain INCR counts a post's likes."""
    return f"demo:plain:{post.number}"


def issued_key(post: Post) -> str:
    """Return the key of the browsers that like a post."""
    return f"demo:issued:{post.number}"


def _numbers_key(user: str) -> str:
    return f"demo:numbers:{user}"


class Board:
    """Reads and writes the demo's keys. ``aside`` is a client of redis.asyncio, with replies as text."""

    def __init__(self, aside: redis.Redis) -> None:
        self.aside: Any = aside  # redis-py's types say of each command that it may not be awaitable

    async def switch(self, name: str, on: bool) -> None:
        """Publish that this is wanted on, or off."""
        await self.aside.hset(_SWITCHES, name, "yes" if on else "no")

    async def switches(self) -> dict[str, bool]:
        """Return the switches that are wanted on."""
        wanted = await self.aside.hgetall(_SWITCHES)
        return {name: wanted.get(name) == "yes" for name in SWITCHES}

    async def publish(self, facts: Facts, point: Sequence[float] | None = None) -> None:
        """Publish these facts, and a point, if any, as the newest of the history."""
        async with self.aside.pipeline(transaction=False) as pipe:
            pipe.set(_FACTS, json.dumps(asdict(facts)))
            if point is not None:
                pipe.rpush(_HISTORY, json.dumps(point))
                pipe.ltrim(_HISTORY, -2 * SECONDS, -1)
            await pipe.execute()

    async def facts(self) -> Facts:
        """Return the facts that were published last."""
        published = await self.aside.get(_FACTS)
        if published is None:
            return Facts()
        found = json.loads(published)
        return Facts(**{**found, "workers": tuple(found["workers"])})

    async def history(self) -> list[list[float]]:
        """Return the points of the last minute."""
        return [json.loads(point) for point in await self.aside.lrange(_HISTORY, 0, -1)]

    async def counted(self) -> tuple[int, int, int]:
        """Return the likes of browsers, the count of INCR, and the number of clicks in flight; all at one moment."""
        async with self.aside.pipeline(transaction=True) as pipe:
            for post in POSTS:
                pipe.scard(issued_key(post))
            pipe.mget([plain_key(post) for post in POSTS])
            pipe.scard(_OPEN)
            *issued, plain, in_flight = await pipe.execute()
        return sum(issued), sum(int(value or 0) for value in plain), in_flight

    def turn(self, user: str, post: Post) -> Any:
        """Return a lock, to be held while this browser's click on this post is under way."""
        return self.aside.lock(f"demo:turn:{post.number}:{user}", timeout=_LEASE, blocking_timeout=2 * _LEASE)

    async def begin(self, user: str, post: Post, liked: bool, number: int | None = None) -> bool:
        """Begin a click, and record the like as true; return whether that is a change.

        It is none if a click of this number, or a later one, was taken before: then it is a late copy. To be called in
        this click's turn.
        """
        last = (await self.numbers(user)).get(post.number, 0)
        if number is not None and number <= last:
            return False
        async with self.aside.pipeline(transaction=True) as pipe:
            pipe.sadd(_OPEN, f"{post.number} {user}")
            pipe.hset(_numbers_key(user), str(post.number), number or last + 1)
            (pipe.sadd if liked else pipe.srem)(issued_key(post), user)
            *_, changed = await pipe.execute()
        return bool(changed)

    async def numbers(self, user: str) -> dict[int, int]:
        """Return the number of this browser's last click on each post."""
        found = await self.aside.hgetall(_numbers_key(user))
        return {int(post): int(number) for post, number in found.items()}

    async def finish(self, user: str, post: Post) -> None:
        """Record that the click has reached the counter."""
        await self.aside.srem(_OPEN, f"{post.number} {user}")

    async def begun(self) -> list[Click]:
        """Return the clicks that were begun and not finished, by any process."""
        clicks: list[Click] = []
        for member in await self.aside.smembers(_OPEN):
            number, _, user = member.partition(" ")
            clicks.append((user, POSTS[int(number) - 1]))
        return clicks

    async def is_open(self, user: str, post: Post) -> bool:
        """Return whether such a click is not finished."""
        return bool(await self.aside.sismember(_OPEN, f"{post.number} {user}"))

    async def wants(self, user: str, post: Post) -> bool:
        """Return whether the browser likes the post, in truth."""
        return bool(await self.aside.sismember(issued_key(post), user))
