"""Keeping house: actors that fell silent are closed, folded, and at last forgotten. No value changes by it.

Two generators do it: `one_pass` over a whole namespace, and `repair` of shards that a read found crowded. Each yields
lists of commands, is sent the lists of their answers, and writes what it has done into a `Tally`. A step is small, so
that the server is never held up. A generator may be dropped at any step, and any number of them may run at once: every
script looks at the records itself, so nothing here needs to be up to date. What one left undone the next one finds.

    steps = one_pass(keys, upkeep, tally)
    commands = next(steps)
    while True:
        commands = steps.send([answer to each command])      # StopIteration: the pass is complete

What a pass does (docs/design.md, "Reaping and folding"):

1. It reads the registries. Who is open and silent for `actor_ttl` is closed (`actors_reap`).
2. If somebody waits to be folded, it walks over the names of all keys, once for all buckets, and folds what it meets of
   these actors (`slots_fold`). A walk that was complete is recorded with the time when it began.
3. Records of actors that were folded before that, and longer than `retention` ago, are removed (`actors_clean`).

Raises: CounterError, where Redis refuses something to the whole; the pass is over then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil
from typing import Any, NamedTuple, TypeVar

from redis_counters.errors import NotPermitted
from redis_counters.protocol.commands import CONTRACTS, Command, ErrorReply, Script, hmget
from redis_counters.protocol.keys import KeySpace, meta_key
from redis_counters.protocol.reads import pairs_of
from redis_counters.protocol.refusals import error_for
from redis_counters.protocol.registry import Page, Record, hscan, is_actor, record_of, scan
from redis_counters.protocol.replies import BadReply, Reply
from redis_counters.protocol.settings import Settings

FIELDS = 250  # of a hash that are read at a time
NAMES = 250  # of keys that are looked at at a time
HASHES = 50  # that are read at a time
SLOTS = 250  # that one step folds
ACTORS = 100  # that one script closes or cleans up
COMMANDS = 100  # of one step
MOST = 100_000  # actors that one pass folds
RENEWAL = 100  # steps of a walk after which the lease is renewed

Steps = Generator[list[Command], list[object], None]
Who = tuple[int, bytes]  # bucket, actor

T = TypeVar("T")


class Upkeep(NamedTuple):
    """When something is due. Units: whole seconds of the server's clock."""

    actor_ttl: int  # who is silent for that long is closed
    delay: int  # who is closed for longer is folded: no fail-over opens him again
    retention: int  # who is folded for that long is forgotten


def upkeep_of(settings: Settings) -> Upkeep:
    """Return these options as a janitor goes by them."""
    return Upkeep(ceil(settings.actor_ttl), ceil(2 * settings.reassert_window) or 1, ceil(settings.retention))


@dataclass(slots=True)
class Tally:
    """What was done so far; of who was closed, folded or forgotten, bucket and actor."""

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
    complete: bool = False  # every slot of whom was to be folded has been


@dataclass(slots=True)
class _Plan:
    """What is to be done in one bucket."""

    registry: bytes
    wanted: set[bytes] = field(default_factory=set)  # to be folded, or perhaps not folded completely
    closed: set[bytes] = field(default_factory=set)  # of these, who is not folding yet
    old: set[bytes] = field(default_factory=set)  # to be cleaned up, once a complete walk allows it
    due: bool = False  # somebody has waited long enough for a walk
    whole: bool = True  # nobody was left out


def one_pass(
    keys: KeySpace, upkeep: Upkeep, tally: Tally, *, period: int = 0, patient: bool = False, dry_run: bool = False
) -> Steps:
    """Keep house once in all buckets; nothing happens if somebody has done so within ``period`` seconds.

    ``patient``: a walk over all keys waits until somebody has been waiting for it for `actor_ttl`, so that there is
    one in that time at most. ``dry_run``: nothing is changed, the tally says what would be.
    Cost: O(actors), and for a walk O(keys in the database + slots); a script at a time is O(250 slots).
    """
    now = yield from (_time() if dry_run else _lease(keys, period))
    if now is None:
        return
    plans: list[_Plan] = []
    room = MOST
    for bucket, registry in enumerate(keys.registries):
        plan = yield from _plan(bucket, registry, upkeep, now, tally, room, dry_run=dry_run)
        room -= len(plan.wanted)
        plans.append(plan)
    walk = any(plan.due for plan in plans) if patient else any(plan.wanted for plan in plans)
    complete = False
    if walk:
        complete = yield from _walk(keys, plans, upkeep, tally, dry_run=dry_run)
    tally.complete = complete or not any(plan.wanted for plan in plans)
    for bucket, plan in enumerate(plans):
        walked = now if complete and plan.whole else 0
        if dry_run:
            tally.cleaned += ((bucket, actor) for actor in plan.old)
        elif walked or plan.old:
            yield from _clean(bucket, plan, walked, upkeep, tally)


