"""The namespace's own record: schema, number of buckets, region. What was settled first stays."""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.errors import SchemaMismatch
from redis_counters.protocol.wire.commands import CONTRACTS, Command, ErrorReply, NoAnswer, Script, hmget
from redis_counters.protocol.wire.keys import MAX_BUCKETS, SCHEMA, KeySpace, meta_key
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply, Reply
from redis_counters.protocol.wire.settings import Settings

ANY_REGION = b"main"  # the default: a client that names none counts in whatever region this is


def open_namespace(settings: Settings, buckets: int) -> Command:
    """Return the command that makes the record, or finds it."""
    return Command(Script.NAMESPACE_OPEN, (meta_key(settings.namespace),), (SCHEMA, buckets, settings.region))


def opened_keys(raw: object, settings: Settings) -> KeySpace:
    """Return the key space from the answer to `open_namespace`. Raises as `settled_keys`, and why there is none."""
    if isinstance(raw, ErrorReply):
        raise error_for(raw, Script.NAMESPACE_OPEN, meta_key(settings.namespace))
    if isinstance(raw, NoAnswer):
        raise raw.error
    return settled_keys(Reply(raw, CONTRACTS[Script.NAMESPACE_OPEN].replies).values, settings)


def look_up_namespace(settings: Settings) -> Command:
    """Return the command that finds the namespace's record, and makes nothing: readers need no right to write."""
    return hmget(meta_key(settings.namespace), (b"schema", b"buckets", b"region"))


def settled_keys(values: Sequence[object], settings: Settings) -> KeySpace:
    """Return the key space that the namespace's record (schema, buckets, region) settles. Raises SchemaMismatch."""
    name = settings.namespace.decode()
    if len(values) != 3:
        raise BadReply(f"expected schema, buckets and region of namespace {name!r}, got {len(values)} values")
    schema, buckets, region = (value if isinstance(value, bytes) else str(value).encode() for value in values)
    if schema != b"%d" % SCHEMA:
        shown = schema.decode("utf-8", "replace")
        raise SchemaMismatch(f"namespace {name!r} has schema {shown!r}, this version knows {SCHEMA}")
    if region != settings.region and settings.region != ANY_REGION:
        found, asked = (each.decode("utf-8", "replace") for each in (region, settings.region))
        way_out = ""
        if region == ANY_REGION:
            way_out = f"; the first exchange names it (redis-counters exchange --region {asked}=URL --region ...)"
        raise SchemaMismatch(f"namespace {name!r} belongs to region {found!r}, not {asked!r}{way_out}")
    if not buckets.isdigit() or len(buckets) > 5 or not 1 <= int(buckets) <= MAX_BUCKETS:
        raise SchemaMismatch(f"namespace {name!r} has {buckets.decode('utf-8', 'replace')[:40]!r} buckets")
    return KeySpace(settings.namespace, int(buckets))
