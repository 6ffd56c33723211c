"""What is done with all regions together: seeing who there is, evicting, adding, catching up once.

Generators again: each yields what is to be asked of which regions, all at the same time, and is given what came of it,
by region: a result, or a CounterError.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from redis_counters.errors import CounterError, Unavailable, UsageError, reworded
from redis_counters.protocol.exchange.common import Common
from redis_counters.protocol.exchange.figures import RegionStatus
from redis_counters.protocol.exchange.members import (
    EVICTED,
    MEMBER,
    Member,
    Region,
    agree,
    check_free,
    look,
    settle,
)
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.exchange.returning import admit, evict, forget_others, id_of
from redis_counters.protocol.wire.commands import Command

T = TypeVar("T")
Plan = Generator[list[Command], list[object], Any]
Operation = Generator[Mapping[bytes, Plan], Mapping[bytes, Any], T]


def see(common: Common, names: Iterable[bytes]) -> Operation[list[RegionStatus]]:
    """Return who there is."""
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
        if error is None and any(told != id for told in ids):
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
    told = yield {each: evict(namespace, regions[each], name, id) for each in others}
    failed |= {each: error for each, error in told.items() if isinstance(error, CounterError) and each != name}
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
    # Somebody may have given a new one its id meanwhile, and told the others, before we looked there.
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
    told = yield {
        name: admit(namespace, region, members if name in new else {each: members[each] for each in new}, options.mint)
        for name, region in regions.items()
    }
    _check(told)


def catch_up(pairs: Sequence[Pair]) -> Generator[str, None, None]:
    """Yield what all pairs are to do, at the same time: "pull", or "compare", until nothing comes of it any more.

    What one has merged another may have to forward: so there are as many turns as there are regions, and one more.
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
    """True if somebody has recorded that the region is evicted."""
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
    """Return members that are recorded somewhere, and not among the regions given."""
    return {
        name
        for region in regions
        for name, member in region.members.items()
        if member.state != EVICTED and name not in found
    }


def _others_first(regions: Mapping[bytes, Region], name: bytes) -> list[bytes]:
    return [each for each in regions if each != name] + ([name] if name in regions else [])
