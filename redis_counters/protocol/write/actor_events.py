"""The events about actors that a client publishes."""

from __future__ import annotations

from redis_counters.errors import quoted
from redis_counters.events import Event, EventKind
from redis_counters.protocol.wire.keys import name_of
from redis_counters.protocol.wire.replies import Reply
from redis_counters.protocol.wire.values import name_shown
from redis_counters.protocol.write.actor import Actor


def of_answer(actor: Actor, reply: Reply, *, was_healing: bool) -> list[Event]:
    """Return the event of an answer, if it has one. ``was_healing``: so it was before the answer."""
    healing = actor.state.healing
    if healing and not was_healing:
        what = "Redis has lost counts that it had confirmed (a fail-over?), they are sent again"
        return [_about(EventKind.REGRESSED, actor, what)]
    if reply.word == "CLOSED":
        what = "was silent and taken for gone, but its process lives: it goes on"
        return [_about(EventKind.REOPENED, actor, what)]
    if was_healing and not healing:
        return [_about(EventKind.HEALED, actor, "Redis has confirmed again what it had lost")]
    return []


def of_missing(actor: Actor, key: bytes) -> Event:
    """Return the event of a slot that is not there any more, with its shard."""
    name = name_shown(name_of(key))
    return _about(EventKind.SHARD_MISSING, actor, f"counter {quoted(name)} was deleted, expired or evicted", name)


def of_takeover(actor: Actor) -> Event:
    """Return the event of an actor that others have folded."""
    what = "was silent, taken for gone and folded; what had not arrived is sent by a new one"
    return _about(EventKind.MOVED, actor, what)


def of_doubt(actor: Actor, why: str) -> Event:
    """Return the event of an actor of which it is not known how far it got."""
    return _about(EventKind.UNCERTAIN, actor, f"{why}; what is unknown counts as applied")


def _about(kind: EventKind, actor: Actor, what: str, counter: str | bytes | None = None) -> Event:
    shown = actor.id.decode("ascii", "replace") or "(not opened)"
    return Event(kind, f"actor {shown}: {what}", counter, actor.id, actor.bucket)
