"""Folding what is to be folded, wherever it is: in given shards, or in a walk over all keys.

The part of the janitor that looks at counters; `janitor` says which actors are to be folded, and when.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, TypeVar

from redis_counters.errors import NotPermitted
from redis_counters.protocol.upkeep.key_walk import COMMANDS_PER_STEP, Steps, walk_once
from redis_counters.protocol.wire.answers import reply_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script, pieces
from redis_counters.protocol.wire.keys import KeySpace, meta_key
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.registry import CHUNK_SIZE, actors_in, hscan, scanned
from redis_counters.protocol.wire.settings import Settings

HASHES_PER_READ = 50  # that are read at a time
STEP_SLOTS = 250  # that one step folds
STEPS_PER_RENEWAL = 100  # steps of a walk after which the lease is renewed

Who = tuple[int, bytes]  # bucket, actor

T = TypeVar("T")


class Upkeep(NamedTuple):
    """When something is due. Units: whole seconds of the server's clock."""

    actor_ttl: int  # an actor that is silent for that long is closed
    delay: int  # one that is closed for longer is folded: no fail-over opens it again
    retention: int  # one that is folded for that long is forgotten


def upkeep_of(settings: Settings) -> Upkeep:
    """Return these options as a janitor goes by them."""
    return Upkeep(ceil(settings.actor_ttl), settings.delay, ceil(settings.retention))


@dataclass(slots=True)
class JanitorReport:
    """Work done so far; of actors that were closed, folded or forgotten, bucket and id."""

    reaped: list[Who] = field(default_factory=list)
    folded: set[Who] = field(default_factory=set)
    cleaned: list[Who] = field(default_factory=list)
    slots: int = 0  # that were folded
    shards: int = 0  # that were looked at
    waiting: int = 0  # actors that are closed, but not long enough to be folded
    kept: int = 0  # folded, and remembered for their owners
    refused: int = 0  # slots that Redis would not fold
    buckets: int = 0  # whose registries were read
    walking: bool = False
    complete: bool = False  # all slots due were folded


@dataclass(slots=True)
class Plan:
    """Work due in one bucket."""

    registry: bytes
    now: int  # by the clock of its server, before anything else was asked
    wanted: set[bytes] = field(default_factory=set)  # to be folded, or perhaps not folded completely
    closed: set[bytes] = field(default_factory=set)  # of these, those that are not folding yet
    old: set[bytes] = field(default_factory=set)  # to be cleaned up, once a complete walk allows it
    due: bool = False  # an actor has waited long enough for a walk
    whole: bool = True  # no actor was left out


def lease(keys: KeySpace, period: int) -> Generator[list[Command], list[object], int | None]:
    """Return the server's time, None if another client does the upkeep, or there is nothing to do."""
    (raw,) = yield [Command(Script.JANITOR_LEASE, (meta_key(keys.namespace),), (period,))]
    reply = reply_of(raw, Script.JANITOR_LEASE)
    return reply.number(0) if reply.word == "OK" else None


def walk(
    keys: KeySpace, plans: list[Plan], upkeep: Upkeep, report: JanitorReport, *, dry_run: bool
) -> Generator[list[Command], list[object], bool]:
    """Fold the wanted actors, in all counters. Return whether nothing of them is left."""
    wanted = {bucket: plan for bucket, plan in enumerate(plans) if plan.wanted}
    steps = 0

    def visit(found: dict[int, list[bytes]]) -> Steps:
        nonlocal steps
        steps += 1
        for some in pieces([(bucket, key) for bucket, shards in found.items() for key in shards], HASHES_PER_READ):
            yield from _fold_in(some, wanted, upkeep, report, dry_run=dry_run)
            steps += 1
        if steps >= STEPS_PER_RENEWAL and not dry_run:
            steps = 0
            yield from lease(keys, 0)

    report.walking = True
    complete = yield from walk_once(keys, wanted, visit)
    without_slots = {(bucket, actor): () for bucket, plan in wanted.items() for actor in sorted(plan.closed)}
    if dry_run:
        report.folded.update(without_slots)
    else:
        yield from fold(without_slots, wanted, upkeep, report)
    report.walking = False
    return complete


def _fold_in(
    shards: Iterable[tuple[int, bytes]],
    wanted: dict[int, Plan],
    upkeep: Upkeep,
    report: JanitorReport,
    *,
    dry_run: bool,
) -> Steps:
    """Fold the wanted actors, in these shards."""
    reading = [(bucket, key, b"0") for bucket, key in shards]
    report.shards += len(reading)
    while reading:
        answers = yield [hscan(key, cursor, CHUNK_SIZE) for _bucket, key, cursor in reading]
        work: dict[Who, list[bytes]] = {}
        rest: list[tuple[int, bytes, bytes]] = []
        for (bucket, key, _), raw in zip(reading, answers, strict=True):
            page = scanned(raw, fields=True)
            if page is None:
                continue
            cursor, fields = page
            for actor in actors_in(fields):
                if actor in wanted[bucket].wanted:
                    work.setdefault((bucket, actor), []).append(key)
            if cursor != b"0":
                rest.append((bucket, key, cursor))
        if dry_run:
            report.slots += sum(map(len, work.values()))
        else:
            yield from fold(work, wanted, upkeep, report)
        reading = rest


def fold(
    work: Mapping[Who, Sequence[bytes]], plans: Mapping[int, Plan], upkeep: Upkeep, report: JanitorReport
) -> Steps:
    """Fold each of these actors in its shards. One that is open again by now, or forgotten, is not wanted any more."""
    jobs = [(who, keys) for who, shards in work.items() for keys in (pieces(shards, STEP_SLOTS) if shards else [()])]
    while jobs:
        step: list[tuple[Who, Sequence[bytes]]] = []
        slots = 0
        while jobs and len(step) < COMMANDS_PER_STEP and (not step or slots + len(jobs[-1][1]) <= STEP_SLOTS):
            step.append(jobs.pop())
            slots += len(step[-1][1])
        answers = yield [
            Command(Script.SLOTS_FOLD, (plans[bucket].registry, *keys), (actor, upkeep.delay))
            for (bucket, actor), keys in step
        ]
        for ((bucket, actor), _keys), raw in zip(step, answers, strict=True):
            reply, plan = reply_of(raw, Script.SLOTS_FOLD), plans[bucket]
            if reply.word != "OK":
                plan.wanted.discard(actor)
                plan.closed.discard(actor)
                continue
            report.slots += reply.number(0)
            if actor in plan.closed:
                plan.closed.discard(actor)
                report.folded.add((bucket, actor))
            for _number, text in reply.refused():
                error = error_for(ErrorReply(text), Script.SLOTS_FOLD)
                if isinstance(error, NotPermitted):
                    raise error
                report.refused += 1
                plan.whole = False
