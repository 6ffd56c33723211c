"""Which server a command belongs to, and what a cluster's answers mean; without a cluster."""

from __future__ import annotations

import pytest
from redis.crc import key_slot

from redis_counters.drivers.redis_py.hash_slots import Redirection, hash_slot_of, redirection
from redis_counters.drivers.redis_py.in_flight import ASKING, least
from redis_counters.drivers.redis_py.partial_replies import passing
from redis_counters.errors import Unavailable
from redis_counters.protocol.wire.commands import Command, ErrorReply, NoAnswer, Script, hgetall
from redis_counters.protocol.wire.keys import KeySpace, meta_key

KEYS = KeySpace(b"rc", 64)


@pytest.mark.parametrize(
    "key",
    [
        meta_key(b"rc"),
        *KEYS.registries,
        KEYS.shard_key(b"a{b}c", 3)[1],
        KEYS.shard_key(b"}", 0)[1],
        b"a key of the caller's",
        b"{tagged}:user",
        b"{",
        b"{}",
        b"{}{a}",
        b"{open",
        b"close}",
        b"a{b}",
        b"{a}{b}",
        "☃{ü}".encode(),
    ],
)
def test_the_slot_is_that_of_the_key(key: bytes) -> None:
    assert hash_slot_of(hgetall(key)) == key_slot(key)
    assert hash_slot_of(Command(None, (), (), b"TIME", key)) == key_slot(key)


def test_what_any_server_may_answer() -> None:
    assert hash_slot_of(ASKING) is None
    assert hash_slot_of(Command(Script.SLOTS_READ, (KEYS.registries[5], b"other"))) == key_slot(KEYS.registries[5])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MOVED 3999 10.0.0.1:7001", Redirection(3999, ("10.0.0.1", 7001), True)),
        ("ASK 3999 10.0.0.1:7001", Redirection(3999, ("10.0.0.1", 7001), False)),
        ("MOVED 3999 :7001", Redirection(3999, ("asked", 7001), True)),
        ("MOVED 1 ::1:7001", Redirection(1, ("::1", 7001), True)),
        ("MOVED 1 node.example:7001 more", Redirection(1, ("node.example", 7001), True)),
        ("MOVED 1 ?:0", Redirection(1, ("?", 0), True)),
        ("MOVED", None),
        ("MOVED x 10.0.0.1:7001", None),
        ("MOVED 1 10.0.0.1", None),
        ("MOVED 1 10.0.0.1:x", None),
        ("TRYAGAIN Multiple keys", None),
    ],
)
def test_redirections(text: str, expected: Redirection | None) -> None:
    assert redirection(ErrorReply(text), ("asked", 1)) == expected


def test_what_all_servers_confirm() -> None:
    lost, refused = NoAnswer(Unavailable("gone")), ErrorReply("ERR no")
    assert least([2, 1, 3]) == 1
    assert least([[1, 2], [1, 0]]) == [1, 0]
    assert least([2, lost, 3]) is lost
    assert least([refused, 3]) is refused


def test_what_may_be_asked_again() -> None:
    lost = NoAnswer(Unavailable("gone"))
    assert [passing(answer) for answer in (b"1", None, ErrorReply("WRONGTYPE x"))] == [None] * 3
    assert passing(lost) is lost.error
    for code in ("CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"):
        assert isinstance(passing(ErrorReply(f"{code} x")), Unavailable), code
