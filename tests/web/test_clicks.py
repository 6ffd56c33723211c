"""A click in the middle: what happens to one whose process ends there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis
import redis.asyncio

from redis_counters.asyncio import Counters
from redis_counters.demo.web import board as board_module
from redis_counters.demo.web import clicks as clicks_module
from redis_counters.demo.web.board import Board, plain_key
from redis_counters.demo.web.clicks import Plain, click, repeated, settle
from redis_counters.demo.web.posts import NAMESPACE, POSTS, Post
from redis_counters.errors import Unavailable
from redis_counters.testing import LossyLink
from tests.servers import RealServer

POST = POSTS[0]


def play(server: RealServer, story: Callable[[Counters, Plain, Board], Awaitable[None]], url: str = "") -> None:
    """Run a story with what a worker has."""

    async def main() -> None:
        aside = redis.asyncio.Redis.from_url(server.url, decode_responses=True)
        plain = Plain(url or server.url, 2)
        try:
            async with Counters.from_url(url or server.url, namespace=NAMESPACE) as counters:
                await story(counters, plain, Board(aside))
        finally:
            await plain.close()
            await aside.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("before", [False, True])
def test_what_was_begun_is_finished_as_it_was_meant(any_server: RealServer, before: bool) -> None:
    """A process died between recording the truth and counting it; settling counts it, once or often."""

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        await click(counters, plain, board, "ann", POST, before)
        await board.begin("ann", POST, not before)
        assert await board.begun() == [("ann", POST)]
        assert await counters.likes(POST.counter).has("ann") is before
        assert await settle(counters, board, await board.begun()) == 1
        assert await counters.likes(POST.counter).has("ann") is not before
        assert await board.begun() == []
        assert await settle(counters, board, [("ann", POST)]) == 0

    play(any_server, story)


def test_a_click_in_the_hands_of_its_process_is_left_alone(any_server: RealServer) -> None:
    """Who settles waits for the turn; when it comes, the click is finished, and nothing is to be done."""

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        async with board.turn("ann", POST):
            await board.begin("ann", POST, True)
            settling = asyncio.create_task(settle(counters, board, [("ann", POST)]))
            await asyncio.sleep(0.05)
            assert not settling.done()
            await board.finish("ann", POST)
        assert await settling == 0

    play(any_server, story)


def test_clicks_of_one_user_go_one_after_the_other(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever processes they arrive: else the truth could end with one of them, and the counter with the other."""
    begun, go_on, tell = asyncio.Event(), asyncio.Event(), clicks_module.apply

    async def slowly(counters: Counters, user: str, post: Post, liked: bool) -> None:
        if liked:
            begun.set()
            await go_on.wait()
        await tell(counters, user, post, liked)

    monkeypatch.setattr(clicks_module, "apply", slowly)

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        first = asyncio.create_task(click(counters, plain, board, "ann", POST, True))
        await begun.wait()
        second = asyncio.create_task(click(counters, plain, board, "ann", POST, False))
        others = (
            click(counters, plain, board, "bob", POST, False),
            click(counters, plain, board, "ann", POSTS[1], False),
        )
        await asyncio.gather(*others)  # these need not wait
        assert not second.done()
        go_on.set()
        assert [(await each).likes for each in (first, second)] == [1, 0]
        assert await board.wants("ann", POST) is await counters.likes(POST.counter).has("ann") is False

    play(any_server, story)


def test_the_turn_of_a_process_that_died_ends(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        with monkeypatch.context() as short:
            short.setattr(board_module, "_LEASE", 0.2)
            assert await board.turn("ann", POST).acquire()
        assert (await click(counters, plain, board, "ann", POST, True)).likes == 1

    play(any_server, story)


def test_incr_counts_what_was_lost_again(any_server: RealServer) -> None:
    """A reply is lost, the command sent again: one click, and INCR has two. After three attempts it gives up."""

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        assert (await click(counters, plain, board, "ann", POST, True)).likes == 1
        assert any_server.client().get(plain_key(POST)) == b"2"
        link.drop_reply(every=1, commands={"INCRBY", "DECRBY"}, times=3)
        assert (await click(counters, plain, board, "bob", POST, True)).likes == 2
        assert any_server.client().get(plain_key(POST)) == b"5"

    with LossyLink(any_server.url) as link:
        link.drop_reply(every=1, commands={"INCRBY"}, times=1)
        play(any_server, story, link.url)


def test_only_what_is_new_is_told_to_incr(any_server: RealServer) -> None:
    """INCR gets its best chance: a click that changes nothing is not counted there either."""

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        for liked in (True, True, False, False, True):
            await click(counters, plain, board, "ann", POST, liked)
        assert any_server.client().get(plain_key(POST)) == b"1"

    play(any_server, story)


def test_reads_are_repeated(any_server: RealServer) -> None:
    """A page that is loaded over a link that loses replies is a page, and not an error; in the end it is one."""

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        await click(counters, plain, board, "ann", POST, True)
        calls = 0

        async def read() -> int:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise Unavailable("not answered")
            return int(await counters.get(POST.counter, max_age=0))

        assert await repeated(read) == 1
        calls = -1
        with pytest.raises(Unavailable):
            await repeated(read)
        assert calls == 2

    play(any_server, story)


def test_a_late_copy_of_a_click_changes_nothing(any_server: RealServer) -> None:
    """It is answered with what is so; a click without a number is always a new one."""

    async def story(counters: Counters, plain: Plain, board: Board) -> None:
        async def say(liked: bool, number: int | None) -> tuple[int, bool, int]:
            clicked = await click(counters, plain, board, "ann", POST, liked, number)
            return clicked.likes, clicked.liked, clicked.number

        assert await say(True, 1) == (1, True, 1)
        assert await say(True, 1) == (1, True, 1)
        assert await say(False, 2) == (0, False, 2)
        assert await say(True, 1) == (0, False, 2)  # late
        assert await say(True, 2) == (0, False, 2)  # another tab, which does not know of 2 yet
        assert await say(True, 3) == (1, True, 3)
        assert await say(False, None) == (0, False, 4)
        assert await say(True, 3) == (0, False, 4)
        assert any_server.client().get(plain_key(POST)) == b"0"
        assert await board.numbers("bob") == {}

    play(any_server, story)
