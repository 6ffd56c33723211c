"""Who hangs up in the middle of a request is no fault of the page: nothing is logged, and the page goes on."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.waiting import until
from tests.web.running import Page


def hang_up(page: Page, request: bytes, answer: bytes = b"") -> None:
    """Send this, wait for an answer that begins so, and close the connection."""
    address = urlsplit(page.url)
    with socket.create_connection((address.hostname, address.port or 80), timeout=20) as connection:
        connection.sendall(request)
        told = b""
        while len(told) < len(answer):
            told += connection.recv(len(answer) - len(told))
        assert told == answer


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("what", ["/posts/1/like", "/switches/crowd"])
def test_in_the_middle_of_a_form(page: Page, browser: httpx.Client, what: str) -> None:
    """A body that ends too early is refused in silence."""
    before = page.log.read_text()
    host = urlsplit(page.url).netloc
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = [
        f"POST {what} HTTP/1.1",
        f"host: {host}",
        f"origin: {page.url}",
        f"cookie: {cookies}",
        "content-type: application/x-www-form-urlencoded",
        "content-length: 100",
        "expect: 100-continue",  # so that it is known when the page waits for the body
    ]
    request = "\r\n".join([*headers, "", ""]).encode()
    for _ in range(3):
        hang_up(page, request, b"HTTP/1.1 100 Continue")
        hang_up(page, request.replace(b"expect: 100-continue\r\n", b"") + b"on=y")
    check_silence(page, before)


@pytest.mark.slow("waits until the page notices")
def test_in_the_middle_of_the_events(page: Page) -> None:
    """A browser that closes a tab."""
    before = page.log.read_text()
    for _ in range(3):
        request = f"GET /events HTTP/1.1\r\nhost: {urlsplit(page.url).netloc}\r\n\r\n"
        hang_up(page, request.encode(), b"HTTP/1.1 200 OK")
    check_silence(page, before)


def check_silence(page: Page, before: str) -> None:
    """All workers go on, and none of them has anything to say."""
    answered = [httpx.get(page.url, timeout=20).status_code for _ in range(20)]
    assert answered == [200] * 20
    until(lambda: page.state() is not None, "the page goes on")
    assert page.log.read_text() == before
