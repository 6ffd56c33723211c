"""The actors of this process in one bucket: one gets what is counted, earlier ones come to their end.

Rotation bounds memory, here and in Redis, by what was touched lately: when most of what the current actor holds is
idle, a new one takes over; the old one keeps its totals for the re-assert window, then it is closed and folded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.expiries import Expiries
from redis_counters.protocol.write.flushes import Totals
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals
from redis_counters.protocol.write.states import ActorEvent, Phase

MAX_ACTORS = 8  # of a process in a bucket: where ending them takes long, no more are made


class Request(NamedTuple):
    """A command and the actor that it is for."""

    actor: Actor
    command: Command


class ActorSet:
    """Actors by age, the current one last."""

    __slots__ = (
        "actors",
        "busy",
        "contents",
        "expiries",
        "failed",
        "mint",
        "number",
        "plus",
        "registry",
        "settings",
        "tables",
        "taken_before",
        "turn",
        "window_start",
    )

    def __init__(
        self, number: int, registry: bytes, settings: Settings, mint: Callable[[], str], now: float, expiries: Expiries
    ) -> None:
        self.number = number
        self.expiries = expiries
        self.registry = registry
        self.settings = settings
        self.mint = mint
        self.actors: list[Actor] = []
        self.busy = False  # one request on its way
        self.failed = False  # sends nothing more in this round
        self.turn = True
        self.window_start = now
        self.taken_before = 0
        self.begin(now)

    @property
    def current(self) -> Actor:
        return self.actors[-1]

    def begin(self, now: float) -> None:
        """Route what is counted from now on to a new actor."""
        settings = self.settings
        actor = Actor(self.number, self.registry, self.mint, settings.display, settings.delay, now, self.expiries)
        if self.settings.journal is not None:
            for table in actor.tables:
                table.changed = {}
        if self.actors:
            actor.sharded = self.current.sharded
            for table, before in zip(actor.tables[:2], self.current.tables[:2], strict=True):
                table.gated |= before.gated
        self.actors.append(actor)
        self.tables: tuple[SlotTotals, SlotTotals, SlotTotals] = actor.tables
        self.contents = [c for table in actor.tables for c in (table.total, table.gated)]  # all empty: it is unused
        self.plus = (actor.tables[0].total, actor.tables[0].dirty)  # what an increment by one touches
        self.window_start, self.taken_before = now, 0

    def due(self, now: float) -> bool:
        """True if an actor should be probed, or the current one looked at for rotation."""
        if any(self._unproved(actor, now) for actor in self.actors):
            return True
        if now - self.window_start < self.settings.reassert_window:
            return False
        return self._old(now) or self.current.slots >= self.settings.rotate_slots

    def _old(self, now: float) -> bool:
        """The current actor is of an age to be replaced, or has been silent for so long that janitors will close it."""
        current, settings = self.current, self.settings
        silent = now - current.last_acknowledged >= settings.actor_ttl / 2
        return silent or now - current.opened >= settings.rotate_age

    def keep_house(self, now: float, *, may_end: bool = True) -> bool:
        """Rotate if most slots of the current actor are idle; end the actors that have waited long enough.

        True if own state went from one actor to another.
        """
        current, window = self.current, self.settings.reassert_window
        if now - self.window_start >= window:
            taken = sum(table.taken for table in current.tables)
            # As many as were sent in the last window were touched, at the most, and what waits is not idle either.
            waiting = sum(len(table.dirty) for table in current.tables)
            idle = current.slots - max(taken - self.taken_before, waiting)
            many = current.slots >= self.settings.rotate_slots and idle * 2 >= current.slots
            if (
                idle > 0
                and (many or self._old(now))
                and current.state.phase is Phase.ACTIVE
                and len(self.actors) < MAX_ACTORS
            ):
                self.begin(now)
            else:
                self.window_start, self.taken_before = now, taken
        moved = False
        for actor in self.actors[:-1]:
            if now - actor.last_acknowledged < window:
                continue
            # Not before it is proved: a fail-over may take back that it was refused, and bring back what was applied.
            proved = actor.unknown is None and actor.last_proved >= actor.last_acknowledged + window
            for before, table in zip(actor.tables, self.tables, strict=True):
                if before.refused and proved and not actor.state.healing:
                    _move_refused(before, table)
                    current.moved += 1
                    moved = True
            if may_end:
                actor.retire()

        for actor in self.actors:
            if self._unproved(actor, now):
                actor.state.on(ActorEvent.PROBE_WANTED)
        return moved

    def next_request(self, now: float) -> Request | None:
        """Return what one of the actors has to send.

        The current actor and the ending ones take turns in being first, so that neither waits for ever.
        """
        self.turn = not self.turn
        for actor in self.actors if self.turn else reversed(self.actors):
            silent = now - actor.last_proved >= self.settings.actor_ttl
            command = actor.request(self.settings.max_batch, must_probe_first=silent)
            if command is not None:
                return Request(actor, command)
        return None

    def _unproved(self, actor: Actor, now: float) -> bool:
        """True if a fail-over may have taken back the actor's last flushes, and nothing would show it.

        An actor that goes on flushing learns of it by the answers; one that fell silent has to ask.
        """
        window = self.settings.reassert_window
        return (
            actor.state.phase is Phase.ACTIVE
            and actor.last_proved < actor.last_acknowledged + window
            and now - actor.last_proved >= window / 2
        )

    def close(self, now: float) -> None:
        """End every actor as soon as all it holds is acknowledged; one that never opened has nothing to end.

        An actor that ends is never the current one: what is counted even now would be lost with it.
        """
        if self.current.state.phase is not Phase.NEW and self.current.delivered:
            self.begin(now)
        for actor in self.actors[:-1]:
            actor.retire()

    def move_on(self, actor: Actor, rest: Totals, now: float) -> None:
        """The actor was folded by another client: the current one counts what it did not get across."""
        if actor is self.current:
            self.begin(now)
        self.actors.remove(actor)
        actor.successor = self.current
        actor.state.on(ActorEvent.TAKEN_OVER)
        self.current.moved += 1
        self.current.sharded = self.current.sharded or actor.sharded
        for table, before, totals in zip(self.tables, actor.tables, rest, strict=True):
            for key, amount in totals.items():
                if key not in before.gated:
                    table.gated.discard(key)  # what was let through is not held back again
                if table.kind is SlotKind.SHARDS:
                    table.raise_to(key, amount)
                else:
                    table.add(key, amount)
            table.must = table.end


def _move_refused(before: SlotTotals, table: SlotTotals) -> None:
    """Move refused totals to the current actor, so that an older one can end. None of them was ever applied."""
    for key in before.refused.keys() - before.dirty.keys():
        applied = before.acknowledged.get(key, 0)
        if table.kind is SlotKind.SHARDS:
            table.total[key] = max(before.total[key], table.total.get(key, 0))
        else:
            table.total[key] = table.total.get(key, 0) + before.total[key] - applied
        table.refused[key] = before.refused.pop(key)
        if table.changed is not None and before.changed is not None:
            table.changed[key] = before.changed[key] = None
        before.total[key] = applied
        if not applied:
            del before.total[key]
