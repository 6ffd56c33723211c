"""A cache of Django's interface that counts, and only that.

CACHES = {"counters": {"BACKEND": "redis_counters.contrib.django.cache.CounterCache"}, ...}

caches["counters"].incr("views")  # no ValueError: a counter that was never counted is 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from asgiref.sync import sync_to_async
from django.core.cache.backends.base import BaseCache
from django.core.exceptions import ImproperlyConfigured

from redis_counters.contrib.django.client import counters, last_known
from redis_counters.errors import Unavailable

__all__ = ["CounterCache"]

_NOT_SET = "a counter is not set, but counted: use incr and decr here, and another cache for values to be cached"
_NO_END = "a counter does not expire by its cache: use another cache for values to be cached"
_NOT_ALL = "counters are deleted one by one: their names are not known here"


def plain_key(key: str, prefix: str, version: object) -> str:
    """Return the counter's name: the key as it is, behind a prefix or a version other than 1 if there is one."""
    return ":".join([*([prefix] if prefix else []), *([] if version == 1 else [str(version)]), key])


class CounterCache(BaseCache):  # type: ignore[misc]  # Django has no types
    """The counters of the setting REDIS_COUNTERS. Keys are names, unless KEY_PREFIX, VERSION, KEY_FUNCTION say else.

    Every key is there: one that was never counted is 0. What makes no sense for a counter (`set`, `touch`, `clear`,
    `add` of anything but 0) raises NotImplementedError, as Django's base class does for what a cache does not offer.
    """

    def __init__(self, location: str, params: Mapping[str, Any]) -> None:
        if location or params.get("OPTIONS"):
            raise ImproperlyConfigured("CounterCache takes no LOCATION and no OPTIONS: set REDIS_COUNTERS")
        super().__init__({"KEY_FUNCTION": plain_key, **params})

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int | None:
        """Add ``delta`` to the counter; return its value as far as it is known here. `decr` subtracts.

        The number is not unique: others count at the same time. While Redis is away ``delta`` is counted all the same;
        the value is the last known one with what this process has counted since, or None.
        """
        name = self.make_key(key, version)
        counters.add(name, delta)
        try:
            return counters.get(name)
        except Unavailable:  # not raised, for it was counted: after an error the caller would count again
            return last_known(name)

    async def aincr(self, key: str, delta: int = 1, version: int | None = None) -> int | None:
        return await sync_to_async(self.incr, thread_sensitive=True)(key, delta, version)

    def get(self, key: str, default: object = None, version: int | None = None) -> int:
        """Return the counter's value; ``default`` is never needed. Raises as `Counters.get`."""
        return counters.get(self.make_key(key, version))

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, int]:
        """Return values by key, in one round trip."""
        names = {key: self.make_key(key, version) for key in keys}
        values = counters.get_many(names.values())
        return {key: values[name] for key, name in names.items()}

    async def aget_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, int]:
        return await sync_to_async(self.get_many, thread_sensitive=True)(keys, version)

    def has_key(self, key: str, version: int | None = None) -> bool:
        """Return True: every counter is there."""
        return True

    async def ahas_key(self, key: str, version: int | None = None) -> bool:
        return True

    def add(self, key: str, value: object, timeout: object = None, version: int | None = None) -> bool:
        """Return False, as for any key that is there; ``value`` must be 0, as where `incr` needs a key to be there."""
        if value != 0:
            raise NotImplementedError(_NOT_SET)
        return False

    def set(self, key: str, value: object, timeout: object = None, version: int | None = None) -> NoReturn:
        raise NotImplementedError(_NOT_SET)

    def touch(self, key: str, timeout: object = None, version: int | None = None) -> NoReturn:
        raise NotImplementedError(_NO_END)

    def delete(self, key: str, version: int | None = None) -> bool:
        """Delete the counter; return whether it was not 0. Raises as `Counters.delete`."""
        return counters.delete(self.make_key(key, version)) != 0

    def clear(self) -> NoReturn:
        raise NotImplementedError(_NOT_ALL)
