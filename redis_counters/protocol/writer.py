"""The write side of a client: where increments go, and which bucket sends what next.

Sans-I/O: it is told the time, is asked for requests and is given their answers. Not thread-safe: drivers lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zlib import crc32

from redis_counters.crdt.slotmap import INT64_MAX
from redis_counters.errors import CounterError, NotPermitted, Overflow, Refused, SchemaMismatch, Unavailable, WrongType
from redis_counters.protocol.actor import Actor, Phase
from redis_counters.protocol.buffer import Buffer
from redis_counters.protocol.commands import CONTRACTS, Command, ErrorReply, Script
from redis_counters.protocol.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.replies import Reply
from redis_counters.protocol.settings import Settings
from redis_counters.protocol.slots import Kind, Table
from redis_counters.protocol.values import name_shown

UNAVAILABLE_CODES = frozenset(
    ("BUSY", "LOADING", "MASTERDOWN", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MOVED")
)


@dataclass(frozen=True, slots=True)
class Request:
    """A command and the actor that it is for."""

    actor: Actor
    command: Command


class Bucket:
    """The actors of this process in one bucket: the last gets new increments, earlier ones end."""

    __slots__ = ("actors", "busy", "failed", "number", "rotated_taken", "turn", "window_start")

    def __init__(self, number: int, first: Actor, now: float) -> None:
        self.number = number
        self.actors = [first]
        self.busy = False  # one request in flight
        self.turn = True
        self.failed = False  # sends nothing more in this round
        self.window_start = now
        self.rotated_taken = 0

    @property
    def current(self) -> Actor:
        return self.actors[-1]


class Writer:
    """All that a client has counted and not let go of."""

    def __init__(self, settings: Settings, buffer: Buffer, mint: Callable[[], str]) -> None:
        self.settings = settings
        self.buffer = buffer
        self.mint = mint
        self.shards = settings.shards
        self.choice = _choice(mint())  # chooses the shard of every counter that this process writes to
        self.keys: KeySpace | None = None
        self.early: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})  # counted before the buckets are known
        self.unplaced: dict[str | bytes, int] = {}  # taken from the buffer, not yet in the totals
        self.batches = 0  # how often something was taken
        self.buckets: list[Bucket] = []
        self.tables: list[tuple[Table, Table, Table]] = []  # of the current actor of each bucket,
        self.halves: list[tuple[dict[bytes, int], dict[bytes, None]]] = []  # and of these the totals and dirty of PLUS
        self.gates: dict[bytes, set[tuple[int, bytes]]] = {}  # shard 0's key -> keys that wait for its K
        self.republishing: set[bytes] = set()  # shard 0's keys that must tell of their shards again
        self.overflowed: dict[bytes, int] = {}
        self.errors: list[CounterError] = []  # of this round
        self.epoch = 0  # grows with every change that a read could show
        self.dropped_at = float("-inf")  # when own state was last let go of: earlier snapshots may lack it
        self.accepted = self.flushed = self.flushes = 0
        self.uncertain = 0  # times that nobody could tell how far an actor got
        self.doubtful = False  # a registry was lost: the namespace's record may be lost with it
        self.closing = False
        self.full = False  # as many names wait as are allowed to
        self._turn = 0

    # -- increments come in

    def settle(self, keys: KeySpace, now: float) -> None:
        """The buckets are known: what was counted so far gets its places.

        Raises: SchemaMismatch if they are known already, and were others.
        """
        self.doubtful = False
        if self.keys is not None:
            if keys.buckets != self.keys.buckets:
                raise SchemaMismatch(
                    f"namespace {keys.namespace.decode()!r} was lost and made anew with {keys.buckets} buckets, "
                    f"this client counts in {self.keys.buckets}"
                )
            return
        self.keys = keys
        self.buckets = [Bucket(b, self._new_actor(b, now), now) for b in range(keys.buckets)]
        for bucket in self.buckets:
            self.tables.append(bucket.current.tables)
            self.halves.append((bucket.current.tables[0].total, bucket.current.tables[0].dirty))
        plus, minus = self.early
        self.early = ({}, {})
        for name, amount in plus.items():
            self._add(name, amount, Kind.PLUS)
        for name, amount in minus.items():
            self._add(name, amount, Kind.MINUS)
        self.epoch += 1

    def drain(self) -> None:
        """Everything that callers counted until now is in the totals. Cost: O(increments since the last time)."""
        while self.unplaced or self.buffer.ones:
            self.place(len(self.unplaced))
        self.drain_amounts()

    def drain_amounts(self) -> None:
        """As `drain`, of all but the increments by one."""
        if self.buffer.amounts:
            self.epoch += 1  # before the buffer is emptied: see Reads.at_hand
            for name, amount in self.buffer.drain_amounts():
                self.accepted += 1
                raw = name.encode() if isinstance(name, str) else name
                self._add(raw, abs(amount), Kind.PLUS if amount > 0 else Kind.MINUS)

    def absorb(self) -> None:
        """As `drain`; also sees whether the buffer is full. Cost: also O(buckets)."""
        self.drain()
        self.full = self.waiting() >= self.settings.max_pending

    def absorb_some(self) -> None:
        """As `absorb`, of one chunk's worth of names, so that sending need not wait until all have their places."""
        self.drain_amounts()
        self.place(self.settings.max_batch)
        self.full = self.waiting() >= self.settings.max_pending

    def place(self, limit: int) -> None:
        """Up to ``limit`` names of the increments by one are in the totals; the next batch begins when one is done."""
        unplaced = self.unplaced
        if not unplaced and not self.buffer.ones:
            return
        self.epoch += 1  # before the buffer is emptied: see Reads.at_hand
        if not unplaced:
            unplaced = self.unplaced = self.buffer.drain_ones()
            self.batches += 1
            limit = limit or len(unplaced)
            self.accepted += sum(unplaced.values())
        keys, pop = self.keys, unplaced.popitem
        if keys is None or not self.shards.single:
            for _ in range(min(limit, len(unplaced))):
                name, count = pop()
                self._add(name.encode() if isinstance(name, str) else name, count, Kind.PLUS)
            return
        # The common case, spelled out: it is a third of the client's cost of a flush of distinct names.
        buckets, prefixes, halves, most = keys.buckets, keys.shard0, self.halves, INT64_MAX
        for _ in range(min(limit, len(unplaced))):
            name, count = pop()
            if name.__class__ is str:
                name = name.encode()
            bucket = crc32(name) % buckets  # type: ignore[arg-type]  # bytes by now
            key = prefixes[bucket] + name  # type: ignore[operator]  # bytes by now
            total, dirty = halves[bucket]
            if key in total:
                after = total[key] + count
                if after > most:
                    self._overflow(key, count)
                    continue
                total[key] = after
            else:
                total[key] = count
            dirty[key] = None

    def _add(self, name: bytes, amount: int, kind: Kind) -> None:
        keys = self.keys
        if keys is None:
            early = self.early[kind]
            after = early.get(name, 0) + amount
            if after > INT64_MAX:
                self.overflowed[name] = self.overflowed.get(name, 0) + amount
            else:
                early[name] = after
            return
        shards = self.shards.of(name)
        shard = self.choice % shards
        bucket, key = keys.shard_key(name, shard)
        if shard:
            self._publish(name, shards, bucket, key)
        table = self.tables[bucket][kind]
        if table.total.get(key, 0) + amount > INT64_MAX:
            self._overflow(key, amount)
        else:
            table.add(key, amount)

    def _overflow(self, key: bytes, amount: int) -> None:
        name = name_of(key)
        self.overflowed[name] = self.overflowed.get(name, 0) + amount

    def holds(self, name: bytes) -> bool:
        """True if the name waits to be acknowledged."""
        if self.keys is None:
            return name in self.early[0] or name in self.early[1]
        bucket, key = self.keys.shard_key(name, self.choice % self.shards.of(name))
        return any(table.total.get(key, 0) > table.acknowledged.get(key, 0) for table in self.tables[bucket][:2])

    def room(self, name: bytes, sign: int) -> int:
        """Return how much the own slot can still take in; call `drain` before."""
        kind = Kind.PLUS if sign > 0 else Kind.MINUS
        if self.keys is None:
            return INT64_MAX - self.early[kind].get(name, 0)
        bucket, key = self.keys.shard_key(name, self.choice % self.shards.of(name))
        return INT64_MAX - self.tables[bucket][kind].total.get(key, 0)

    def _publish(self, name: bytes, shards: int, bucket: int, key: bytes) -> None:
        """A shard other than 0 is used only after shard 0 says that it exists (readers go by that)."""
        assert self.keys is not None
        bucket0, key0 = self.keys.shard_key(name, 0)
        table0 = self.tables[bucket0][Kind.SHARDS]
        if table0.acknowledged.get(key0, 0) >= shards:
            return
        if table0.total.get(key0, 0) < shards:
            table0.total[key0] = shards
            table0.dirty[key0] = None
        self.gates.setdefault(key0, set()).add((bucket, key))
        for actor in self.buckets[bucket].actors:
            for table in actor.tables[:2]:
                if key in table.total or actor is self.buckets[bucket].current:
                    table.gated.add(key)
                    table.dirty.pop(key, None)

    def _publish_again(self, key: bytes) -> None:
        """A shard was deleted by hand, so perhaps with it shard 0, which told of it."""
        assert self.keys is not None
        name = name_of(key)
        bucket0, key0 = self.keys.shard_key(name, 0)
        table0 = self.tables[bucket0][Kind.SHARDS]
        table0.acknowledged.pop(key0, None)
        table0.total[key0] = max(self.shards.of(name), shard_of(key) + 1)
        table0.dirty[key0] = None
        self.republishing.add(key0)

    def _open_gate(self, key0: bytes, refused: str | None) -> None:
        """The number of shards is published, or refused: what waited for that may go, or is refused too."""
        self.republishing.discard(key0)
        for bucket, key in self.gates.pop(key0, ()):
            for actor in self.buckets[bucket].actors:
                for table in actor.tables[:2]:
                    table.gated.discard(key)
                    if table.total.get(key, 0) == table.acknowledged.get(key, 0):
                        continue
                    if refused is None:
                        table.dirty[key] = None
                    else:
                        table.refused[key] = refused

    # -- requests go out, answers come in

    def new_round(self) -> None:
        """Buckets that failed may try again."""
        self.errors = []
        for bucket in self.buckets:
            bucket.failed = False

    def next_request(self, now: float) -> Request | None:
        """Return what to send next, of a bucket that waits for no answer; buckets take turns."""
        count = len(self.buckets)
        for step in range(count):
            bucket = self.buckets[(self._turn + step) % count]
            if bucket.busy or bucket.failed:
                continue
            self._keep_house(bucket, now)
            # The current actor and the ending ones take turns in being first, so that neither waits for ever.
            bucket.turn = not bucket.turn
            for actor in bucket.actors if bucket.turn else reversed(bucket.actors):
                command = actor.request(self.settings.max_batch)
                if command is not None:
                    bucket.busy = True
                    self._turn = (bucket.number + 1) % count
                    return Request(actor, command)
        return None

    def answered(self, request: Request, raw: object, now: float) -> None:
        """Take in the answer to a request. Raises nothing: what went wrong is in `errors`."""
        actor, bucket = request.actor, self.buckets[request.actor.bucket]
        script = request.command.script
        assert script is not None
        if isinstance(raw, ErrorReply):
            self._fail(request, error_for(raw, script))
            return
        try:
            reply = Reply(raw, CONTRACTS[script].replies)
            if reply.word in ("FOLDED", "GONE"):
                self._move_on(actor, reply, now)
            else:
                self._answer(actor, reply, script, now)
        except CounterError as error:
            self._fail(request, error)
            return
        bucket.busy = False
        if actor.phase is Phase.DONE:
            self.uncertain += actor.uncertain
            self._drop(actor, now)
        self.epoch += 1

    def _answer(self, actor: Actor, reply: Reply, script: Script, now: float) -> None:
        chunk = actor.unknown
        self.doubtful = self.doubtful or reply.word == "UNKNOWN"
        actor.answer(reply, now)
        if script is not Script.SLOTS_MERGE or chunk is None:
            return
        if reply.word == "MISSING":
            for number in reply.numbers():
                _kind, key = chunk.item(number)
                if shard_of(key):
                    self._publish_again(key)
        if reply.word != "OK":
            return
        self.flushes += 1
        self.flushed += len(chunk)
        for key0 in chunk.totals[Kind.SHARDS]:
            self._open_gate(key0, actor.tables[Kind.SHARDS].refused.get(key0))
        for table in actor.tables:
            for key, text in table.refused.items():
                self.errors.append(refusal(key, text))

    def unanswered(self, request: Request) -> None:
        """The connection broke or the time is over: what was sent may or may not have been applied."""
        bucket = self.buckets[request.actor.bucket]
        bucket.busy = False
        bucket.failed = True

    def _fail(self, request: Request, error: CounterError) -> None:
        self.unanswered(request)
        self.errors.append(error)

    # -- the lives of actors

    def _new_actor(self, bucket: int, now: float) -> Actor:
        assert self.keys is not None
        return Actor(bucket, self.keys.registries[bucket], self.mint, self.settings.display, now)

    def _renew(self, bucket: Bucket, now: float) -> Actor:
        """New increments of the bucket go to a new actor."""
        old = bucket.current
        old.retiring = True
        actor = self._new_actor(bucket.number, now)
        bucket.actors.append(actor)
        self._direct(bucket, actor)
        for table, before in zip(actor.tables[:2], old.tables[:2], strict=True):
            table.gated |= before.gated
        bucket.window_start, bucket.rotated_taken = now, 0
        return actor

    def _direct(self, bucket: Bucket, actor: Actor) -> None:
        """What is counted from now on goes to this actor."""
        self.tables[bucket.number] = actor.tables
        self.halves[bucket.number] = (actor.tables[0].total, actor.tables[0].dirty)

    def _keep_house(self, bucket: Bucket, now: float) -> None:
        """Rotate the actor if most of what it holds is idle; end those that are through."""
        window = self.settings.reassert_window
        current = bucket.current
        if self.closing:
            for actor in bucket.actors:
                if actor is not current or actor.phase is not Phase.NEW:
                    actor.retire()
        else:
            if now - bucket.window_start >= window:
                taken = sum(t.taken for t in current.tables)
                idle = current.slots - (taken - bucket.rotated_taken)
                old = now - current.opened >= self.settings.rotate_age
                if idle > 0 and (old or (current.slots >= self.settings.rotate_slots and idle * 2 >= current.slots)):
                    self._renew(bucket, now)
                else:
                    bucket.window_start, bucket.rotated_taken = now, taken
            for actor in bucket.actors[:-1]:
                if now - actor.last_acknowledged >= window:
                    actor.retire()
        for actor in [a for a in bucket.actors if a.phase is Phase.DONE]:
            self._drop(actor, now)

    def _drop(self, actor: Actor, now: float) -> None:
        bucket = self.buckets[actor.bucket]
        if actor not in bucket.actors or (len(bucket.actors) == 1 and not self.closing):
            return
        bucket.actors.remove(actor)
        if not bucket.actors:  # closed: a client that goes on counting begins anew
            fresh = self._new_actor(bucket.number, now)
            bucket.actors.append(fresh)
            self._direct(bucket, fresh)
        self.dropped_at = now
        self.epoch += 1

    def _move_on(self, actor: Actor, reply: Reply, now: float) -> None:
        """The actor was folded behind our back: what did not get across is counted by another one."""
        gone = reply.word == "GONE"
        # GONE, nobody can tell: never over-count, so what is unknown counts as applied.
        seq = reply.number(0) if not gone else actor.base if actor.unknown is None else actor.seq
        rest, exact = actor.leftover(seq)
        if (gone and actor.unknown is not None) or not exact:
            self.uncertain += 1
        bucket = self.buckets[actor.bucket]
        if actor is bucket.current:
            self._renew(bucket, now)
        bucket.actors.remove(actor)
        actor.successor = bucket.current
        for table, totals in zip(bucket.current.tables, rest, strict=True):
            for key, amount in totals.items():
                if table.kind is Kind.SHARDS:
                    table.total[key] = max(amount, table.total.get(key, 0))
                    table.dirty[key] = None
                else:
                    table.add(key, amount)
        for table in bucket.current.tables:
            table.must = table.end
        self.dropped_at = now

    # -- looking at it

    def actors(self) -> Iterator[Actor]:
        for bucket in self.buckets:
            yield from bucket.actors

    def own(self, bucket: int) -> list[Actor]:
        """Return the actors of this process in a bucket."""
        return self.buckets[bucket].actors if self.buckets else []

    @property
    def clean(self) -> bool:
        """Nothing waits to be sent now."""
        waits = self.buffer or self.unplaced or any(self.early)
        return not waits and all(a.clean for a in self.actors())

    @property
    def closed(self) -> bool:
        """Every actor is closed and folded, but for those with what Redis refuses; nothing has been counted since."""
        return self.clean and all(
            not actor.settled or (actor is bucket.current and actor.phase is Phase.NEW)
            for bucket in self.buckets
            for actor in bucket.actors
        )

    def house_due(self, now: float) -> bool:
        """True if some actor should be rotated, or may end."""
        window = self.settings.reassert_window
        for bucket in self.buckets:
            if len(bucket.actors) > 1:
                return True
            current = bucket.current
            old = now - current.opened >= self.settings.rotate_age
            if now - bucket.window_start >= window and (current.slots >= self.settings.rotate_slots or old):
                return True
        return False

    def waiting(self) -> int:
        """Return how many slots are not acknowledged. Cost: O(buckets)."""
        count = len(self.unplaced) + len(self.early[0]) + len(self.early[1])
        for actor in self.actors():
            count += len(actor.unknown) if actor.unknown else 0
            count += sum(len(t.dirty) + len(t.gated) + len(t.refused) for t in actor.tables)
        return count

    def pending(self) -> dict[str | bytes, int]:
        """Return the amount per name that is not acknowledged. Cost: O(names held)."""
        self.drain()
        amounts: dict[bytes, int] = dict(self.early[0])
        for name, amount in self.early[1].items():
            amounts[name] = amounts.get(name, 0) - amount
        for actor in self.actors():
            for table, sign in zip(actor.tables, (1, -1), strict=False):
                for key, amount in table.pending():
                    name = name_of(key)
                    amounts[name] = amounts.get(name, 0) + sign * amount
        return {name_shown(name): amount for name, amount in amounts.items() if amount}

    def refusals(self) -> list[Refused]:
        """Return what Redis, or the range of a slot, refuses at present, one error per counter."""
        found: list[Refused] = [
            Overflow(f"counter {name_shown(name)!r}: {amount} more do not fit into an int64 slot", counter=name)
            for name, amount in self.overflowed.items()
        ]
        for actor in self.actors():
            for table in actor.tables:
                found.extend(refusal(key, text) for key, text in table.refused.items())
        return found

    def retry_refused(self) -> None:
        """What Redis refused is to be sent again; in other shards than 0 only when their number is published."""
        for actor in self.actors():
            for table in actor.tables:
                refused, table.refused = table.refused, {}
                for key in refused:
                    shard = shard_of(key)
                    if shard and table.kind is not Kind.SHARDS:
                        name = name_of(key)
                        self._publish(name, max(self.shards.of(name), shard + 1), actor.bucket, key)
                    if key not in table.gated:
                        table.dirty[key] = None


