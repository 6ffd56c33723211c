"""What comes from a browser is checked before it is used: a 4xx and a plain sentence for everything else."""

from __future__ import annotations

import re
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from redis_counters.demo.web.guard import HEADERS
from redis_counters.demo.web.posts import POSTS
from redis_counters.demo.web.visitors import COOKIE
from tests.web.running import JSON, Page

FORM = {"content-type": "application/x-www-form-urlencoded"}
LIKE = "/posts/3/like"


def refused(response: httpx.Response, status: int) -> str:
    """Return the sentence, which is one, and says nothing of the insides."""
    assert response.status_code == status, response.text
    sentence: str = response.json()["error"]
    assert re.fullmatch(r"[A-Z][^<>{}\n]+\.", sentence), sentence
    assert not re.search(r"Traceback|Error\b|redis\.|site-packages", sentence)
    return sentence


@pytest.mark.parametrize(
    "number",
    [
        "0",
        "21",
        "-1",
        "1.0",
        "٣",
        "01",
        "3%00",
        "3%0d%0aSet-Cookie:x=1",
        "%3Cscript%3E",
        "post:3",
        "1" * 5000,
        " 3",
        "3 ",
    ],
)
def test_a_post_that_is_not_there(browser: httpx.Client, number: str) -> None:
    """A post is one of twenty numbers, written in one way; nothing else names a counter."""
    refused(browser.post(f"/posts/{number}/like", data={"liked": "yes"}, headers=JSON), 404)
    refused(browser.get(f"/pictures/{number}.svg", headers=JSON), 404)


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"liked=",
        b"liked=maybe",
        b"liked=YES",
        b"liked=yes&liked=no",
        b"liked=yes&liked=yes",
        b"liked=yes&user=ann",
        b"Liked=yes",
        b"like=yes",
        b"liked",
        b"liked=%ff",
        b"liked=y\xe9s",
        b"liked=yes&a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1",
        b"\x00",
        b'{"liked": "yes"}',
    ],
)
@pytest.mark.parametrize("path", [LIKE, "/switches/crowd"])
def test_fields_that_are_wrong(browser: httpx.Client, path: str, fields: bytes) -> None:
    """Neither like nor switch takes anything but its one field, given once, as yes or no."""
    refused(browser.post(path, content=fields, headers={**JSON, **FORM}), 400)


@pytest.mark.parametrize("number", ["", "0", "-1", "1.5", "\u0661", "1e3", "01", " 1", "9" * 16, "x"])
def test_numbers_of_clicks_that_are_wrong(browser: httpx.Client, number: str) -> None:
    refused(browser.post(LIKE, data={"liked": "yes", "number": number}, headers=JSON), 400)
    refused(browser.post("/switches/crowd", data={"on": "yes", "number": "1"}, headers=JSON), 400)


def test_a_body_that_is_too_large(browser: httpx.Client) -> None:
    for size in (1025, 1_000_000):
        refused(browser.post(LIKE, content=b"liked=" + b"y" * size, headers={**JSON, **FORM}), 413)


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", ""])
def test_a_body_of_another_kind(browser: httpx.Client, kind: str) -> None:
    """Also text/plain, which other sites' forms can send with a body of their choice."""
    refused(browser.post(LIKE, content=b"liked=yes", headers={**JSON, "content-type": kind}), 415)


def test_a_switch_that_is_not_there(browser: httpx.Client) -> None:
    refused(browser.post("/switches/nothing", data={"on": "yes"}, headers=JSON), 404)


@pytest.mark.parametrize("path", ["/nowhere", "/docs", "/redoc", "/openapi.json", "/static/", "/static/../app.py"])
def test_paths_that_are_not_there(browser: httpx.Client, path: str) -> None:
    refused(browser.get(path, headers=JSON), 404)


