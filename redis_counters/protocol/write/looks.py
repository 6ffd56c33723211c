"""Looks: plain reads of own actors' records, to notice lost counts where no error says so.

A fail-over, a restart without persistence or FLUSHALL may happen without any error here: redis-py connects anew in
silence, and a proxy keeps the connection. An actor that has something to send learns of the loss by the answer. For the
others each look reads the records of those that were seen longest ago, half of them. So a loss is found within two
looks; an actor with an unexpected record sends an empty flush, and the answer does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis_counters.protocol.wire.registry import record_of
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.states import ActorEvent, Phase

BUSY_PAUSE_S = 1.0  # seconds between looks while the process counts or reads, at least
IDLE_PAUSE_S = 30.0  # at most; on the way there half of the time that it has been idle for


class Looks:
    """When the next look is due, and at which actors."""

    __slots__ = ("at", "used_at")

    def __init__(self) -> None:
        self.at = 0.0  # the last look, on the monotonic clock
        self.used_at = 0.0  # when the process last counted or read

    def due(self, actors: Iterable[Actor], now: float) -> bool:
        """True if the record of some actor should be read."""
        pause = min(max((now - self.used_at) / 2, BUSY_PAUSE_S), IDLE_PAUSE_S)
        if now - self.at < pause:
            return False
        return any(holds(actor) and now - last_seen(actor) >= BUSY_PAUSE_S for actor in actors)

    def begin(self, actors: Iterable[Actor], now: float) -> None:
        """Half of the actors that hold totals are to be looked at in this round, those that were seen longest ago.

        However lately that was: the loss may be later, and two looks are to be enough.
        """
        self.at = now
        held = sorted(filter(holds, actors), key=last_seen)
        for actor in held[: (len(held) + 1) // 2]:
            actor.state.on(ActorEvent.LOOK_WANTED)

    def answered(self, actor: Actor, raw: object, now: float) -> None:
        """Take in the answer to a look at this actor.

        Unless the record is there, open and not behind, an empty flush asks why.
        """
        actor.state.on(ActorEvent.LOOK_OVER)
        if has_all(actor, raw):
            actor.last_looked = now
        elif actor.state.phase is Phase.ACTIVE:
            actor.state.on(ActorEvent.PROBE_WANTED)


def holds(actor: Actor) -> bool:
    """True if it has acknowledged totals that could be lost."""
    return actor.state.phase is Phase.ACTIVE and actor.base > 0


def has_all(actor: Actor, raw: object) -> bool:
    """Whether an answer to HMGET of an actor's record says that Redis has all that it acknowledged."""
    record = record_of(actor.id, raw[0]) if isinstance(raw, list) and len(raw) == 1 else None
    return record is not None and record.state == b"o" and record.seq >= actor.base


def last_seen(actor: Actor) -> float:
    """Return when Redis last had all that the actor's flushes acknowledged, by a flush or by a look."""
    return max(actor.last_proved, actor.last_looked)
