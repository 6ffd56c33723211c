"""Which deployment has which name, and which take part. Each region keeps that itself, in its namespace's record.

A name is bound to a deployment by an id, which is drawn when it joins: so no two count under one name. All regions
record that a region is evicted. Where one records a region as evicted and another as a member, evicted holds, and
spreads. Only adding the region makes it a member again (see `membership`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import NamedTuple

from redis_counters.errors import Refused, SchemaMismatch, Unavailable
from redis_counters.protocol.wire.answers import reply_of
from redis_counters.protocol.wire.commands import Argument, Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import MAX_BUCKETS, SCHEMA, KeySpace, meta_key
from redis_counters.protocol.wire.namespace import ANY_REGION
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.shard_fields import pairs_of

MEMBER, EVICTED = b"member", b"evicted"
_FIELD = b"m:"


class Member(NamedTuple):
    """A region, as it or another one has recorded it."""

    id: bytes
    state: bytes


class Region(NamedTuple):
    """A deployment, by its own record; ``keys`` and ``id`` are None where it is new."""

    name: bytes
    keys: KeySpace | None
    id: bytes | None
    members: Mapping[bytes, Member]

    @property
    def evicted(self) -> bool:
        """True if it has recorded itself as evicted."""
        own = self.members.get(self.name)
        return own is not None and own.state == EVICTED


Looking = Generator[list[Command], list[object], Region]


def look(namespace: bytes, name: bytes) -> Looking:
    """Read the deployment's own record. Nothing is written. Raises SchemaMismatch, if it has another name."""
    record = meta_key(namespace)
    (raw,) = yield [Command(None, (record,), (), b"HGETALL")]
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None, record)
    fields = dict(pairs_of(raw, record))
    shown = namespace.decode()
    if b"schema" not in fields:
        return Region(name, None, None, {})
    if fields[b"schema"] != b"%d" % SCHEMA:
        raise SchemaMismatch(
            f"namespace {shown!r} of region {_text(name)} has schema {_text(fields[b'schema'])}, "
            f"this version knows {SCHEMA}"
        )
    buckets = fields.get(b"buckets", b"")
    if not buckets.isdigit() or len(buckets) > 5 or not 1 <= int(buckets) <= MAX_BUCKETS:
        raise SchemaMismatch(f"namespace {shown!r} of region {_text(name)} has {_text(buckets)} buckets")
    region, id = fields.get(b"region", ANY_REGION), fields.get(b"id")
    if region != name and (id is not None or region != ANY_REGION):
        raise bound(name, region, id or b"-")
    members = {}
    for field, raw_member in fields.items():
        if field.startswith(_FIELD):
            member_id, _, state = raw_member.partition(b" ")
            members[field[len(_FIELD) :]] = Member(member_id, state)
    return Region(name, KeySpace(namespace, int(buckets)), id, members)


def settle(namespace: bytes, name: bytes, buckets: int, id: bytes) -> Looking:
    """The deployment has its namespace, its name and an id; return it. ``id``: that it gets if it has none yet."""
    meta = meta_key(namespace)
    (raw,) = yield [Command(Script.NAMESPACE_OPEN, (meta,), (SCHEMA, buckets, name))]
    reply_of(raw, Script.NAMESPACE_OPEN)
    yield from record(namespace, name, id, {})
    region = yield from look(namespace, name)
    if region.keys is None or region.id is None:
        raise BadReply(f"region {_text(name)} has forgotten its namespace's record at once")
    if name not in region.members:
        yield from record(namespace, name, region.id, {name: Member(region.id, MEMBER)})
        region = region._replace(members={**region.members, name: Member(region.id, MEMBER)})
    return region


def record(
    namespace: bytes, name: bytes, id: bytes, members: Mapping[bytes, Member]
) -> Generator[list[Command], list[object], None]:
    """The deployment has recorded these members. Raises SchemaMismatch, if it has another name."""
    args: list[Argument] = [name, id]
    for other, member in members.items():
        args += (other, *member)
    (raw,) = yield [Command(Script.MEMBERS_SET, (meta_key(namespace),), args)]
    reply = reply_of(raw, Script.MEMBERS_SET)
    if reply.word == "BOUND":
        raise bound(name, reply.text(0), reply.text(1))