@pytest.mark.parametrize("path", ["/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/..%5capp.py"])
def test_files_beside_the_static_ones_are_not_served(page: Page, path: str) -> None:
    """The path is sent as it stands here; a client would tidy it up."""
    assert " 404 " in raw(page, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")


def raw(page: Page, request: str) -> str:
    """Return the answer to these very bytes."""
    where = urlsplit(page.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as connection:
        connection.sendall(request.encode("latin-1"))
        answer = b""
        while received := connection.recv(65536):
            answer += received
    return answer.decode("latin-1")


def test_methods_that_change_nothing_here(browser: httpx.Client) -> None:
    """A link or a picture with the address of a click does nothing."""
    refused(browser.get(LIKE, headers=JSON), 405)
    refused(browser.get("/switches/crowd", headers=JSON), 405)
    refused(browser.put(LIKE, data={"liked": "yes"}, headers=JSON), 405)
    refused(browser.delete(LIKE, headers=JSON), 405)


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "ann",
        "crowd:1",
        "browser:ann." + "0" * 64,
        "A" * 22 + "." + "0" * 64,
        "A" * 22,
        "A" * 4000,
        "../..",
        '"quoted"',
    ],
)
def test_a_cookie_that_was_not_made_here(page: Page, cookie: str) -> None:
    """Nobody becomes a user by saying so, neither another browser's nor one of the crowd."""
    with httpx.Client(base_url=page.url, headers={"origin": page.url, "cookie": f"{COOKIE}={cookie}"}) as liar:
        assert "cookie" in refused(liar.post(LIKE, data={"liked": "yes"}, headers=JSON), 403)
        assert "cookie" in refused(liar.post("/switches/crowd", data={"on": "yes"}, headers=JSON), 403)
        assert liar.get("/state").json()["mine"] == []


def test_a_cookie_that_was_changed(page: Page, browser: httpx.Client) -> None:
    """A cookie that is changed is not accepted."""
    own = browser.cookies[COOKIE]
    for at in (0, 10, 21, 22, 23, 40, len(own) - 1):
        other = own[:at] + ("b" if own[at] != "b" else "c") + own[at + 1 :]
        with httpx.Client(base_url=page.url, headers={"origin": page.url, "cookie": f"{COOKIE}={other}"}) as liar:
            refused(liar.post(LIKE, data={"liked": "yes"}, headers=JSON), 403)


def test_the_cookie_is_for_this_site_alone(page: Page) -> None:
    """No script reads it, no other site's request brings it, and it cannot be guessed."""
    first, second = httpx.get(page.url).headers["set-cookie"], httpx.get(page.url).headers["set-cookie"]
    attributes = {part.strip().lower().partition("=")[0] for part in first.split(";")[1:]}
    assert {"httponly", "samesite", "path"} <= attributes
    assert "samesite=lax" in first.lower()
    names = [header.partition("=")[2].partition(".")[0] for header in (first, second)]
    assert len({*names}) == 2
    assert all(len(name) == 22 for name in names)  # 128 bits


def test_a_known_browser_keeps_its_cookie(browser: httpx.Client) -> None:
    assert "set-cookie" not in browser.get("/").headers


ELSEWHERE: list[dict[str, Any]] = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://127.0.0.1"},  # another port is another site's, too
    {"origin": "http://127.0.0.1:1"},
    {"origin": "{url}.evil.example"},
    {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {},
]


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_a_click_that_another_site_makes(page: Page, browser: httpx.Client, headers: dict[str, str]) -> None:
    """With the browser's own cookie: it is refused, and changes nothing."""
    before = page.state()["likes"]
    del browser.headers["origin"]
    told = {name: value.format(url=page.url) for name, value in headers.items()}
    for path, fields in ((LIKE, {"liked": "yes"}), ("/switches/crowd", {"on": "yes"})):
        answer = browser.post(path, data=fields, headers=told)
        assert (answer.status_code, answer.text) == (
            403,
            "Only the page itself may change something here, and this came from elsewhere.\n",
        )
    after = browser.get("/state").json()
    assert (after["likes"], after["mine"], after["wanted"]["crowd"]) == (before, [], False)


def test_a_click_that_says_it_is_of_the_same_origin(browser: httpx.Client) -> None:
    """Browsers that send no Origin with a form say so in another header."""
    del browser.headers["origin"]
    headers = {**JSON, "sec-fetch-site": "same-origin"}
    assert browser.post("/posts/9/like", data={"liked": "no"}, headers=headers).json()["liked"] is False


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "a@127.0.0.1",
     "127.0.0.1/x", "127.0.0.1:port", "[::1", "", "2130706433", "0x7f.1"],
)  # fmt: skip
def test_a_name_that_somebody_gave_this_machine(page: Page, host: str) -> None:
    """A site whose name leads here (DNS rebinding) gets no answer to anything, not even to reading."""
    for path in ("/", "/state", "/events", "/static/page.js"):
        port = urlsplit(page.url).port
        answer = raw(page, f"GET {path} HTTP/1.1\r\nHost: {host.format(port=port)}\r\nConnection: close\r\n\r\n")
        assert answer.startswith("HTTP/1.1 400 "), answer
        assert "Set-Cookie" not in answer.title()


