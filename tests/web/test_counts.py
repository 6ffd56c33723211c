"""Redis-counters has as many likes as there are users that like: whatever is repeated, lost or killed."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
import redis.asyncio

from redis_counters.demo.web.board import Board
from redis_counters.demo.web.posts import POSTS
from tests.waiting import until
from tests.web.running import JSON, Page, running, settled


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Page]:
    """A page without any click."""
    with running(tmp_path / "log") as page:
        yield page


def click(browser: httpx.Client, post: int, liked: bool) -> dict[str, object]:
    answer = browser.post(f"/posts/{post}/like", data={"liked": "yes" if liked else "no"}, headers=JSON)
    answer.raise_for_status()
    found: dict[str, object] = answer.json()
    assert isinstance(found.pop("number"), int)
    return found


def insist(browser: httpx.Client, post: int, liked: bool) -> None:
    """The click is answered: it is sent again until it is, as the page's script does."""

    def answered() -> bool:
        with suppress(httpx.TransportError, httpx.HTTPStatusError):
            return bool(click(browser, post, liked)["liked"] is liked)
        return False

    until(answered, "an answer")


def switch(browser: httpx.Client, name: str, on: bool) -> None:
    """The switch is put, and what it is for has happened."""
    answer = browser.post(f"/switches/{name}", data={"on": "yes" if on else "no"}, headers=JSON)
    assert answer.json() == {"on": on}
    until(lambda: browser.get("/state").json()["facts"][name] is on, f"{name} is {on}")


