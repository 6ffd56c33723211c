"""Counters on ``"auto"``: how many shards they get follows from how often all processes update their slots.

What loads the node of a shard are not increments, which are added up, but slot updates: one per process and flush. A
process knows its own; the others' it sees in Redis: it looks at all shards of the counter a few times, one flush
interval apart, and counts the slots that changed in between. The smallest of these counts, per second, is the rate.

K is the smallest power of two with K * shard_rate >= rate; it only grows, and not beyond the number of buckets.

The rate is that of the whole counter, whichever process writes to which shard. So K does not depend on how far others
have followed, two processes that look come to the same, and nothing swings. A slot that was updated twice between two
looks counts once: rather too few shards than too many. With many slots each process looks only now and then, such that
some of all do in each period. A larger K is like any other: published in shard 0 before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from redis_counters.errors import CounterError, quoted
from redis_counters.events import Event, EventKind
from redis_counters.protocol.upkeep.key_walk import Steps
from redis_counters.protocol.upkeep.stepper import Stepper
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, hmget
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.registry import is_actor
from redis_counters.protocol.wire.shard_counts import MAX_SHARDS, check_published
from redis_counters.protocol.wire.shard_fields import ask_for, pairs_of
from redis_counters.protocol.wire.values import name_shown
from redis_counters.protocol.write.frequent import PERIOD_S
from redis_counters.protocol.write.writer import Writer

WINDOWS = 4  # between the looks of one measurement: a rate that lasts for one of them only is no reason
LOOKERS = 4  # processes that measure in a period, about, however many there are
MAX_REMEMBERED = 1_000  # counters whose number of slots is known from the last look

Slots = dict[tuple[bytes, bytes], bytes]  # a shard's key and a slot's field -> its total, as it stands there


class Growth:
    """One look after the other. A driver asks for commands and hands in answers, as of `Housekeeping`."""

    def __init__(
        self, writer: Writer, clock: Callable[[], float], chance: Callable[[], float], *, grouped: bool = False
    ) -> None:
        self.writer = writer
        self.grouped = grouped  # as in `ask_for`
        self.clock = clock
        self.chance = chance
        self.slots: dict[bytes, int] = {}  # of a counter, when it was last looked at
        self._stepper = Stepper()
        self._pause = 0.0  # before the next step
        self._next = clock()

    def wait(self) -> float:
        """Return in how many seconds there is something to do; infinity if no counter is flushed that may grow."""
        if self._stepper.steps is None and not self.writer.frequent.found:
            return math.inf
        return max(0.0, self._next - self.clock())

    def commands(self) -> list[Command] | None:
        """Return what to send now, to be `answered` or `abandoned`; None if there is nothing to do."""
        if self.wait() > 0:
            return None
        if self._stepper.steps is None:
            self._stepper.steps = self._look()
        commands = self._stepper.commands()
        if commands is None:
            self._end()
        return commands

    def answered(self, answers: list[object]) -> None:
        """Take in the answers to the commands."""
        if self._stepper.answered(answers):
            self._next = self.clock() + self._pause

    def abandoned(self) -> None:
        """The answers will not come."""
        if self._stepper.abandon():
            self._end()

    def _end(self) -> None:
        self._next = self.clock() + PERIOD_S * (0.75 + 0.5 * self.chance())

    def _look(self) -> Steps:
        """Read published shard counts, then measure update rates."""
        writer, names, self._pause = self.writer, self.writer.frequent.take(), 0.0
        keys = writer.router.keys
        assert keys is not None  # something was flushed
        answers = yield [hmget(keys.shard_key(name, 0)[1], (b"k",)) for name in names]
        for name, raw in zip(names, answers, strict=True):
            shards = _published(raw)
            if shards > 1:
                writer.router.shards.learn(name, shards)
        yield from self._measure([name for name in names if self._is_wanted(name, keys.buckets)], keys)

    def _is_wanted(self, name: bytes, buckets: int) -> bool:
        return self.writer.router.shards.of(name) < most_shards(buckets) and (
            self.chance() * self.slots.get(name, 0) < LOOKERS
        )

    def _measure(self, names: list[bytes], keys: KeySpace) -> Steps:
        """The counters have as many shards as their rates ask for."""
        settings, of = self.writer.settings, self.writer.router.shards.of
        rates = dict.fromkeys(names, math.inf)
        before: dict[bytes, Slots] = {}
        at = 0.0
        for window in range(WINDOWS + 1):
            if not rates:
                return
            places = [(name, keys.shard_key(name, shard)[1]) for name in rates for shard in range(of(name))]
            self._pause = settings.flush_interval
            texts = yield from ask_for([key for _name, key in places], grouped=self.grouped)
            now, slots = self.clock(), {name: Slots() for name in rates}
            for (name, key), text in zip(places, texts, strict=True):
                slots[name].update(_slots(key, text))
            for name, found in slots.items():
                if window == 0:
                    self._remember(name, len(found))
                    rate = len(found) / settings.flush_interval  # no more than that were updated
                else:
                    rate = _changes(before[name], found) / max(now - at, 1e-9)
                rates[name] = min(rates[name], rate)
            rates = {name: rate for name, rate in rates.items() if rate > of(name) * settings.shard_rate}
            before, at = slots, now
        for name, rate in rates.items():
            self._grow(name, rate, shards_for(rate, settings.shard_rate, keys.buckets))

    def _remember(self, name: bytes, slots: int) -> None:
        self.slots.pop(name, None)
        self.slots[name] = slots
        if len(self.slots) > MAX_REMEMBERED:
            del self.slots[next(iter(self.slots))]

    def _grow(self, name: bytes, rate: float, shards: int) -> None:
        writer, before = self.writer, self.writer.router.shards.of(name)
        if shards <= before:
            return
        writer.router.raise_shards(name, shards)
        writer.grown += 1
        shown = name_shown(name)
        what = f"counter {quoted(name)}: {rate:,.0f} slot updates a second, {shards} shards instead of {before}"
        writer.events.append(Event(EventKind.SHARDS_GROWN, what, shown, amount=shards))


def most_shards(buckets: int) -> int:
    """Return up to how many shards a counter grows by itself: two in one bucket would not share the load."""
    return min(MAX_SHARDS, int(2 ** math.floor(math.log2(buckets))))


def shards_for(rate: float, shard_rate: float, buckets: int) -> int:
    """Return the smallest power of two that the rate asks for, within the limit."""
    shards, most = 1, most_shards(buckets)
    while shards < most and shards * shard_rate < rate:
        shards *= 2
    return shards


def _published(raw: object) -> int:
    """Return the number of shards that is published in shard 0, 1 if there is none of use."""
    try:
        (published,) = list_of(raw, 1)
        shards = int(published) if isinstance(published, bytes) and published.isdigit() else 1
        check_published(shards)
    except (CounterError, ValueError):
        return 1
    return shards


def _slots(key: bytes, text: object) -> Slots:
    """Return the slots of actors in a shard."""
    try:
        return {(key, field): total for field, total in pairs_of(text, b"") if is_actor(field[:-1])}
    except (CounterError, ValueError):  # something else is in its place: reads say so
        return {}


def _changes(before: Slots, after: Slots) -> int:
    """Return how many slots are new, or another total."""
    return sum(before.get(place) != total for place, total in after.items())