class Goal:
    """All that was buffered when this was made; `reached` tells whether Redis has it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.gates: set[bytes] = set()
        self.positions: list[tuple[Actor, list[int]]] = []
        # All of the buffer is in the next batch, if a batch is being placed; else in this one.
        self.batch = writer.batches + bool(writer.buffer.ones)
        self.placed = False
        if self._is_placed():
            self._mark()

    def _is_placed(self) -> bool:
        writer = self.writer
        return writer.keys is not None and (
            writer.batches > self.batch or (writer.batches == self.batch and not writer.unplaced)
        )

    def _mark(self) -> None:
        """The goal is what the writer holds now."""
        self.placed = True
        self.gates = set(self.writer.gates)
        self.positions = [(actor, [t.end for t in actor.tables]) for actor in self.writer.actors()]

    def reached(self) -> bool:
        if not self.placed:  # no place was known for what was buffered
            if not self._is_placed():
                return False
            self._mark()
        while True:
            while self.positions and _passed(*self.positions[-1]):
                self.positions.pop()  # passed once is passed for good
            if self.positions:
                return False
            if not self.gates:
                return not self.writer.republishing
            if self.gates & self.writer.gates.keys():
                return False
            # Published by now: what waited for that is the second half of the goal.
            self._mark()
            self.gates = set()


def _passed(actor: Actor, positions: list[int]) -> bool:
    if actor.phase is Phase.DONE:
        return True
    while actor.successor is not None:
        actor, positions = actor.successor, [0, 0, 0]
    return all(t.has_passed(p) for t, p in zip(actor.tables, positions, strict=True))


def _choice(token: str) -> int:
    """Return a number from the process's token: it chooses the process's shard of every counter."""
    return crc32(token.encode())


def refusal(key: bytes, text: str) -> Refused:
    """Return the error for a counter that Redis refuses alone."""
    name = name_of(key)
    kind = WrongType if text.startswith("WRONGTYPE") else Refused
    return kind(f"counter {name_shown(name)!r}: {text}", counter=name)


def error_for(reply: ErrorReply, script: Script | None) -> CounterError:
    """Return our error for an error of Redis to a whole command: nothing of it was applied."""
    what = script.value if script else "a read"
    if reply.code == "NOPERM" or "no permissions" in reply.text or "can't run this command" in reply.text:
        return NotPermitted(f"{what}: {reply.text}")
    if reply.code in ("NOAUTH", "WRONGPASS"):
        return NotPermitted(f"{what}: {reply.code} the connection is not authenticated")
    if reply.code in UNAVAILABLE_CODES or "OOM" in reply.text:
        return Unavailable(f"{what}: {reply.text}")
    return Refused(f"{what}: {reply.text}")