@pytest.mark.parametrize("hosts", ["", "Host: 127.0.0.1\r\nHost: evil.example\r\n"])
def test_no_name_or_two(page: Page, hosts: str) -> None:
    assert raw(page, f"GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n").startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "192.0.2.7"])
def test_names_and_addresses_of_this_machine(page: Page, host: str) -> None:
    """An address cannot be taken over as a name can; so a page that listens for others can be used by its address."""
    name = host.format(port=urlsplit(page.url).port)
    assert raw(page, f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n").startswith("HTTP/1.1 200 ")


def test_every_answer_has_the_headers(page: Page, browser: httpx.Client) -> None:
    """Pages, files, errors, refusals: no script or style but the page's own, no framing, no guessing of types."""
    answers = [
        browser.get("/"),
        browser.get("/state"),
        browser.get("/static/page.js"),
        browser.get("/pictures/1.svg"),
        browser.get("/nowhere"),
        browser.get(LIKE),
        browser.post(LIKE, data={"liked": "maybe"}),
        browser.post(LIKE, data={"liked": "yes"}, headers={"origin": "http://evil.example"}),
        browser.get("/", headers={"host": "evil.example"}),
    ]
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, answer.request.url
        assert answer.headers["cache-control"]
        assert answer.headers["content-type"]
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert browser.get("/").headers["cache-control"] == "no-store"
    assert browser.get("/state").headers["cache-control"] == "no-store"


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere(browser: httpx.Client) -> None:
    """What the policy forbids is not there either."""
    text = browser.get("/").text
    assert not re.search(r"\sstyle=|\son\w+=|javascript:|<style|<script>", text.replace("&lt;script&gt;", ""))
    assert re.findall(r"<script[^>]*>", text) == ['<script src="/static/page.js" type="module">']
    assert not re.findall(r"(?:src|href|action)=\"(?!/|#)[^\"]*\"", text)
    for name in re.findall(r"/static/[\w.]+", text):
        file = browser.get(name)
        assert file.status_code == 200
        assert "://" not in file.text.replace("http://www.w3.org/2000/svg", "")


def test_markup_in_names_is_text(browser: httpx.Client) -> None:
    """Authors and titles with markup in them are on the page, as text."""
    text = browser.get("/").text
    odd = [post for post in POSTS if "<" in post.title]
    assert odd
    for post in odd:
        assert post.title not in text
        assert post.title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;") in text
    refused(browser.get("/%3Cscript%3Ealert(1)%3C/script%3E", headers=JSON), 404)
    assert "<script>alert" not in browser.get("/%3Cscript%3Ealert(1)%3C/script%3E").text


def test_errors_for_people_are_pages(browser: httpx.Client) -> None:
    """With the sentence, and a way back."""
    answer = browser.post("/posts/99/like", data={"liked": "yes"})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "There is no such post." in answer.text
    assert 'href="/"' in answer.text


def test_nobody_sees_another_users_data(page: Page) -> None:
    """The likes of a browser are sent to that browser alone; the stream, which all get, has nothing about users."""
    with page.browser() as ann, page.browser() as bob:
        ann.post("/posts/7/like", data={"liked": "yes"}, headers=JSON).raise_for_status()
        assert ann.get("/state").json()["mine"] == [7]
        assert bob.get("/state").json()["mine"] == []
        assert httpx.get(f"{page.url}/state").json()["mine"] == []
        name = ann.cookies[COOKIE].partition(".")[0]
        told = [bob.get("/").text, bob.get("/state").text]
        with bob.stream("GET", "/events") as stream:
            told.append(next(line for line in stream.iter_lines() if line.startswith("data:")))
        assert not any(name in text for text in told)
        assert '"mine"' not in told[-1]
