"""A region is evicted, and returns.

Evicted: first all marks for it become void, in all buckets of all others, so that nothing more of it is merged, whoever
has it on its way; then it is recorded. Nobody waits for its receipts from then on: so what it still has of others may
be older than what they have dropped meanwhile.

Returning: therefore what others had told it is removed there first, while nobody exchanges anything with it; its own
counts stay, and those of its entries that others kept for it are met by their floors. Then it is recorded as a member,
and the marks of both sides begin anew, unlike any that were held before. What it counted, also meanwhile, counts once;
a reset that it made meanwhile holds for its own counts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from redis_counters.protocol.exchange.joining import MOST_COMMANDS, walk_over
from redis_counters.protocol.exchange.members import EVICTED, MEMBER, Member, Region, record
from redis_counters.protocol.wire.answers import list_of, reply_of
from redis_counters.protocol.wire.commands import Argument, Command, Script, hmget, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.marks import EVICTED as VOID
from redis_counters.protocol.wire.marks import anew, field_of, is_void

MOST_FORGOTTEN = 500  # shards that one script goes through

Steps = Generator[list[Command], list[object], None]


def evict(namespace: bytes, at: Region, name: bytes, id: bytes) -> Steps:
    """At this region that one is evicted. May be repeated."""
    if at.keys is None or at.id is None:
        return
    if name != at.name:
        yield from _mark_all(at.keys, [name], VOID)
    yield from record(namespace, at.name, at.id, {name: Member(id, EVICTED)})


def forget_others(region: Region, mint: Callable[[], str]) -> Steps:
    """At this region nothing is left of what others had told it, and it begins anew with all of them."""
    keys = region.keys
    assert keys is not None
    others = [name for name in region.members if name != region.name]
    yield from _mark_all(keys, others, anew(mint().encode()))
    yield from walk_over(keys, list(range(keys.buckets)), _forget_entries)


def admit(namespace: bytes, at: Region, members: Mapping[bytes, Member], mint: Callable[[], str]) -> Steps:
    """At this region these are members (again); what it held of those that were evicted begins anew. May be repeated.

    Marks are void until the end, also where the eviction was only heard of: so who repeats it sees what is left to do,
    after an eviction that was broken off, too.
    """
    assert at.keys is not None
    assert at.id is not None
    others = [name for name in members if name != at.name]
    back = [name for name in others if name in at.members and at.members[name].state == EVICTED]
    yield from _mark_all(at.keys, back, VOID)
    yield from record(namespace, at.name, at.id, {name: Member(m.id, MEMBER) for name, m in members.items()})
    yield from _begin_anew(at.keys, others, anew(mint().encode()))


def id_of(name: bytes, regions: Iterable[Region]) -> bytes | None:
    """Return the id of the region's deployment, by what others say, or else itself; None if nobody knows of it."""
    known = list(regions)
    told = [region.members[name].id for region in known if region.name != name and name in region.members]
    own = [region.id for region in known if region.name == name and region.id is not None]
    return next(iter(told + own), None)


def _mark_all(keys: KeySpace, names: list[bytes], mark: bytes) -> Steps:
    if not names:
        return
    args: list[Argument] = [part for name in names for part in (field_of(name), mark)]
    for buckets in pieces(range(keys.buckets), MOST_COMMANDS):
        answers = yield [Command(Script.MARKS_SET, (keys.marks(bucket),), args) for bucket in buckets]
        for raw in answers:
            reply_of(raw, Script.MARKS_SET)


def _begin_anew(keys: KeySpace, names: list[bytes], mark: bytes) -> Steps:
    """Marks for these regions that are void are this one."""
    if not names:
        return
    fields = [field_of(name) for name in names]
    for buckets in pieces(range(keys.buckets), MOST_COMMANDS):
        answers = yield [hmget(keys.marks(bucket), fields) for bucket in buckets]
        commands: list[Command] = []
        for bucket, raw in zip(buckets, answers, strict=True):
            held = zip(fields, list_of(raw, len(fields), keys.marks(bucket)), strict=True)
            args: list[Argument] = []
            for field, value in held:
                args += (field, mark) if isinstance(value, bytes) and is_void(value) else ()
            if args:
                commands.append(Command(Script.MARKS_SET, (keys.marks(bucket),), args))
        for raw in (yield commands) if commands else ():
            reply_of(raw, Script.MARKS_SET)


def _forget_entries(found: dict[int, list[bytes]]) -> Steps:
    """In these shards nothing is left of other regions."""
    answers = yield [
        Command(Script.ENTRIES_FORGET, some) for shards in found.values() for some in pieces(shards, MOST_FORGOTTEN)
    ]
    for raw in answers:
        reply_of(raw, Script.ENTRIES_FORGET)