def at_once(work: Callable[[int], None], count: int) -> None:
    """Several threads do this, each with its number; an error in one is an error here."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.slow("a page, with servers and workers, of its own")
def test_a_click_sets_a_state(fresh: Page) -> None:
    """Doubled, reloaded, repeated: a like is one like, and one that is taken back is none."""
    with fresh.browser() as ann, fresh.browser() as bob:
        assert [click(ann, 4, True) for _ in range(3)] == [{"likes": 1, "liked": True}] * 3
        assert click(bob, 4, True) == {"likes": 2, "liked": True}
        assert click(bob, 5, False) == {"likes": 0, "liked": False}
        for _ in range(3):
            ann.get("/").raise_for_status()
        assert ann.get("/state").json()["likes"][3] == 2
        assert ann.get("/state").json()["mine"] == [4]
        assert [click(ann, 4, False) for _ in range(2)] == [{"likes": 1, "liked": False}] * 2
    assert settled(fresh, 1)["plain"] == 1


@pytest.mark.slow("a page, with servers and workers, of its own")
def test_forms_without_script(fresh: Page) -> None:
    """The form of a card posts what the card does not show yet, and leads back to the card."""
    with fresh.browser() as ann:
        assert 'aria-pressed="true"' not in ann.get("/").text
        for _ in range(2):  # the button was pressed twice, before the page came
            answer = ann.post("/posts/2/like", data={"liked": "yes"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/#post-2")
        text = ann.get("/").text
        assert text.count('aria-pressed="true"') == 1
        assert '<span class="likes" data-likes="2">1</span> <span class="unit">like</span>' in text
        answer = ann.post("/switches/losses", data={"on": "yes"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert ann.get("/").text.count('aria-checked="true"') == 1


@pytest.mark.slow("a crowd clicks")
def test_ours_is_the_number_of_users_who_like(fresh: Page) -> None:
    """Of each post, after clicks of many browsers at the same time over a link that loses replies."""
    wanted: list[dict[int, bool]] = [{} for _ in range(8)]

    def use(number: int) -> None:
        chance = random.Random(number)
        with fresh.browser() as browser:
            for _ in range(60):
                post, liked = chance.randint(1, len(POSTS)), chance.random() < 0.7
                insist(browser, post, liked)
                if chance.random() < 0.3:
                    insist(browser, post, liked)
                wanted[number][post] = liked
            mine = sorted(post for post, liked in wanted[number].items() if liked)
            assert browser.get("/state").json()["mine"] == mine

    with fresh.browser() as ann:
        switch(ann, "losses", True)
    at_once(use, len(wanted))
    expected = [sum(each.get(post.number, False) for each in wanted) for post in POSTS]
    assert fresh.state()["likes"] == expected
    settled(fresh, sum(expected))


@pytest.mark.slow("many clicks")
def test_two_tabs_that_disagree(fresh: Page) -> None:
    """One user likes and unlikes the same post from several tabs at once: however it ends, all know the same."""

    def use(number: int) -> None:
        for turn in range(6):
            insist(ann, 1, (turn + number) % 2 == 0)

    with fresh.browser() as ann:
        for _ in range(5):
            at_once(use, 4)
            mine = ann.get("/state").json()["mine"]
            assert fresh.state()["likes"][0] == len(mine)
            settled(fresh, len(mine))


@pytest.mark.slow("workers are killed again and again")
def test_workers_are_killed_in_the_middle_of_clicks(fresh: Page) -> None:
    """A click whose worker dies is repeated by the browser or finished by the demo: no like is lost or doubled."""
    over = threading.Event()
    clients = 4
    wanted: list[dict[int, bool]] = [{} for _ in range(clients)]

    def use(number: int) -> None:
        chance = random.Random(number)
        browser = browsers[number]
        while not over.is_set():
            post, liked = chance.randint(1, len(POSTS)), chance.random() < 0.6
            insist(browser, post, liked)
            wanted[number][post] = liked

    def kill(_: int) -> None:
        try:
            for turn in range(6):
                workers = fresh.facts()["workers"]
                gone = workers[turn % len(workers)]
                fresh.kill_worker(gone)
                fresh.await_workers(gone)
        finally:
            over.set()

    with ExitStack() as stack:
        browsers = [stack.enter_context(fresh.browser()) for _ in range(clients)]
        switch(browsers[0], "losses", True)
        at_once(lambda number: kill(number) if number == clients else use(number), clients + 1)
    expected = [sum(each.get(post.number, False) for each in wanted) for post in POSTS]
    settled(fresh, sum(expected))
    until(lambda: fresh.state()["likes"] == expected, "each post has the likes of its users")


@pytest.mark.slow("a page, with servers and workers, of its own")
def test_a_click_that_was_left_half_done_is_finished(fresh: Page) -> None:
    """As by a worker that died after the truth was noted, and before the counter was told."""

    async def leave() -> None:
        aside = redis.asyncio.Redis.from_url(fresh.private_server(), decode_responses=True)
        await Board(aside).begin("browser:gone", POSTS[2], True)
        await aside.aclose()

    asyncio.run(leave())
    settled(fresh, 1)
    assert fresh.state()["likes"][2] == 1


@pytest.mark.slow("workers are killed again and again")
def test_browsers_that_go_away_while_workers_die(fresh: Page) -> None:
    """Half-done clicks are finished; they are not repeated."""
    stack = ExitStack()
    browsers = [stack.enter_context(fresh.browser()) for _ in range(6)]
    for turn in range(5):
        victim = fresh.facts()["workers"][0]

        def leave(number: int, turn: int = turn, victim: int = victim) -> None:
            browser = browsers[number]
            for post in range(1, 8):
                if number == 3 and post == 3:
                    fresh.kill_worker(victim)
                with suppress(httpx.TransportError, httpx.HTTPStatusError):
                    click(browser, post, (number + turn) % 2 == 0)

        at_once(leave, 6)
        fresh.await_workers(victim)
    stack.close()
    settled(fresh)


@pytest.mark.slow("a crowd clicks")
def test_a_crowd_over_a_bad_link(fresh: Page) -> None:
    """What one worker is told to switch is so for all. INCR goes wrong with lost replies, redis-counters does not."""
    with fresh.browser() as ann:
        click(ann, 1, True)
        switch(ann, "crowd", True)
        until(lambda: fresh.facts()["issued"] > 2000, "a crowd")
        switch(ann, "losses", True)
        until(lambda: fresh.facts()["plain"] - fresh.facts()["issued"] >= 10, "INCR counts too much")
        seen = {fresh.state()["worker"] for _ in range(60)}
        assert seen <= set(fresh.facts()["workers"])
        # While it goes on: at a moment when nothing is under way, nothing is missing and nothing too much.
        for _ in range(20):
            facts = fresh.facts()
            assert facts["ours"] == facts["issued"], facts
        switch(ann, "crowd", False)
        facts = settled(fresh)
        assert sum(fresh.state()["likes"]) == facts["ours"]
        assert facts["lost"] >= facts["plain"] - facts["issued"] > 0
        assert facts["rate"] == 0
    assert fresh.stop() == 0
