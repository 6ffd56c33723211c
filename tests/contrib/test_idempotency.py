"""The key that is made of a request's Idempotency-Key, and what is accepted as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters import UsageError
from redis_counters.contrib.idempotency import BadKeyError, header_key, scoped


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ('"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("  a  ", "a"),
        ("A" * 255, "A" * 255),
        ("a/b+c=:.~_!#$%&'()*<>?@[]^`{|}-", "a/b+c=:.~_!#$%&'()*<>?@[]^`{|}-"),
    ],
)
def test_a_key(value: str, key: str) -> None:
    """In quotes or without, it is the same."""
    assert header_key([value]) == key


@pytest.mark.parametrize(
    "values", [[], [""], [" "], ['""'], ['"a'], ['a"'], ['a"b'], ["a b"], ["a;b"], ["a\\b"], ["ä"]]
)
def test_no_key(values: list[str]) -> None:
    with pytest.raises(BadKeyError, match=r"^The header Idempotency-Key .*\.$"):
        header_key(values)


@pytest.mark.parametrize("values", [["a", "b"], ["a", "a"], ["a, b"], ["a,a"], ["A" * 256], ["a\0"]])
def test_more_than_a_key(values: list[str]) -> None:
    """Several headers, also those joined by a proxy; too long; what no header may contain."""
    with pytest.raises(BadKeyError):
        header_key(values)


def test_the_form_is_fixed() -> None:
    """Keys are remembered across versions, and while an application is replaced by a newer one."""
    assert scoped("k", "POST", "/orders", "ann") == "244b1266c2373f97a22482d6082bba50"
    assert scoped("k", "POST", "/orders", None) == "b5146f0245dacd962d2ae213d74cacf8"


@pytest.mark.parametrize("user", [7, "7", b"7"])
def test_a_user_is_as_in_likes(user: str | bytes | int) -> None:
    assert scoped("k", "post", "/", user) == scoped("k", "POST", "/", 7)


@pytest.mark.parametrize("user", ["", "x" * 1025])
def test_no_user(user: str) -> None:
    with pytest.raises(UsageError):
        scoped("k", "POST", "/", user)


PARTS = st.tuples(
    st.text("ab:,0123", min_size=1, max_size=4),
    st.sampled_from(["POST", "PUT"]),
    st.text("/ab:,1", max_size=4),
    st.none() | st.text("ab:,0123", min_size=1, max_size=4),
)


@given(PARTS, PARTS)
def test_different_requests_have_different_keys(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """Whatever stands in the parts, none is taken for a part of another."""
    assert (scoped(*one) == scoped(*other)) == (one == other)
    assert len(scoped(*one)) == 32
