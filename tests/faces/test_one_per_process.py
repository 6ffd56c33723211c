"""What belongs to one process is neither pickled nor copied, and says what to do instead."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

import redis_counters
import redis_counters.asyncio
from redis_counters import CounterValue
from tests.servers import NOWHERE

COPIES: dict[str, Callable[[Any], object]] = {"pickle": pickle.dumps, "copy": copy.copy, "deepcopy": copy.deepcopy}


def kept_by_one_process(face: str) -> list[Any]:
    """Return one of everything that a user holds of a face; nothing is sent by it."""
    module: Any = redis_counters if face == "blocking" else redis_counters.asyncio
    client = redis.Redis(port=NOWHERE) if face == "blocking" else redis.asyncio.Redis(port=NOWHERE)
    counters = module.Counters(client)
    return [counters, counters.counter("a"), counters.likes("a"), counters.incr, module.Exchange({"eu": client})]


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
@pytest.mark.parametrize("how", COPIES)
def test_one_per_process(face: str, how: str) -> None:
    """Counters, handles and exchanges cannot be pickled or copied: the error says to make one in each process."""
    kept = kept_by_one_process(face)
    if how != "pickle":
        kept.remove(kept[0].incr)  # a method that is copied is the same one
    for each in kept:
        with pytest.raises(TypeError, match=r"cannot be pickled or copied.* make one in each process"):
            COPIES[how](each)


@pytest.mark.parametrize("how", COPIES)
def test_what_is_told_by_it_may_travel(how: str) -> None:
    """Values and errors are pickled and copied with all that they tell."""
    value, error = CounterValue(7, 1.5, 2), redis_counters.KeyConflict("no", counter=b"a", counted=3)
    twins: list[Any] = [COPIES[how](value), COPIES[how](error)]
    if how == "pickle":
        twins = [pickle.loads(twin) for twin in twins]  # noqa: S301 - what this test has just pickled
    assert (twins[0], twins[0].as_of, twins[0].pending) == (7, 1.5, 2)
    assert (twins[1].args, twins[1].counter, twins[1].counted) == (("no",), b"a", 3)
