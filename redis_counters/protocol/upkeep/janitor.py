"""Upkeep of a namespace: actors that fell silent are closed, folded, and at last forgotten. No value changes by it.

Two generators do it: `one_pass` over a whole namespace, and `repair` of shards that a read found crowded. Each yields
lists of commands, is sent the lists of their answers, and writes what it has done into a `JanitorReport`. A step is
small, so that the server is never held up. A generator may be dropped at any step, and any number of them may run at
once: every script looks at the records itself, so nothing here needs to be up to date. What one left undone the next
one finds.

    steps = one_pass(keys, upkeep, report)
    commands = next(steps)
    while True:
        commands = steps.send([answer to each command])      # StopIteration: the pass is complete

What a pass does (page "The design", "Reaping and folding"):

1. It reads the registries. An actor that is open and silent for `actor_ttl` is closed (`actors_reap`).
2. If an actor waits to be folded, it walks over the names of all keys, once for all buckets, and folds what it meets of
   these actors (`slots_fold`). A walk that was complete is recorded with the time when it began.
3. Records of actors that were folded before that, and longer than `retention` ago, are removed (`actors_clean`).

Raises: CounterError, where Redis refuses something to the whole; the pass is over then.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable

from redis_counters.protocol.upkeep.folding import (
    JanitorReport,
    Plan,
    Upkeep,
    Who,
    fold,
    lease,
    upkeep_of,
    walk,
)
from redis_counters.protocol.upkeep.key_walk import Steps, bucket_finder
from redis_counters.protocol.wire.answers import list_of, reply_of
from redis_counters.protocol.wire.commands import Command, Script, hmget, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.registry import (
    CHUNK_SIZE,
    ActorRecord,
    RegistryPage,
    actors_in,
    hscan,
    record_of,
    scanned,
    time,
    time_of,
)
from redis_counters.protocol.wire.shard_fields import pairs_of

__all__ = ["JanitorReport", "Steps", "Upkeep", "Who", "one_pass", "repair", "upkeep_of"]

ACTORS_PER_SCRIPT = 100  # that one script closes or cleans up
MAX_FOLDED = 100_000  # actors that one pass folds


def one_pass(
    keys: KeySpace,
    upkeep: Upkeep,
    report: JanitorReport,
    *,
    period: int = 0,
    patient: bool = False,
    dry_run: bool = False,
) -> Steps:
    """Do the upkeep once in all buckets; nothing happens if a client has done so within ``period`` seconds.

    ``patient``: a walk over all keys waits until an actor has been waiting for it for `actor_ttl`, so that there is
    one in that time at most. ``dry_run``: nothing is changed, the report says what would be.
    Cost: O(actors), and for a walk O(keys in the database + slots); a script at a time is O(250 slots).
    """
    if not dry_run and (yield from lease(keys, period)) is None:
        return
    plans: list[Plan] = []
    room = MAX_FOLDED
    for bucket, registry in enumerate(keys.registries):
        now = yield from _time(registry)  # of the server that wrote the times of its records
        plan = yield from _plan(bucket, registry, upkeep, now, report, room, dry_run=dry_run)
        room -= len(plan.wanted)
        plans.append(plan)
    complete, none = False, not any(plan.wanted for plan in plans)
    if any(plan.due if patient else plan.wanted for plan in plans):
        complete = yield from walk(keys, plans, upkeep, report, dry_run=dry_run)
    report.complete = none or (complete and all(plan.whole for plan in plans))
    for bucket, plan in enumerate(plans):
        walked = plan.now if complete and plan.whole else 0
        if dry_run:
            report.cleaned += ((bucket, actor) for actor in plan.old)
        elif walked or plan.old:
            yield from _clean(bucket, plan, walked, upkeep, report)


def repair(keys: KeySpace, upkeep: Upkeep, report: JanitorReport, shards: Collection[bytes]) -> Steps:
    """Fold, in these shards, the slots of actors that may be folded. Cost: O(slots in them)."""
    bucket_of = bucket_finder(keys)
    for key in shards:
        bucket, cursor = bucket_of(key), b"0"
        now = yield from _time(keys.registries[bucket])
        plan = Plan(keys.registries[bucket], now)
        report.shards += 1
        while True:
            (raw,) = yield [hscan(key, cursor, CHUNK_SIZE)]
            page = scanned(raw, fields=True)
            actors = sorted(actors_in(page[1])) if page is not None else []
            if actors:
                (raw,) = yield [hmget(plan.registry, actors)]
                answered = zip(actors, list_of(raw, len(actors)), strict=True)
                records = [record for actor, text in answered if (record := record_of(actor, text)) is not None]
                yield from _reap(bucket, plan, records, upkeep, now, report)
                plan.closed = {r.actor for r in records if r.state == b"c" and now - r.seen > upkeep.delay}
                may = plan.closed | {r.actor for r in records if r.state == b"f"}
                yield from fold({(bucket, actor): [key] for actor in may}, {bucket: plan}, upkeep, report)
            if page is None or page[0] == b"0":
                break
            cursor = page[0]


# -- the registries


def _time(at: bytes) -> Generator[list[Command], list[object], int]:
    (raw,) = yield [time(at)]
    return time_of(raw)


def _plan(
    bucket: int, registry: bytes, upkeep: Upkeep, now: int, report: JanitorReport, room: int, *, dry_run: bool
) -> Generator[list[Command], list[object], Plan]:
    """Return what is due in a bucket; silent actors have been closed."""
    plan, cursor = Plan(registry, now), b"0"
    generation, walked = b"", 0
    folded: dict[bytes, ActorRecord] = {}
    while True:
        (raw,) = yield [hscan(registry, cursor, CHUNK_SIZE)]
        scan = scanned(raw, fields=True)
        if scan is None:  # of another type: left alone
            plan.whole = False
            break
        cursor, page = scan[0], RegistryPage(pairs_of(scan[1], b""))
        generation, walked = page.generation or generation, page.walked or walked
        if dry_run:
            silent = [(bucket, record.actor) for record in page.records if _silent(record, upkeep, now)]
            report.reaped += silent
            report.waiting += len(silent)
        else:
            yield from _reap(bucket, plan, page.records, upkeep, now, report)
        for record in page.records:
            age = now - record.seen
            if record.state == b"c" and age > upkeep.delay:
                plan.closed.add(record.actor)
                plan.due = plan.due or age >= upkeep.actor_ttl
            elif record.state == b"c":
                report.waiting += 1
            elif record.state == b"f":
                folded[record.actor] = record
        if cursor == b"0":
            break
    for actor, record in folded.items():
        age = now - record.seen
        if record.seen >= walked:  # it is not known whether all of it was
            plan.wanted.add(actor)
            plan.due = plan.due or age >= upkeep.actor_ttl
        if age >= upkeep.retention and record.generation == generation:
            plan.old.add(actor)
        else:
            report.kept += 1
    plan.wanted |= plan.closed
    if len(plan.wanted) > room:
        plan.wanted, plan.whole = set(sorted(plan.wanted)[: max(room, 0)]), False
        plan.closed &= plan.wanted
    report.buckets += 1
    return plan


def _silent(record: ActorRecord, upkeep: Upkeep, now: int) -> bool:
    return record.state == b"o" and now - record.seen >= upkeep.actor_ttl


def _reap(
    bucket: int, plan: Plan, records: Iterable[ActorRecord], upkeep: Upkeep, now: int, report: JanitorReport
) -> Steps:
    silent = [record.actor for record in records if _silent(record, upkeep, now)]
    for actors in pieces(silent, ACTORS_PER_SCRIPT):
        (raw,) = yield [Command(Script.ACTORS_REAP, (plan.registry,), (upkeep.actor_ttl, *actors))]
        reply = reply_of(raw, Script.ACTORS_REAP)
        reaped = [reply.text(i) for i in range(1, len(reply.values))]
        report.reaped += ((bucket, actor) for actor in reaped)
        report.waiting += len(reaped)


def _clean(bucket: int, plan: Plan, walked: int, upkeep: Upkeep, report: JanitorReport) -> Steps:
    for actors in pieces(sorted(plan.old), ACTORS_PER_SCRIPT) if plan.old else [()]:
        (raw,) = yield [Command(Script.ACTORS_CLEAN, (plan.registry,), (walked, upkeep.retention, *actors))]
        reply = reply_of(raw, Script.ACTORS_CLEAN)
        report.cleaned += ((bucket, reply.text(i)) for i in range(1, len(reply.values)))
