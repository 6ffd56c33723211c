"""Counts in templates.

    {% load redis_counters %}
    {% counter "views:home" %} views
    {% counters names as counts %}
    {% liked "post:42" user.pk as mine %}{% if mine %}You like this.{% endif %}

While Redis is away a page is shown nevertheless: with the last value that is known, or without one. The log has one
warning then for each tag, and not one for each page.
"""

from __future__ import annotations

from collections.abc import Iterable

from django import template

from redis_counters.contrib.django.client import counters as ours
from redis_counters.errors import Unavailable
from redis_counters.events import log
from redis_counters.protocol.keyed.calls import User
from redis_counters.protocol.wire.values import Name

__all__ = ["counter", "counters", "liked"]

register = template.Library()

_told: set[str] = set()  # tags that have warned, and have had no answer since


def counter(name: Name, default: object = "", max_age: float | None = None) -> object:
    """Return the value of a counter; ``default`` if it is not known while Redis is away."""
    return counters([name], default, max_age)[name]


def counters(names: Iterable[Name], default: object = "", max_age: float | None = None) -> dict[Name, object]:
    """Return values by name, in one round trip; ``default`` for those not known while Redis is away."""
    wanted = list(names)
    try:
        values: dict[Name, object] = {**ours.get_many(wanted, max_age=max_age)}
    except Unavailable as error:
        _warn("counter", "templates show the last known values, until Redis answers again: %s", error)
        return {name: _last_known(name, default) for name in wanted}
    _told.discard("counter")
    return values


def liked(name: Name, user: User) -> bool | None:
    """Return whether the user likes this; None if it is not known while Redis is away."""
    try:
        likes = ours.likes(name).has(user)
    except Unavailable as error:
        _warn("liked", "templates cannot tell who likes what, until Redis answers again: %s", error)
        return None
    _told.discard("liked")
    return likes


def _warn(tag: str, text: str, error: Unavailable) -> None:
    if tag not in _told:
        _told.add(tag)
        log.warning(text, error)


def _last_known(name: Name, default: object) -> object:
    try:
        return ours.get(name, max_age=float("inf"))
    except Unavailable:
        return default


for tag in (counter, counters, liked):
    register.simple_tag(tag)