def agree(source: Region, destination: Region) -> dict[bytes, dict[bytes, Member]]:
    """Return the members that each of the two is to record before they may exchange anything.

    Raises: SchemaMismatch where they do not go together, Refused where one of them is evicted.
    """
    for one, other in ((source, destination), (destination, source)):
        assert one.keys is not None
        assert other.keys is not None
        assert other.id is not None
        if one.evicted:
            raise evicted(one.name, one.name)
        recorded = one.members.get(other.name)
        if recorded is not None and recorded.id != other.id:
            raise taken(other.name, one.name)
        if recorded is not None and recorded.state == EVICTED:
            raise evicted(other.name, one.name)
        if one.keys.buckets != other.keys.buckets:
            raise SchemaMismatch(
                f"region {_text(one.name)} has {one.keys.buckets} buckets, {_text(other.name)} has "
                f"{other.keys.buckets}: regions of one count need the same number. It is settled when the first client "
                "counts: give the option `buckets` there, or take another namespace"
            )
    if source.id == destination.id:
        raise SchemaMismatch(f"{_text(source.name)} and {_text(destination.name)} are one and the same deployment")
    known = spread(source.members, destination.members)
    for region in (source, destination):
        assert region.id is not None
        known.setdefault(region.name, Member(region.id, MEMBER))
    return {
        region.name: {name: member for name, member in known.items() if region.members.get(name) != member}
        for region in (source, destination)
    }


def spread(one: Mapping[bytes, Member], other: Mapping[bytes, Member]) -> dict[bytes, Member]:
    """Return all members that the two have recorded; where they differ, evicted holds."""
    return {**one, **other, **{name: member for name, member in one.items() if member.state == EVICTED}}


def bound(name: bytes, region: bytes, id: bytes) -> SchemaMismatch:
    """Return the error for a deployment that has another name."""
    if id == b"-":
        return SchemaMismatch(
            f"the deployment given as region {_text(name)} counts as region {_text(region)} (an option of its "
            "clients): name it that here"
        )
    return SchemaMismatch(
        f"the deployment given as region {_text(name)} takes part as {_text(region)} already: name it that here, "
        "or is it another one's address?"
    )


def evicted(name: bytes, by: bytes) -> Refused:
    """Return the error for a region that takes part no more."""
    bare = name.decode("ascii", "replace")
    return Refused(
        f"region {_text(name)} is evicted, says {_text(by)}: leave it out here; it takes part again when it is added "
        f"(redis-counters regions add {bare} --region {bare}=URL ..., Exchange.add_regions)"
    )


def taken(name: bytes, by: bytes) -> SchemaMismatch:
    """Return the error for a deployment that is given the name of another one."""
    return SchemaMismatch(
        f"the name {_text(name)} belongs to another deployment, says region {_text(by)}: what counted there until now "
        "counts under that name for good (also if it is the same server, but was emptied). Give this one a new name; "
        f"evict {_text(name)} if that deployment is gone. If this is that one, and lost nothing but its key 'meta', "
        "put that back instead, with its id"
    )


def check_free(region: Region, others: Iterable[Region]) -> None:
    """Raises SchemaMismatch, if a deployment without an id is given a name that another region has recorded.

    It was looked at after the ``others``: a region has its id before others record it.
    """
    if region.id is None:
        for other in others:
            if other.name != region.name and region.name in other.members:
                raise taken(region.name, other.name)


class Void(Unavailable):
    """A void mark: nothing of that region is merged. It was evicted meanwhile, or is about to be."""


def unfinished(name: bytes) -> Void:
    """Return the error for a region whose eviction was begun; it was broken off if the region is still a member."""
    return Void(f"an eviction of region {_text(name)} was begun and not finished: evict it again, or add it again")


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace")[:80])