def repair(keys: KeySpace, upkeep: Upkeep, tally: Tally, shards: Collection[bytes]) -> Steps:
    """In these shards, the slots of those who may be folded are in the base. Cost: O(slots in them)."""
    now = yield from _time()
    bucket_of = _bucket_finder(keys)
    for key in shards:
        bucket, cursor = bucket_of(key), b"0"
        plan = _Plan(keys.registries[bucket])
        tally.shards += 1
        while True:
            (raw,) = yield [hscan(key, cursor, FIELDS)]
            page = _scanned(raw)
            actors = sorted(_actors_in(page[1])) if page is not None else []
            if actors:
                (raw,) = yield [hmget(plan.registry, actors)]
                told = zip(actors, _list(raw), strict=True)
                records = [record for actor, text in told if (record := record_of(actor, text)) is not None]
                yield from _reap(bucket, plan, records, upkeep, now, tally)
                plan.closed = {r.actor for r in records if r.state == b"c" and now - r.seen > upkeep.delay}
                may = plan.closed | {r.actor for r in records if r.state == b"f"}
                yield from _fold({(bucket, actor): [key] for actor in may}, {bucket: plan}, upkeep, tally)
            if page is None or page[0] == b"0":
                break
            cursor = page[0]


# -- the registries


def _lease(keys: KeySpace, period: int) -> Generator[list[Command], list[object], int | None]:
    """Return the server's time, None if somebody else keeps house, or there is nothing to keep."""
    (raw,) = yield [Command(Script.JANITOR_LEASE, (meta_key(keys.namespace),), (period,))]
    reply = _reply(raw, Script.JANITOR_LEASE)
    return reply.number(0) if reply.word == "OK" else None


def _time() -> Generator[list[Command], list[object], int]:
    (raw,) = yield [Command(None, (), (), b"TIME")]
    seconds = _list(raw)[0]
    if not isinstance(seconds, (bytes, int)):
        raise BadReply("expected the time")
    return int(seconds)


def _plan(
    bucket: int, registry: bytes, upkeep: Upkeep, now: int, tally: Tally, room: int, *, dry_run: bool
) -> Generator[list[Command], list[object], _Plan]:
    """Return what is to be done in a bucket; who is silent has been closed."""
    plan, cursor = _Plan(registry), b"0"
    generation, walked = b"", 0
    folded: dict[bytes, Record] = {}
    while True:
        (raw,) = yield [hscan(registry, cursor, FIELDS)]
        scanned = _scanned(raw)
        if scanned is None:  # of another type
            break
        cursor, fields = scanned
        page = Page(pairs_of(fields, b""))
        generation, walked = page.generation or generation, page.walked or walked
        if dry_run:
            silent = [(bucket, record.actor) for record in page.records if _silent(record, upkeep, now)]
            tally.reaped += silent
            tally.waiting += len(silent)
        else:
            yield from _reap(bucket, plan, page.records, upkeep, now, tally)
        for record in page.records:
            age = now - record.seen
            if record.state == b"c" and age > upkeep.delay:
                plan.closed.add(record.actor)
                plan.due = plan.due or age >= upkeep.actor_ttl
            elif record.state == b"c":
                tally.waiting += 1
            elif record.state == b"f":
                folded[record.actor] = record
        if cursor == b"0":
            break
    for actor, record in folded.items():
        age = now - record.seen
        if record.seen >= walked:  # by whom, and whether it was all of it, nobody knows
            plan.wanted.add(actor)
            plan.due = plan.due or age >= upkeep.actor_ttl
        if age >= upkeep.retention and record.generation == generation:
            plan.old.add(actor)
        else:
            tally.kept += 1
    plan.wanted |= plan.closed
    if len(plan.wanted) > room:
        plan.wanted, plan.whole = set(islice(plan.wanted, max(room, 0))), False
        plan.closed &= plan.wanted
    tally.buckets += 1
    return plan


