"""The like buttons of examples/, each served by a real server on a real Redis: the same requests do the same."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redis_counters import Counters
from redis_counters.testing import LossyLink
from tests.contrib.serving import ROOT, Answer, Browser, served
from tests.lifecycle.children import FORKS
from tests.servers import RealServer
from tests.waiting import until

pytestmark = FORKS

UVICORN = ["-m", "uvicorn", "--port={port}"]
GUNICORN = ["-m", "gunicorn", "--preload", "--workers=2", "--threads=4", "--bind=127.0.0.1:{port}"]
BUTTONS = {
    "fastapi": [*UVICORN, "fastapi_likes:app"],
    "fastapi, 2 processes": [*UVICORN, "--workers=2", "fastapi_likes:app"],
    "flask": [*GUNICORN, "flask_likes:create_app()"],
    "django": [*GUNICORN, "django_likes:application"],
    "django, runserver": ["django_likes.py", "runserver", "--noreload", "{port}"],
    "litestar": [*UVICORN, "litestar_likes:app"],
}
ONE_EACH = ["fastapi", "flask", "django", "litestar"]
KEY = "Idempotency-Key"


@contextmanager
def button(name: str, url: str, folder: Path) -> Iterator[Callable[[], Browser]]:
    """Yield what makes a new browser."""
    with served(BUTTONS[name], url, folder / "log", ROOT / "examples") as port:
        yield lambda: Browser(port)


def through(send: Callable[[], Answer]) -> None:
    """Send it again and again, as it is, as long as the answer is 503."""
    until(lambda: send().status in (200, 302, 303), "an answer other than 503")


def rows(page: str) -> list[tuple[int, str]]:
    """Return the number of likes of each post, in the singular where it is one, and what its button does."""
    found = re.findall(r"(\d+) (likes?)\s<button>(\w+)", page)
    assert all((unit == "like") == (count == "1") for count, unit, _ in found), found
    return [(int(count), action) for count, _, action in found]


@pytest.mark.every(3, "a server each")
@pytest.mark.parametrize("name", BUTTONS)
def test_a_like_button(name: str, any_server: RealServer, tmp_path: Path) -> None:
    with button(name, any_server.url, tmp_path) as new:
        ann, bob = new(), new()
        assert rows(ann.open()) == [(0, "Like")] * 3
        ann.open()
        bob.open()
        for _ in range(2):  # a doubled click
            assert ann.click("/posts/1/like").status in (302, 303)
        assert bob.click("/posts/1/like").status in (302, 303)
        assert bob.click("/posts/3/like").status in (302, 303)
        for _ in range(3):  # whichever process answers
            assert rows(ann.open()) == [(2, "Unlike"), (0, "Like"), (1, "Like")]
            assert rows(bob.open()) == [(2, "Unlike"), (0, "Like"), (1, "Unlike")]
        assert ann.click("/posts/1/unlike").status in (302, 303)
        assert rows(ann.open()) == [(1, "Like"), (0, "Like"), (1, "Like")]


@pytest.mark.every(3, "a server each")
@pytest.mark.parametrize("name", ONE_EACH)
def test_what_is_not_accepted(name: str, any_server: RealServer, tmp_path: Path) -> None:
    """Each is answered by a 4xx, and changes nothing."""
    with button(name, any_server.url, tmp_path) as new:
        stranger, ann = new(), new()
        stranger.csrf = "x" * 32
        assert stranger.click("/posts/1/like").status in (401, 403)
        assert stranger.send("POST", "/posts/1/shares", (KEY, "1")).status in (401, 403)
        ann.open()
        for path in ("/posts/4/like", "/posts/-1/like", "/posts/<b>/like", "/posts/post:1/like", "/posts/1/love"):
            answer = ann.click(path.replace("<", "%3C").replace(">", "%3E"))
            assert answer.status in (404, 422), path
            assert "<b>" not in answer.text or answer.headers["content-type"] == "application/json"
        assert ann.send("GET", "/posts/1/like").status in (404, 405)
        ann.cookies["user"] = "x" * 1025
        answer = ann.click("/posts/1/like")
        assert (answer.status, "between 1 and 1024 bytes" in answer.text) == (400, True)
        answer = ann.send("POST", "/posts/1/shares", (KEY, "1"))
        assert (answer.status, "between 1 and 1024 bytes" in answer.text) == (400, True)
        assert rows(new().open()) == [(0, "Like")] * 3


@pytest.mark.every(3, "a server each")
@pytest.mark.parametrize("name", ONE_EACH)
def test_the_idempotency_key(name: str, any_server: RealServer, tmp_path: Path) -> None:
    """Of one user, for one path: the same key counts once, whichever process gets it. Bad ones are told why."""

    def shares() -> list[int]:
        with Counters.from_url(any_server.url) as counters:
            return [counters.get(f"shares:post:{post}") for post in (1, 2)]

    with button(name, any_server.url, tmp_path) as new:
        ann, bob = new(), new()
        ann.open()
        bob.open()
        for bad, sentence in (
            ([], "is missing"),
            ([""], "between 1 and 255"),
            (["x" * 256], "between 1 and 255"),
            (["two words"], "between 1 and 255"),
            (['"'], "between 1 and 255"),
            (['"open'], "between 1 and 255"),
            (["a, b"], "more than once"),
            (["a", "b"], "more than once"),
        ):
            answer = ann.send("POST", "/posts/1/shares", *((KEY, value) for value in bad))
            assert (answer.status, sentence in answer.text) == (400, True), (bad, answer)
        assert shares() == [0, 0]
        for value in ("k-1", "k-1", '"k-1"', "k-1", "k-2"):  # quotes are not part of it
            assert ann.send("POST", "/posts/1/shares", (KEY, value)).status == 200
        assert shares() == [2, 0]
        assert bob.send("POST", "/posts/1/shares", (KEY, "k-1")).status == 200  # of another user
        assert ann.send("POST", "/posts/2/shares", (KEY, "k-1")).status == 200  # on another path
        assert ann.send("POST", "/posts/2/shares", (KEY, "x" * 255)).status == 200
        assert shares() == [3, 2]


@pytest.mark.every(3, "a server each")
@pytest.mark.parametrize("name", ONE_EACH)
def test_while_redis_is_away(name: str, private_server: RealServer, tmp_path: Path) -> None:
    """A click is answered by 503, and may be repeated; when Redis is back, it goes on."""
    with button(name, private_server.url, tmp_path) as new:
        ann = new()
        ann.open()
        private_server.kill()
        for path, headers in (("/posts/1/like", []), ("/posts/1/shares", [(KEY, "k")])):
            answer = ann.send("POST", path, *headers, body=f"csrfmiddlewaretoken={ann.csrf}")
            assert (answer.status, "try again" in answer.text) == (503, True), answer
            assert answer.headers.get("Retry-After", answer.headers.get("retry-after")) == "1"
        private_server.restart()
        through(lambda: ann.click("/posts/1/like"))
        through(lambda: ann.send("POST", "/posts/1/shares", (KEY, "k")))
        assert rows(ann.open())[0] == (1, "Unlike")


@pytest.mark.every(3, "a second each")
@pytest.mark.parametrize("name", ONE_EACH)
def test_a_crowd_over_a_link_that_loses_replies(name: str, any_server: RealServer, tmp_path: Path) -> None:
    """Users click and share at once, repeat what was answered, and what was not; then each is counted once."""
    users, failures = 12, []
    with LossyLink(any_server.url) as link, button(name, link.url, tmp_path) as new:
        link.drop_reply(every=7, commands={"EVALSHA"})

        def visit(number: int) -> None:
            browser = new()
            try:
                browser.open()
                for repetition in range(4):
                    other, key = ("like", "unlike")[repetition % 2], f"k{repetition // 2}"
                    through(lambda: browser.click("/posts/1/like"))
                    through(lambda other=other: browser.click(f"/posts/2/{other}"))  # type: ignore[misc]
                    through(lambda key=key: browser.send("POST", "/posts/1/shares", (KEY, key)))  # type: ignore[misc]
            except Exception as error:
                failures.append((number, error))

        threads = [threading.Thread(target=visit, args=(number,)) for number in range(users)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert link.dropped
    with Counters.from_url(any_server.url) as counters:
        values = counters.get_many(["post:1", "post:2", "shares:post:1"])
        assert list(values.values()) == [users, 0, 2 * users]
        assert counters.get("views") >= users  # of the pages that were opened, and of those that waited for the server
