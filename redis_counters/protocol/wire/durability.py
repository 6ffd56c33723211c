"""Confirmation of a flush before it counts as done: by followers (WAIT), the append-only file (WAITAOF), or nothing.

Both commands speak of the writes of their own connection, and replication is one stream: so whatever was written
before, on any connection, is confirmed with what this connection wrote last. They are sent behind the flushes, outside
of MULTI, where they would not wait.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from redis_counters.errors import CounterError, Outcome, Refused, Unconfirmed, UsageError, reworded, with_outcome
from redis_counters.protocol.wire.commands import Command, ErrorReply, NoAnswer
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply

APPLIED = "applied on the primary, but `durability` cannot be confirmed"


class Durability(NamedTuple):
    """The copies that must confirm a flush before `flush` and `close` return.

    ``replicas``: how many followers must have received it (WAIT), or, with ``aof``, written it to disk (WAITAOF).
    ``aof``: the primary must have written it to its append-only file; Redis 7.2 or later.
    ``timeout``: seconds that Redis waits for that, each time; it must be less than the client's socket time-out.
    Cost: one command per round of flushing, and that long.
    """

    replicas: int = 0
    aof: bool = False
    timeout: float = 1.0


def check_durability(value: Durability | None) -> Durability | None:
    """Return the option. Raises TypeError, UsageError."""
    if value is None:
        return None
    if not isinstance(value, Durability):
        raise TypeError(f"durability must be a Durability or None, not {type(value).__name__}")
    replicas, aof, timeout = value
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not isinstance(aof, bool):
        raise TypeError("durability: replicas must be an int, aof a bool")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError("durability: timeout must be a number of seconds")
    if replicas < 0 or not (replicas or aof):
        raise UsageError("durability must ask for something: replicas of at least 1, or aof=True")
    if not 0.001 <= timeout <= 3600:  # for Redis, 0 is for ever
        raise UsageError(f"durability: timeout must be between 0.001 and 3600 seconds, got {timeout}")
    return value


def evicting_policy(raw: object) -> str | None:
    """Return the server's policy, out of INFO memory, if by that it may evict counters; None if not, or not known."""
    policy = re.search(rb"maxmemory_policy:([\w-]+)", raw) if isinstance(raw, bytes) else None
    return policy[1].decode("ascii", "replace") if policy is not None and policy[1] != b"noeviction" else None


def confirm(durability: Durability) -> Command:
    """Return the command that waits for the confirmation."""
    milliseconds = int(durability.timeout * 1000)
    if durability.aof:
        return Command(None, (), (1, durability.replicas, milliseconds), b"WAITAOF")
    return Command(None, (), (durability.replicas, milliseconds), b"WAIT")


class Confirmation:
    """How many of a client's flushes are confirmed, where it asks for that (``durability`` is not None)."""

    __slots__ = ("confirmed", "durability", "shortfall")

    def __init__(self, durability: Durability | None) -> None:
        self.durability = durability
        self.confirmed = 0
        self.shortfall: CounterError | None = None  # why the rest is not

    def covers(self, flushes: int) -> bool:
        """True if so many flushes are confirmed, as far as that is asked for."""
        return self.durability is None or self.confirmed >= flushes

    def command(self, flushes: int) -> Command | None:
        """Return the command that asks whether so many are durable, None if there is no need."""
        return None if self.durability is None or self.covers(flushes) else confirm(self.durability)

    def answered(self, flushes: int, raw: object) -> CounterError | None:
        """Take in the answer, and return what it lacks; None if it confirms so many flushes."""
        assert self.durability is not None
        self.shortfall = shortfall(self.durability, raw)
        if self.shortfall is None:
            self.confirmed = flushes
        return self.shortfall


def shortfall(durability: Durability, raw: object) -> CounterError | None:
    """Return what the answer lacks, None if it confirms. What was to be confirmed is applied in any case."""
    error = _shortfall(durability, raw)
    return None if error is None else with_outcome(error, Outcome.APPLIED)


def _shortfall(durability: Durability, raw: object) -> CounterError | None:
    if isinstance(raw, ErrorReply):
        if "unknown command" in raw.text.lower():
            return Refused(f"{APPLIED}: aof=True asks for WAITAOF, which this server does not have (Redis 7.2 does)")
        error = error_for(raw, None)
        return reworded(error, f"{APPLIED}: {error}")
    if isinstance(raw, NoAnswer):
        return Unconfirmed(f"{APPLIED}: {raw.error}")
    counts = [count for count in (raw if isinstance(raw, list) else [raw]) if isinstance(count, int)]
    if len(counts) != 1 + durability.aof:
        return BadReply(f"durability: expected numbers of copies, got {type(raw).__name__}")
    followers = counts[-1]
    missing = [f"{followers} of {durability.replicas} followers"] if followers < durability.replicas else []
    if durability.aof and counts[0] < 1:
        missing.append("no append-only file of the primary")
    if not missing:
        return None
    return Unconfirmed(
        f"applied on the primary, but confirmed by {' and '.join(missing)} within {durability.timeout:g} s; "
        "what was flushed is there, telling it again counts nothing twice"
    )