def _silent(record: Record, upkeep: Upkeep, now: int) -> bool:
    return record.state == b"o" and now - record.seen >= upkeep.actor_ttl


def _reap(bucket: int, plan: _Plan, records: Iterable[Record], upkeep: Upkeep, now: int, tally: Tally) -> Steps:
    silent = [record.actor for record in records if _silent(record, upkeep, now)]
    for actors in _pieces(silent, ACTORS):
        (raw,) = yield [Command(Script.ACTORS_REAP, (plan.registry,), (upkeep.actor_ttl, *actors))]
        reply = _reply(raw, Script.ACTORS_REAP)
        reaped = [reply.text(i) for i in range(1, len(reply.values))]
        tally.reaped += ((bucket, actor) for actor in reaped)
        tally.waiting += len(reaped)


def _clean(bucket: int, plan: _Plan, walked: int, upkeep: Upkeep, tally: Tally) -> Steps:
    for actors in _pieces(sorted(plan.old), ACTORS) if plan.old else [()]:
        (raw,) = yield [Command(Script.ACTORS_CLEAN, (plan.registry,), (walked, upkeep.retention, *actors))]
        reply = _reply(raw, Script.ACTORS_CLEAN)
        tally.cleaned += ((bucket, reply.text(i)) for i in range(1, len(reply.values)))


# -- the walk


def _walk(
    keys: KeySpace, plans: list[_Plan], upkeep: Upkeep, tally: Tally, *, dry_run: bool
) -> Generator[list[Command], list[object], bool]:
    """Fold whoever is wanted, in all counters. Returns whether nothing of them is left."""
    bucket_of, pattern = _bucket_finder(keys), _pattern(keys.namespace)
    wanted = {bucket: plan for bucket, plan in enumerate(plans) if plan.wanted}
    tally.walking = True
    server, cursor, steps = (yield from _server()), b"0", 0
    while True:
        (raw,) = yield [scan(cursor, pattern, NAMES)]
        page = _scanned(raw)
        if page is None:
            raise BadReply("SCAN has told nothing")
        cursor, names = page
        shards = [(bucket, key) for key in names if (bucket := bucket_of(key)) in wanted]
        for some in _pieces(shards, HASHES):
            yield from _fold_in(some, wanted, upkeep, tally, dry_run=dry_run)
            steps += 1
        steps += 1
        if steps >= RENEWAL and not dry_run:
            steps = 0
            yield from _lease(keys, 0)
        if cursor == b"0":
            break
    without_slots = {(bucket, actor): () for bucket, plan in wanted.items() for actor in plan.closed}
    if dry_run:
        tally.folded.update(without_slots)
    else:
        yield from _fold(without_slots, wanted, upkeep, tally)
    tally.walking = False
    # Another server goes through its keys in another order: after a fail-over some were not seen.
    return (yield from _server()) == server


def _server() -> Generator[list[Command], list[object], bytes]:
    """Return which run of which server answers; nothing, where that may not be asked."""
    (raw,) = yield [Command(None, (), (b"server",), b"INFO")]
    if isinstance(raw, dict):
        return str(raw.get("run_id", "")).encode()
    told = re.search(rb"run_id:(\w+)", raw) if isinstance(raw, bytes) else None
    return told[1] if told is not None else b""


