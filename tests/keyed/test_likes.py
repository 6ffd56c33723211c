"""Likes in both faces: exact per user, whoever says it how often; the value is the number of users."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from redis_counters import UsageError, WrongType
from tests.faces.either import FACES, Either, truth
from tests.keyed.support import KEYS, done, users
from tests.servers import RealServer

both = pytest.mark.parametrize("face", FACES)


@both
def test_a_user_likes_once(server: RealServer, face: str) -> None:
    async def main() -> None:
        async with Either.on(face, server, shards=4) as one, Either.on(face, server) as other:
            likes, same = one.counters.likes("l"), other.counters.likes(b"l")
            assert likes.name == same.name == "l"
            assert await done(likes.has("u")) is False
            assert await done(same.unlike("u")) is False
            assert await done(likes.like("u")) is True
            assert await done(same.like("u")) is False
            assert await done(same.has("u")) is True
            assert await done(likes.value()) == 1
            assert await done(same.unlike("u")) is True
            assert await done(likes.unlike("u")) is False
            assert await done(likes.has("u")) is False
            assert await done(likes.value(max_age=0)) == 0

    asyncio.run(main())


@both
def test_users_are_any_text_bytes_or_int(any_server: RealServer, face: str) -> None:
    """An int is its decimal text, a str its UTF-8; all others are different users."""
    ids: list[Any] = [0, -1, 2**70, "ü", b"\x00\xff", " ", "x" * 1024, "\r\n", "+", "-"]

    async def main() -> None:
        async with Either.on(face, any_server, shards=3) as either:
            likes = either.counters.likes("l")
            for user in ids:
                assert await done(likes.like(user)) is True, user
            for user in (0, "0", b"0", "-1", str(2**70), "ü".encode()):
                assert await done(likes.like(user)) is False, user
            assert await done(likes.has_many([*ids, 1, "nobody"])) == {
                **dict.fromkeys(ids, True),
                1: False,
                "nobody": False,
            }
            assert await done(likes.has_many([])) == {}
            assert await done(likes.value()) == len(ids)

    asyncio.run(main())


@both
@pytest.mark.parametrize(
    ("kind", "user"),
    [(UsageError, ""), (UsageError, b""), (UsageError, "u" * 1025), (UsageError, "\ud800")]
    + [(TypeError, user) for user in (True, 1.0, None, ("u",))],
    ids=str,
)
def test_bad_users_send_nothing(any_server: RealServer, face: str, kind: Any, user: Any) -> None:
    async def main() -> None:
        async with Either.on(face, any_server) as either:
            likes = either.counters.likes("l")
            for method in (likes.like, likes.unlike, likes.has):
                with pytest.raises(kind, match="user") as caught:
                    await done(method(user))
                assert getattr(caught.value, "argument", "user") == "user"
            with pytest.raises(kind, match="user"):
                await done(likes.has_many([1, user]))
            with pytest.raises(TypeError, match="users"):
                await done(likes.has_many("text"))
            with pytest.raises(TypeError, match="name"):
                either.counters.likes(1)

    asyncio.run(main())
    assert any_server.client().keys("*") == []


@both
def test_looking_makes_no_key(any_server: RealServer, face: str) -> None:
    """Nor does it need the right to write, or settle how many shards there will be."""
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as reader:
            likes = reader.counters.likes("l")
            assert await done(likes.has(1)) is False
            assert await done(likes.has_many(range(10))) == dict.fromkeys(range(10), False)
            assert await done(likes.value()) == 0
            assert client.keys("*") == []
            async with Either.on(face, any_server, shards=4) as writer:
                for user in range(0, 10, 2):
                    await done(writer.counters.likes("l").like(user))
            assert await done(likes.has_many(range(10))) == {user: user % 2 == 0 for user in range(10)}

    asyncio.run(main())
    assert client.hget(KEYS.shard_key(b"l", 0)[1], "o") == b"4"


@both
def test_the_value_is_the_number_of_users(any_server: RealServer, face: str) -> None:
    """After each of 300 random likes of several tasks over several things, as read by whoever made it."""
    chance = random.Random(4)
    likers: dict[str, set[int]] = {f"thing {i}": set() for i in range(3)}

    async def main() -> None:
        async with Either.on(face, any_server, shards=4) as either:
            for _ in range(300):
                thing, user = chance.choice(list(likers)), chance.randrange(20)
                likes = either.counters.likes(thing)
                if chance.random() < 0.6:
                    assert await done(likes.like(user)) == (user not in likers[thing])
                    likers[thing].add(user)
                else:
                    assert await done(likes.unlike(user)) == (user in likers[thing])
                    likers[thing].discard(user)
                assert await done(likes.value()) == len(likers[thing])

    asyncio.run(main())
    for thing, who in likers.items():
        assert users(any_server, thing.encode(), 4) == {b"%d" % user for user in who}
    assert truth(any_server, likers) == {thing.encode(): len(who) for thing, who in likers.items()}


@both
@pytest.mark.parametrize("count", [0, 3, 2000])
def test_a_set_is_adopted(any_server: RealServer, face: str, count: int) -> None:
    """Beside those who like already; again, and from two clients at once, nothing more happens."""
    client = any_server.client()
    if count:
        client.sadd("old", *(f"user {i}" for i in range(count)))

    async def main() -> None:
        async with Either.on(face, any_server, shards=2) as one, Either.on(face, any_server) as other:
            likes, same = one.counters.likes("l"), other.counters.likes("l")
            await done(likes.like("user 0"))
            await done(likes.like("somebody else"))
            if face == "asyncio":
                both_found = await asyncio.gather(
                    likes.adopt_likes("old"), other.counters.likes("l").adopt_likes("old")
                )
            else:
                both_found = await asyncio.gather(
                    asyncio.to_thread(likes.adopt_likes, "old"),
                    asyncio.to_thread(same.adopt_likes, "old"),
                )
            assert sum(both_found) == max(count - 1, 0)
            assert await done(likes.adopt_likes("old")) == 0
            assert await done(likes.value()) == max(count, 1) + 1

    asyncio.run(main())
    assert client.scard("old") == count


@both
def test_what_is_no_set_is_not_adopted(any_server: RealServer, face: str) -> None:
    """And a member that is no user is said; the others like already, and nothing is half done."""
    client = any_server.client()
    client.set("text", "mine")
    client.sadd("long", "x" * 1025)

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            likes = either.counters.likes("l")
            with pytest.raises(WrongType):
                await done(likes.adopt_likes("text"))
            with pytest.raises(UsageError, match="user"):
                await done(likes.adopt_likes("long"))
            assert await done(likes.value()) == 0

    asyncio.run(main())


@both
def test_a_taken_key_is_refused(any_server: RealServer, face: str) -> None:
    """The set's as well as the shard's: likes and looks say so, and nothing changes."""
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            likes = either.counters.likes("l")
            await done(likes.like("v"))
            client.rename(KEYS.users_key(b"l", 0), "aside")
            client.set(KEYS.users_key(b"l", 0), "mine")
            for method in (likes.like, likes.unlike, likes.has):
                with pytest.raises(WrongType, match="'l'"):
                    await done(method("u"))
            assert await done(likes.value()) == 1
            client.delete(KEYS.users_key(b"l", 0))
            client.rename("aside", KEYS.users_key(b"l", 0))
            assert await done(likes.unlike("v")) is True
            assert await done(likes.value()) == 0

    asyncio.run(main())
