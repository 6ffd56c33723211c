"""The commands between the two regions of a directed pair, and their keys."""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.protocol.wire.commands import Argument, Command, Script
from redis_counters.protocol.wire.durability import Durability, confirm
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.marks import WRITTEN, field_of
from redis_counters.protocol.wire.registry import time
from redis_counters.protocol.wire.replies import Reply


class Route:
    """Source and destination, by name, and the commands between them. Both have the same keys."""

    __slots__ = ("durability", "keys", "names", "others")

    def __init__(
        self,
        source: bytes,
        destination: bytes,
        keys: KeySpace,
        known: tuple[Sequence[bytes], Sequence[bytes]],
        durability: Durability | None,
    ) -> None:
        """``known``: of each of the two, all regions that it knows of."""
        self.names = (source, destination)
        self.keys = keys
        self.durability = durability
        # What a side has merged is in an index per region.
        self.others: tuple[list[bytes], ...] = tuple([n for n in names if n not in self.names] for names in known)

    @property
    def source(self) -> bytes:
        return self.names[0]

    @property
    def destination(self) -> bytes:
        return self.names[1]

    def learn(self, side: int, reply: Reply) -> None:
        """A side has merged from the regions in this reply, too: they have joined since its members were read."""
        names = [reply.text(n) for n in range(len(reply.values))]
        self.others[side].extend(name for name in names if name not in (*self.names, *self.others[side]))

    def prefix(self, bucket: int) -> bytes:
        """Return what stands before a member of the index, in a shard's key."""
        return self.keys.shard0[bucket][:-2]

    def members(self, bucket: int, shards: Sequence[bytes]) -> list[bytes]:
        """Return how these shards stand in the index."""
        length = len(self.prefix(bucket))
        return [shard[length:] for shard in shards]

    def indexes(self, side: int, bucket: int) -> list[bytes]:
        """Return all change indexes that a side has in a bucket."""
        merged = [self.keys.merged(bucket, name) for name in (self.names[1 - side], *self.others[side])]
        return [self.keys.index(bucket), *merged]

    def list_changes(self, bucket: int, mark: bytes, most: int) -> Command:
        """Ask the source what has changed since the destination's mark."""
        index, mine, *others = self.indexes(0, bucket)
        head = (self.keys.registries[bucket], self.keys.marks(bucket), mine, index)
        return Command(Script.CHANGES_LIST, (*head, *others), (self.destination, mark, most))

    def enter_notes(self, bucket: int, most: int) -> Command:
        """Have a side enter in its change index about so many of the names that it has only noted."""
        return Command(Script.NOTES_ENTER, (self.keys.registries[bucket], self.keys.index(bucket)), (most,))

    def settle(self, bucket: int, members: Sequence[bytes]) -> Command:
        """Have the source give another dot to those of these shards that were lost there, and made again."""
        shards = [self.prefix(bucket) + member for member in members]
        return Command(Script.DOTS_SETTLE, (self.keys.registries[bucket], self.keys.index(bucket), *shards), ())

    def read(self, side: int, bucket: int, shards: Sequence[bytes], without: bytes = b"") -> Command:
        """Ask a side for the texts of these shards."""
        return Command(Script.ENTRIES_READ, (self.keys.index(bucket), *shards), (self.names[side], without, 0))

    def digest(self, side: int, shards: Sequence[bytes]) -> Command:
        """Ask a side for the digest of these shards."""
        return Command(Script.ENTRIES_DIGEST, shards, (self.names[side],))

    def merge(
        self, side: int, bucket: int, since: bytes, mark: bytes, shards: Sequence[bytes], texts: Sequence[bytes]
    ) -> Command:
        """Send a side the texts that the other one has of these shards; with an empty ``mark`` as a repair."""
        keys, other = self.keys, self.names[1 - side]
        head = (keys.registries[bucket], keys.marks(bucket), keys.index(bucket), keys.merged(bucket, other))
        return Command(Script.ENTRIES_MERGE, (*head, *shards), (other, since, mark, self.names[side], *texts))

    def drop(
        self, side: int, bucket: int, peers: Sequence[bytes], kept: Sequence[bytes], shards: Sequence[bytes]
    ) -> Command:
        """Have a side drop what counts for nothing in these shards, if all peers have acknowledged it."""
        indexes = self.indexes(side, bucket)
        args: list[Argument] = [len(indexes), len(peers), *peers, len(kept), *kept]
        return Command(
            Script.ENTRIES_DROP, (self.keys.registries[bucket], self.keys.marks(bucket), *indexes, *shards), args
        )

    def mark_of(self, side: int, bucket: int) -> Command:
        """Ask a side for its mark for the other."""
        return Command(None, (self.keys.marks(bucket),), (field_of(self.names[1 - side]),), b"HGET")

    def clock(self) -> Command:
        """Ask the source for its server's time."""
        return time(self.keys.registries[0])

    def beat(self, by: bytes, clock: int, every: int) -> Command:
        """Send the destination a heartbeat of this exchange; times in milliseconds."""
        return Command(Script.EXCHANGE_BEAT, (self.keys.marks(0),), (self.source, by, clock, every))

    def version(self, bucket: int) -> Command:
        """Ask the source for the version of its last change: the cheapest question there is."""
        return Command(None, (self.keys.registries[bucket],), (b"v",), b"HGET")

    def confirm(self, bucket: int) -> list[Command]:
        """Return the commands that confirm all that a side has written so far; none without `durability`.

        WAIT confirms what its own connection wrote: so something is written first.
        """
        if self.durability is None:
            return []
        return [Command(Script.MARKS_SET, (self.keys.marks(bucket),), (WRITTEN, b"1")), confirm(self.durability)]
