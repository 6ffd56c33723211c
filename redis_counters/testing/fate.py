"""The fates of commands on a lossy link, and the faults that choose them."""

from __future__ import annotations

import enum
import random
from collections.abc import Collection
from dataclasses import dataclass

from redis_counters.errors import UsageError


class Fate(enum.IntEnum):
    """The fate of one command; the greatest one wins where several faults meet."""

    PASS = 0
    DUPLICATE = 1
    DELAY = 2
    DRIP = 3
    REPLACE_REPLY = 4
    DROP_REPLY = 5
    CUT_BEFORE = 6


@dataclass(frozen=True, slots=True)
class Struck:
    """A command's fate. ``seconds``: how late its reply is, or each byte of it. ``reply``: the bytes instead of it."""

    fate: Fate
    seconds: float = 0.0
    reply: bytes = b""


SPARED = Struck(Fate.PASS)


@dataclass(slots=True)
class Fault:
    """Strikes every n-th matching command, or each with a probability, at most ``times`` times."""

    struck: Struck
    every: int | None
    probability: float | None
    rng: random.Random
    commands: frozenset[str] | None
    times: int | None
    seen: int = 0

    def judge(self, command: str) -> Struck:
        if self.times == 0 or (self.commands is not None and command not in self.commands):
            return SPARED
        self.seen += 1
        strikes = self.rng.random() < (self.probability or 0) if self.every is None else self.seen % self.every == 0
        if not strikes:
            return SPARED
        if self.times is not None:
            self.times -= 1
        return self.struck


def fault(
    struck: Struck,
    every: int | None,
    probability: float | None,
    seed: int | None,
    commands: Collection[str] | None,
    times: int | None,
) -> Fault:
    """Return a fault as the methods of a link describe it. Raises UsageError for a description that is not clear."""
    if (every is None) == (probability is None):
        raise UsageError("give one of every=N and probability=p")
    if every is not None and every < 1:
        raise UsageError(f"every must be at least 1, not {every}")
    if probability is not None and not 0 <= probability <= 1:
        raise UsageError(f"probability must be from 0 to 1, not {probability}")
    names = None if commands is None else frozenset(name.upper() for name in commands)
    return Fault(struck, every, probability, random.Random(seed), names, times)
