"""Operations on all regions together: listing, evicting and adding them, and catching up once.

The operations are generators: each yields the steps for each region, all at the same time, and gets their results by
region: a value, or a CounterError.

Evicting: first all marks for the region become void, in all buckets of all others, so that nothing more of it is
merged, whichever exchange has it in flight; then the eviction is recorded. Its acknowledgements are ignored from then
on: so what it still has of others may be older than what they have dropped meanwhile.

Returning: therefore what the region has of others is removed there first, while no exchange works with it. Its own
counts stay, and those of its entries that others kept for it are met by their floors. Then it is recorded as a member,
and the marks of both sides begin anew, unlike any that were held before. What it counted, also meanwhile, counts once;
a reset that it made meanwhile holds for its own counts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from redis_counters.errors import CounterError, Unavailable, UsageError, reworded
from redis_counters.protocol.exchange.joining import MAX_COMMANDS, run_all, walk_over
from redis_counters.protocol.exchange.members import (
    EVICTED,
    MEMBER,
    Member,
    Region,
    agree,
    check_free,
    look,
    record,
    settle,
)
from redis_counters.protocol.exchange.metrics import RegionStatus
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.exchange.state import Common
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Argument, Command, Script, hmget, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.marks import EVICTED as VOID
from redis_counters.protocol.wire.marks import anew, field_of, is_void

MAX_FORGOTTEN = 500  # shards that one script goes through

T = TypeVar("T")
Steps = Generator[list[Command], list[object], None]
Plan = Generator[list[Command], list[object], Any]
Operation = Generator[Mapping[bytes, Plan], Mapping[bytes, Any], T]


def see(common: Common, names: Iterable[bytes]) -> Operation[list[RegionStatus]]:
    """Return the status of each region."""
    namespace = common.options.namespace
    found = yield {name: look(namespace, name) for name in names}
    regions = [region for region in found.values() if isinstance(region, Region)]
    status = []
    every = dict.fromkeys([*found, *(name for region in regions for name in region.members)])
    for name in sorted(every):
        own = found.get(name)
        region = own if isinstance(own, Region) else None
        records = {each.name: each.members[name] for each in regions if name in each.members}
        states = {member.state for member in records.values()}
        state = EVICTED if EVICTED in states else MEMBER if states else b"unknown"
        error = str(own) if isinstance(own, CounterError) else None
        if own is None:
            error = "not among the regions of this exchange"
        ids = [member.id for member in records.values()]
        id = region.id if region is not None and region.id is not None else next(iter(ids), None)
        if error is None and any(each != id for each in ids):
            error = "its name belongs to another deployment, say others"
        status.append(
            RegionStatus(
                name=name.decode(),
                id=None if id is None else id.decode("ascii", "replace"),
                state=state.decode(),
                recorded_by=tuple(sorted(by.decode() for by, m in records.items() if m.state == state)),
                buckets=region.keys.buckets if region is not None and region.keys is not None else None,
                error=error,
            )
        )
    return status


def evict_one(common: Common, names: Iterable[bytes], name: bytes) -> Operation[None]:
    """The region is evicted, as far as the others answer. Raises UsageError, Unavailable."""
    namespace = common.options.namespace
    found = yield {each: look(namespace, each) for each in dict.fromkeys([*names, name])}
    regions = _regions(found)
    id = id_of(name, regions.values())
    failed = {each: error for each, error in found.items() if isinstance(error, CounterError) and each != name}
    if id is None:
        if failed and not regions:
            why = "; ".join(f"{each.decode()}: {error}" for each, error in failed.items())
            raise Unavailable(f"whether {name.decode()!r} is a region is not known, for none answers; {why}")
        raise UsageError(f"no region knows of one named {name.decode()!r}")
    if name in regions and regions[name].id != id:
        del regions[name]  # another deployment at its address
    others = _others_first(regions, name)
    evicted = yield {each: evict(namespace, regions[each], name, id) for each in others}
    failed |= {each: error for each, error in evicted.items() if isinstance(error, CounterError) and each != name}
    missing = _not_given(regions.values(), found) - {name}
    if failed or missing:
        reasons = [f"{each.decode()}: {error}" for each, error in failed.items()]
        reasons += [f"{each.decode()}: not among the regions given" for each in sorted(missing)]
        raise Unavailable(
            f"region {name.decode()!r} is evicted, but not everywhere; evict it again when these answer: "
            + "; ".join(reasons)
        )


def add_some(common: Common, names: Sequence[bytes], new: Sequence[bytes]) -> Operation[None]:
    """The new regions are members everywhere, those that were evicted have returned. Raises what is in the way."""
    options = common.options
    namespace = options.namespace
    looked = yield {name: look(namespace, name) for name in dict.fromkeys([*names, *new])}
    gone = {name for name in looked if name not in new and _is_gone(name, looked)}
    found = {name: region for name, region in looked.items() if name not in gone}
    for name, region in found.items():
        if isinstance(region, CounterError):
            raise reworded(region, f"region {name.decode()}: {region}; nothing has changed")
        common.saw(name, region)
    regions = _regions(found)
    seen = list(regions.values())
    # Another exchange may have given a new one its id, and recorded it with the others, before we looked there.
    again = yield {region.name: look(namespace, region.name) for region in seen if region.id is None}
    regions |= _regions(again, strict=True)
    back = [name for name in new if any(_is_evicted(name, region) for region in regions.values())]
    missing = _not_given(regions.values(), found)
    if back and missing:
        raise Unavailable(
            "a region can return only if all members are told; these are not among the regions given: "
            + ", ".join(sorted(name.decode() for name in missing))
            + "; nothing has changed"
        )
    for region in regions.values():
        check_free(region, seen)
    buckets = common.buckets_of_new() or options.default_buckets
    settled = yield {
        name: settle(namespace, name, region.keys.buckets if region.keys is not None else buckets, _id(common))
        for name, region in regions.items()
        if region.keys is None or region.id is None or name not in region.members
    }
    regions |= _regions(settled, strict=True)
    members = {}
    for name, region in regions.items():
        assert region.id is not None
        members[name] = Member(region.id, MEMBER)
    for name in new:  # before anything is changed for it: names, ids, numbers of buckets go together
        for other in regions:
            if other != name:
                agree(_as_members(regions[name], members), _as_members(regions[other], members))
    cleaned = yield {name: forget_others(regions[name], options.mint) for name in back}
    _check(cleaned)
    admitted = yield {
        name: admit(namespace, region, members if name in new else {each: members[each] for each in new}, options.mint)
        for name, region in regions.items()
    }
    _check(admitted)


def catch_up(pairs: Sequence[Pair]) -> Generator[str, None, None]:
    """Yield what all pairs do next, at the same time: "pull", or "compare", until nothing changes any more.

    A pair may have to forward what another has merged: so there are as many turns as there are regions, and one more.
    """
    turns = len({name for pair in pairs for name in pair.names}) + 1
    for _ in range(3):
        for _ in range(turns):
            before = _changed(pairs)
            yield "pull"
            if _changed(pairs) == before:
                break
        before = _changed(pairs)
        yield "compare"
        if _changed(pairs) == before:
            return


def _changed(pairs: Iterable[Pair]) -> int:
    return sum(pair.metrics.changed for pair in pairs)


def _id(common: Common) -> bytes:
    return common.options.mint().encode()


def _regions(found: Mapping[bytes, object], *, strict: bool = False) -> dict[bytes, Region]:
    if strict:
        _check(found)
    return {name: region for name, region in found.items() if isinstance(region, Region)}


def _check(found: Mapping[bytes, object]) -> None:
    for name, result in found.items():
        if isinstance(result, CounterError):
            raise reworded(result, f"region {name.decode()}: {result}; to be repeated")


def _is_gone(name: bytes, found: Mapping[bytes, object]) -> bool:
    """True if any region has recorded that this one is evicted."""
    return any(isinstance(region, Region) and _is_evicted(name, region) for region in found.values())


def _is_evicted(name: bytes, region: Region) -> bool:
    member = region.members.get(name)
    return member is not None and member.state == EVICTED


def _as_members(region: Region, members: Mapping[bytes, Member]) -> Region:
    """Return the region as it will be: with these as members, where it has them recorded by the same id."""
    changed = {
        name: members[name] if name in members and member.id == members[name].id else member
        for name, member in region.members.items()
    }
    return region._replace(members=changed)


def _not_given(regions: Iterable[Region], found: Mapping[bytes, object]) -> set[bytes]:
    """Return the members that some region has recorded, and that are not among the regions given."""
    return {
        name
        for region in regions
        for name, member in region.members.items()
        if member.state != EVICTED and name not in found
    }


def _others_first(regions: Mapping[bytes, Region], name: bytes) -> list[bytes]:
    return [each for each in regions if each != name] + ([name] if name in regions else [])


def evict(namespace: bytes, at: Region, name: bytes, id: bytes) -> Steps:
    """At this region that one is evicted. May be repeated."""
    if at.keys is None or at.id is None:
        return
    if name != at.name:
        yield from _mark_all(at.keys, [name], VOID)
    yield from record(namespace, at.name, at.id, {name: Member(id, EVICTED)})


def forget_others(region: Region, mint: Callable[[], str]) -> Steps:
    """At this region nothing is left of others' counts, and it begins anew with all of them."""
    keys = region.keys
    assert keys is not None
    others = [name for name in region.members if name != region.name]
    yield from _mark_all(keys, others, anew(mint().encode()))
    yield from walk_over(keys, list(range(keys.buckets)), _forget_entries)


