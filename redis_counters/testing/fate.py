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


class Fault:
    """Strikes every n-th matching command, or each with a probability, at most ``times`` times.

    Raises: UsageError for a description that is not clear.
    """

    def __init__(
        self,
        struck: Struck,
        every: int | None,
        probability: float | None,
        seed: int | None,
        commands: Collection[str] | None,
        times: int | None,
    ) -> None:
        if (every is None) == (probability is None):
            raise UsageError("give one of every=N and probability=p")
        if every is not None and every < 1:
            raise UsageError(f"every must be at least 1, not {every}")
        if probability is not None and not 0 <= probability <= 1:
            raise UsageError(f"probability must be from 0 to 1, not {probability}")
        self._struck, self._every, self._probability, self._times = struck, every, probability or 0.0, times
        self._commands = None if commands is None else {name.upper() for name in commands}
        self._rng = random.Random(seed)
        self._seen = 0

    def judge(self, command: str) -> Struck:
        """Return the fate of a command."""
        if self._times == 0 or (self._commands is not None and command not in self._commands):
            return SPARED
        self._seen += 1
        hit = self._rng.random() < self._probability if self._every is None else self._seen % self._every == 0
        if hit and self._times is not None:
            self._times -= 1
        return self._struck if hit else SPARED