def _fold_in(
    shards: Iterable[tuple[int, bytes]], wanted: dict[int, _Plan], upkeep: Upkeep, tally: Tally, *, dry_run: bool
) -> Steps:
    """Fold whoever is wanted, in these shards."""
    reading = [(bucket, key, b"0") for bucket, key in shards]
    tally.shards += len(reading)
    while reading:
        answers = yield [hscan(key, cursor, FIELDS) for _bucket, key, cursor in reading]
        work: dict[Who, list[bytes]] = {}
        rest: list[tuple[int, bytes, bytes]] = []
        for (bucket, key, _), raw in zip(reading, answers, strict=True):
            page = _scanned(raw)
            if page is None:
                continue
            cursor, fields = page
            for actor in _actors_in(fields):
                if actor in wanted[bucket].wanted:
                    work.setdefault((bucket, actor), []).append(key)
            if cursor != b"0":
                rest.append((bucket, key, cursor))
        if dry_run:
            tally.slots += sum(map(len, work.values()))
        else:
            yield from _fold(work, wanted, upkeep, tally)
        reading = rest


def _fold(work: Mapping[Who, Sequence[bytes]], plans: Mapping[int, _Plan], upkeep: Upkeep, tally: Tally) -> Steps:
    """Fold each of these actors in his shards. Who is open again by now, or forgotten, is not wanted any more."""
    jobs = [(who, keys) for who, shards in work.items() for keys in (_pieces(shards, SLOTS) if shards else [()])]
    while jobs:
        step: list[tuple[Who, Sequence[bytes]]] = []
        slots = 0
        while jobs and len(step) < COMMANDS and (not step or slots + len(jobs[-1][1]) <= SLOTS):
            step.append(jobs.pop())
            slots += len(step[-1][1])
        answers = yield [
            Command(Script.SLOTS_FOLD, (plans[bucket].registry, *keys), (actor, upkeep.delay))
            for (bucket, actor), keys in step
        ]
        for ((bucket, actor), _keys), raw in zip(step, answers, strict=True):
            reply, plan = _reply(raw, Script.SLOTS_FOLD), plans[bucket]
            if reply.word != "OK":
                plan.wanted.discard(actor)
                plan.closed.discard(actor)
                continue
            tally.slots += reply.number(0)
            if actor in plan.closed:
                plan.closed.discard(actor)
                tally.folded.add((bucket, actor))
            for _number, text in reply.refused():
                error = error_for(ErrorReply(text), Script.SLOTS_FOLD)
                if isinstance(error, NotPermitted):
                    raise error
                tally.refused += 1
                plan.whole = False


# -- answers


def _reply(raw: object, script: Script) -> Reply:
    if isinstance(raw, ErrorReply):
        raise error_for(raw, script)
    return Reply(raw, CONTRACTS[script].replies)


def _list(raw: object) -> list[object]:
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    if not isinstance(raw, (list, tuple)) or not raw:
        raise BadReply(f"expected a list, got {type(raw).__name__}")
    return list(raw)


def _scanned(raw: object) -> tuple[bytes, Any] | None:
    """Return the next cursor and a page, of a hash or of names; None for a key of another type."""
    if isinstance(raw, ErrorReply) and raw.code == "WRONGTYPE":
        return None
    parts = _list(raw)
    if len(parts) != 2 or not isinstance(parts[1], (list, dict)):
        raise BadReply("expected a cursor and a page")
    cursor = parts[0]
    return (cursor if isinstance(cursor, bytes) else str(cursor).encode()), parts[1]


def _actors_in(fields: list[bytes] | dict[bytes, bytes]) -> set[bytes]:
    """Return who has slots among these fields of a shard."""
    names = fields[::2] if isinstance(fields, list) else fields
    return {name[:-1] for name in names if name[-1:] in (b"+", b"-") and is_actor(name)}


# -- names


def _pattern(namespace: bytes) -> bytes:
    """Return the pattern for the names of all shards."""
    return b"{%b:*}:c:*" % re.sub(rb"([\\*?\[\]])", rb"\\\1", namespace)


def _bucket_finder(keys: KeySpace) -> Callable[[bytes], int]:
    """Return what finds the bucket of a shard by its key; -1 for a key of another namespace."""
    match = re.compile(rb"\{%b:(\d+)\}:c:\d+:" % re.escape(keys.namespace)).match

    def bucket_of(key: bytes) -> int:
        found = match(key)
        bucket = int(found[1]) if found is not None else -1
        return bucket if bucket < keys.buckets else -1

    return bucket_of


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
