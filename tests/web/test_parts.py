"""The small parts: cookies, posts, pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from redis_counters.demo.web.pictures import picture
from redis_counters.demo.web.posts import COUNTERS, POSTS, find
from redis_counters.demo.web.settings import Settings
from redis_counters.demo.web.visitors import Visitors


def test_cookies() -> None:
    """Each is another user, the same one for all workers of a demo, and unknown to those of another."""
    ours, theirs = Visitors(b"one"), Visitors(b"two")
    cookies = [ours.new() for _ in range(100)]
    users = {ours.user(cookie) for cookie in cookies}
    assert len(users) == 100
    assert None not in users
    assert {Visitors(b"one").user(cookie) for cookie in cookies} == users
    assert {theirs.user(cookie) for cookie in cookies} == {None}


@pytest.mark.parametrize(
    "cookie", [None, "", ".", "x", "a.b", "é" * 22 + "." + "0" * 64, "\n", "A" * 22 + ".\n" + "0" * 63]
)
def test_what_is_no_cookie(cookie: str | None) -> None:
    assert Visitors(b"one").user(cookie) is None


def test_posts() -> None:
    """Twenty, each with a counter of its own, found by its number alone."""
    assert len(POSTS) == len(set(COUNTERS)) == 20
    assert [find(str(post.number)) for post in POSTS] == list(POSTS)
    assert [find(text) for text in ("0", "21", "1 ", "x", "", "¹")] == [None] * 6
    assert all(post.initials.isalpha() for post in POSTS)


def test_pictures() -> None:
    """Each post has one, always the same, without a script or a link in it."""
    pictures = [picture(post.number) for post in POSTS]
    assert len(set(pictures)) == 20
    picture.cache_clear()
    assert [picture(post.number) for post in POSTS] == pictures
    for text in pictures:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}  # noqa: S314 - ours
        assert tags == {"svg", "linearGradient", "stop", "rect", "circle", "path"}
        assert len(text) < 6000


def test_settings_go_through_a_pipe() -> None:
    settings = Settings("redis://a\n", "unix:///b", "s", "::1", 7)
    assert settings.to_line().count(b"\n") == 1
    assert Settings.from_line(settings.to_line()) == settings