def admit(namespace: bytes, at: Region, members: Mapping[bytes, Member], mint: Callable[[], str]) -> Steps:
    """At this region these are members (again); what it held of those that were evicted begins anew. May be repeated.

    Marks are void until the end, also where the eviction was only heard of: so a repetition sees what is left to do,
    also after an eviction that was broken off.
    """
    assert at.keys is not None
    assert at.id is not None
    others = [name for name in members if name != at.name]
    back = [name for name in others if name in at.members and at.members[name].state == EVICTED]
    yield from _mark_all(at.keys, back, VOID)
    yield from record(namespace, at.name, at.id, {name: Member(m.id, MEMBER) for name, m in members.items()})
    yield from _begin_anew(at.keys, others, anew(mint().encode()))


def id_of(name: bytes, regions: Iterable[Region]) -> bytes | None:
    """Return the id of the region's deployment, as others have recorded it, or else itself; None if none has."""
    known = list(regions)
    recorded = [region.members[name].id for region in known if region.name != name and name in region.members]
    own = [region.id for region in known if region.name == name and region.id is not None]
    return next(iter(recorded + own), None)


def _mark_all(keys: KeySpace, names: list[bytes], mark: bytes) -> Steps:
    args: list[Argument] = [part for name in names for part in (field_of(name), mark)]
    marks = [Command(Script.MARKS_SET, (keys.marks(bucket),), args) for bucket in range(keys.buckets) if args]
    yield from run_all(Script.MARKS_SET, marks)


def _begin_anew(keys: KeySpace, names: list[bytes], mark: bytes) -> Steps:
    """Void marks for these regions become this one."""
    fields = [field_of(name) for name in names]
    for buckets in pieces(range(keys.buckets), MAX_COMMANDS) if fields else ():
        answers = yield [hmget(keys.marks(bucket), fields) for bucket in buckets]
        commands: list[Command] = []
        for bucket, raw in zip(buckets, answers, strict=True):
            held = zip(fields, list_of(raw, len(fields), keys.marks(bucket)), strict=True)
            args: list[Argument] = []
            for field, value in held:
                args += (field, mark) if isinstance(value, bytes) and is_void(value) else ()
            if args:
                commands.append(Command(Script.MARKS_SET, (keys.marks(bucket),), args))
        yield from run_all(Script.MARKS_SET, commands)


def _forget_entries(found: dict[int, list[bytes]]) -> Steps:
    """In these shards nothing is left of other regions."""
    some = [each for shards in found.values() for each in pieces(shards, MAX_FORGOTTEN)]
    yield from run_all(Script.ENTRIES_FORGET, [Command(Script.ENTRIES_FORGET, each) for each in some])
