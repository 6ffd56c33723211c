"""bounded_apply does as the algebra of bounded counters says; and each of its rules, left out, is noticed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any

import fakeredis
import pytest

from redis_counters.crdt.bounded import BoundedCounter, Bounds
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import Bucket
from tests.lua.keyed import Asked, answered, bounded_key

A = bounded_key("a")
OWN = b""  # the region


@dataclass
class Model:
    """A counter by the algebra, and keys as values: used for what, and how that ended."""

    counter: BoundedCounter
    used: dict[bytes, tuple[str, int, bool]] = field(default_factory=dict)
    returned: dict[bytes, bytes] = field(default_factory=dict)

    def there(self, sign: str) -> bytes:
        held = self.counter.rights(OWN) if sign == "-" else self.counter.room(OWN)
        return b"0 %d" % (held or 0)

    def change(self, sign: str, amount: int) -> bool:
        after = (self.counter.try_inc if sign == "+" else self.counter.try_dec)(OWN, amount)
        self.counter = after or self.counter
        return after is not None

    def ask(self, item: Asked) -> bytes:
        """Return what the script answers; of an error, or of a conflict, only how it begins."""
        if item.verb == "r":
            return self.give_back(item)
        assert isinstance(item.amount, int)
        if item.digest in self.returned:
            return b"="
        if item.digest not in self.used:
            self.used[item.digest] = (item.verb, item.amount, self.change(item.verb, item.amount))
        verb, amount, done = self.used[item.digest]
        if (verb, amount) != (item.verb, item.amount):
            return b"="
        return b"1" if done else self.there(item.verb)

    def give_back(self, item: Asked) -> bytes:
        assert isinstance(item.amount, bytes)
        if item.digest in self.returned:
            return b"1" if self.returned[item.digest] == item.amount else b"0"
        verb, amount, done = self.used.get(item.digest, ("-", 0, False))
        if verb == "+":
            return b"="
        if item.digest not in self.used:
            self.returned[item.digest] = b""
        if not done:
            return b"0"
        if not self.change("+", amount):
            return self.there("+")
        self.returned[item.digest] = item.amount
        return b"1"


@pytest.fixture
def memory() -> Iterator[Bucket]:
    client: Any = fakeredis.FakeRedis()
    yield Bucket(client)
    client.close()


BOUNDS = [(0, None), (None, 12), (-3, 9), (None, -5)]


def schedule(buckets: list[Bucket], seed: int, bounds: tuple[int | None, int | None]) -> Model:
    """Make random calls, each key used several times: the answers and the fields are those of the algebra."""
    chance = random.Random(seed)
    floor, cap = bounds
    model = Model(BoundedCounter(Bounds(floor, cap, None if cap is None else OWN)))
    digests = [b"key %d" % i for i in range(60)]
    for _ in range(40):
        items = []
        for _ in range(chance.randrange(1, 8)):
            verb = chance.choices("+-r", [7, 4, 2] if floor is None else [4, 5, 2])[0]
            amount: int | bytes = b"id%d" % chance.randrange(3) if verb == "r" else chance.choice([1, 2, 3, 10])
            items.append(Asked(A, verb, chance.choice(digests), amount, floor, cap))
        expected = [model.ask(item) for item in items]
        for bucket in buckets:
            found = answered(bucket, *items)
            assert [b"=" if answer.startswith(b"=") else answer for answer in found] == expected
            fields = bucket.fields(A)
            start = model.counter.bounds.start
            assert start + int(fields.get(b"+", 0)) - int(fields.get(b"-", 0)) == model.counter.value
            if fields:
                assert fields.get(b"a") == (None if floor is None else b"%d" % (model.counter.rights(OWN) or 0))
                assert fields.get(b"h") == (None if cap is None else b"%d" % (model.counter.room(OWN) or 0))
    return model


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_it_does_as_the_algebra_says(
    any_bucket: Bucket, memory: Bucket, seed: int, bounds: tuple[int | None, int | None]
) -> None:
    """On a real server and in memory. (That schedules have of everything, those that are broken show.)"""
    model = schedule([any_bucket, memory], seed, bounds)
    assert model.returned
    assert True in {done for _, _, done in model.used.values()}


RECORD = "write_record(records, digest, asked .. (refused and ' 0' or ' 1'))"
CHECK = "needs and less(needs, amount)"
BROKEN: dict[str, dict[str, str]] = {
    "a record is forgotten": {RECORD: ""},
    "a refusal is not recorded": {RECORD: f"if not refused then {RECORD} end"},
    "the check is left out": {CHECK: "false"},
    "one too many": {CHECK: f"{CHECK} and #needs ~= #amount"},
    "a spend makes no room": {"held[2] and pcall": "sign == '+' and held[2] and pcall"},
    "an add makes no rights": {"held[1] and pcall": "sign == '-' and held[1] and pcall"},
    "given back twice": {"outcome ~= '1' or held[3]": "outcome == '0' or outcome == 'x'"},
    "given back and not noted": {"call('HSET', KEYS[records.first + place], digest, '-' ..": "local _ = ('-' .."},
    "given back what was refused": {"outcome ~= '1' or held[3]": "outcome == 'x' or string.find(outcome, '^r')"},
    "given back without room": {"held[2] and less(held[2], amount)": "false"},
    "used after it was given back": {"write_record(records, digest, '-0 x')": ""},
    "a repetition of giving back is refused": {"if outcome == 'r' .. id then return '1' end": ""},
    "another amount is the same": {"return '=' .. text\n  end": "return '1'\n  end"},
}


@pytest.mark.parametrize("how", BROKEN)
def test_schedules_notice_what_is_broken(any_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Each rule of the script, left out: some schedule has another answer, or another value."""
    text = scripts.text(Script.BOUNDED_APPLY).decode()
    for old, new in BROKEN[how].items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    digest = sha1(text.encode(), usedforsecurity=False).hexdigest().encode()
    monkeypatch.setattr(scripts, "text", lambda _: text.encode())
    monkeypatch.setattr(scripts, "digest", lambda _: digest)

    def schedules() -> None:
        for seed in range(5):
            for bounds in BOUNDS:
                any_bucket.client.flushall()
                schedule([any_bucket], seed, bounds)

    with pytest.raises(AssertionError):
        schedules()
