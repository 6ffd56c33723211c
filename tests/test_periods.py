"""Periods: which one a moment lies in, and what its counter is called."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters import Period, UsageError, period

NOON = datetime(2026, 11, 30, 12, 30, 31, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("every", "name"),
    [
        (timedelta(days=1), "v:2026-11-30"),
        (86_400.0, "v:2026-11-30"),
        (timedelta(hours=1), "v:2026-11-30T12:00Z"),
        (300, "v:2026-11-30T12:30Z"),
        (7, "v:2026-11-30T12:30:28Z"),
        (timedelta(days=7), "v:2026-11-26"),
    ],
)
def test_names(every: Any, name: str) -> None:
    found = period("v", every, at=NOON)
    assert found.name == name
    assert period(b"v", every, at=NOON.timestamp()).name == name.encode()
    assert found.start <= NOON.timestamp() < found.end


@given(st.integers(1, 10**6), st.floats(0, 4e9), st.floats(0, 4e9))
def test_every_moment_lies_in_one_period(every: int, one: float, other: float) -> None:
    """Two moments share a name if, and only if, they share a period."""
    first, second = period("v", every, at=one), period("v", every, at=other)
    assert first.start <= one < first.end == first.start + every
    assert (first == second) == (math.floor(one / every) == math.floor(other / every))
    assert (first.name == second.name) == (first == second)


def test_now_is_the_default() -> None:
    before, found, after = time.time(), period("v", 3600), time.time()
    assert found in (period("v", 3600, at=before), period("v", 3600, at=after))
    assert isinstance(found, Period)


@pytest.mark.parametrize(
    ("name", "every", "at", "error", "argument"),
    [
        (7, 60, None, TypeError, "name"),
        ("v", "day", None, TypeError, "every"),
        ("v", True, None, TypeError, "every"),
        ("v", 0, None, UsageError, "every"),
        ("v", -60, None, UsageError, "every"),
        ("v", 0.5, None, UsageError, "every"),
        ("v", 1.5, None, UsageError, "every"),
        ("v", math.inf, None, UsageError, "every"),
        ("v", math.nan, None, UsageError, "every"),
        ("v", timedelta(0), None, UsageError, "every"),
        ("v", 60, "now", TypeError, "at"),
        ("v", 60, True, TypeError, "at"),
        ("v", 60, math.nan, UsageError, "at"),
        ("v", 60, 10**15, UsageError, "at"),
        ("v", 60, -(10**11), UsageError, "at"),
        ("v", 60, datetime(2026, 11, 30), UsageError, "at"),  # noqa: DTZ001 - that is the fault
    ],
)
def test_what_makes_no_sense_is_refused(name: Any, every: Any, at: Any, error: type[Exception], argument: str) -> None:
    with pytest.raises(error, match=f"^{argument} must"):
        period(name, every, at=at)
