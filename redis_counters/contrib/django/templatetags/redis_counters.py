"""Counts in templates.

    {% load redis_counters %}
    {% counter "views:home" %} views
    {% counters names as counts %}
    {% liked "post:42" user.pk as mine %}{% if mine %}You like this.{% endif %}

While Redis is away pages are shown with the last known values, or without. The log has one warning then for each tag,
not one for each page.
"""

from __future__ import annotations

from collections.abc import Iterable

from django import template

from redis_counters.contrib.django.client import counters as ours
from redis_counters.contrib.django.client import last_known
from redis_counters.errors import Unavailable
from redis_counters.events import log
from redis_counters.protocol.keyed.calls import User
from redis_counters.protocol.wire.values import Name

__all__ = ["counter", "counters", "liked"]

register = template.Library()

_warned: set[str] = set()  # tags that have warned, and have had no answer since


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
        return {name: default if (value := last_known(name)) is None else value for name in wanted}
    _warned.discard("counter")
    return values


def liked(name: Name, user: User) -> bool | None:
    """Return whether the user likes this; None if it is not known while Redis is away."""
    try:
        likes = ours.likes(name).has(user)
    except Unavailable as error:
        _warn("liked", "templates do not know the likes, until Redis answers again: %s", error)
        return None
    _warned.discard("liked")
    return likes


def _warn(tag: str, text: str, error: Unavailable) -> None:
    if tag not in _warned:
        _warned.add(tag)
        log.warning(text, error)


for tag in (counter, counters, liked):
    register.simple_tag(tag)
