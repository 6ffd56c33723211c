"""One writer's identity in one bucket, as a state machine: all that changes an actor's state is in this file.

The phases, and the answers that move between them (docs/design.md, "Actors"; the rules were found by model checking):

========  ======================  =============================================================================
phase     sends                   goes on
========  ======================  =============================================================================
NEW       actor_open              OPEN: to ACTIVE
REOPEN    actor_open, own id      OPEN: to ACTIVE; FOLDED, GONE: what did not get across moves to a new actor
ACTIVE    slots_merge             CLOSED, UNKNOWN: to REOPEN; REGRESS: all acknowledgements are forgotten
CLOSING   actor_close             OK: to FOLDING; REGRESS: to ACTIVE, everything is told again; UNKNOWN: to REOPEN
FOLDING   slots_fold              all keys done: to DONE; OPEN, UNKNOWN: back, as above
DONE      nothing                 is dropped
========  ======================  =============================================================================

Rules for what was sent and not answered: it stays *unknown* until a flush that carries all of it is answered with OK,
even when that flush is refused meanwhile, because a copy of the command may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from redis_counters.protocol.commands import Argument, Command, Script
from redis_counters.protocol.replies import Reply
from redis_counters.protocol.slots import Kind, Table

HISTORY = 20_000  # slot values remembered of answered flushes, to know how far an actor got that was folded behind us


class Phase(Enum):
    NEW = auto()
    REOPEN = auto()
    ACTIVE = auto()
    CLOSING = auto()
    FOLDING = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one flush tells: totals by key, for each kind of slot, in the order of its items."""

    seq: int
    totals: tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int]]
    items: Sequence[tuple[Kind, bytes]] | None  # by item number; None while all are PLUS, in the order of the dict

    def __len__(self) -> int:
        return sum(map(len, self.totals))

    def item(self, number: int) -> tuple[Kind, bytes]:
        """Return the kind and key of an item, counted from 1 as the script does."""
        if self.items is not None:
            return self.items[number - 1]
        return Kind.PLUS, next(islice(self.totals[Kind.PLUS], number - 1, None))


class Actor:
    """An owner's side of one actor. It decides what to send next and what an answer means; it sends nothing itself."""

    def __init__(self, bucket: int, registry: bytes, owner: bytes, display: bytes, opened: float) -> None:
        self.bucket = bucket
        self.registry = registry
        self.owner = owner
        self.display = display
        self.opened = opened
        self.id = b""
        self.phase = Phase.NEW
        self.seq = 0
        self.base = 0
        self.tables = (Table(Kind.PLUS), Table(Kind.MINUS), Table(Kind.SHARDS))
        self.unknown: Chunk | None = None  # in a flush without an answer
        self.sent: dict[int, Chunk] = {}  # unanswered flushes and the latest answered ones
        self.remembered = 0  # slot values in `sent`
        self.last_acknowledged = opened
        self.retiring = False  # gets no new increments; ends once it is clean
        self.unfolded: list[bytes] = []  # keys that folding has still to do
        self.folding: list[bytes] = []  # keys in the fold on its way
        self.successor: Actor | None = None

    # -- what there is to do

    @property
    def clean(self) -> bool:
        """Nothing waits to be sent or answered."""
        return self.unknown is None and not any(t.dirty or t.gated for t in self.tables)

    @property
    def slots(self) -> int:
        return sum(len(t.total) for t in self.tables)

    def request(self, limit: int) -> Command | None:
        """Return what to send next, with at most ``limit`` counters; None if there is nothing to do."""
        if self.phase is Phase.ACTIVE:
            return self._flush(limit)
        if self.phase is Phase.NEW:
            return self._open() if not self.clean else None
        if self.phase is Phase.REOPEN:
            return self._open()
        if self.phase is Phase.CLOSING:
            return Command(Script.ACTOR_CLOSE, (self.registry,), (self.id, self.base))
        if self.phase is Phase.FOLDING:
            self.folding = self.unfolded[-limit:]
            return Command(Script.SLOTS_FOLD, (self.registry, *self.folding), (self.id,))
        return None

    def retire(self) -> None:
        """Close and fold as soon as everything is across."""
        if self.phase is Phase.NEW and self.clean:
            self.phase = Phase.DONE
        elif self.phase is Phase.ACTIVE and self.clean:
            self.phase = Phase.CLOSING

    def _open(self) -> Command:
        generation = self.owner[:5]
        return Command(Script.ACTOR_OPEN, (self.registry,), (self.owner, self.id, generation, self.display))

    def _flush(self, limit: int) -> Command | None:
        # A new chunk only after the last was answered: what may or may not have been applied goes along again.
        taken = self._take(limit) if self.unknown is None else self.unknown.totals
        if taken is None:
            return None
        plus, minus, shards = (t.total for t in self.tables)
        self.seq += 1
        if not (taken[1] or taken[2]) and not self.tables[0].floored:
            return self._flush_plus(list(taken[0]), plus)
        return self._flush_any(
            ({k: plus[k] for k in taken[0]}, {k: minus[k] for k in taken[1]}, {k: shards[k] for k in taken[2]})
        )

    def _take(self, limit: int) -> tuple[Collection[bytes], Collection[bytes], Collection[bytes]] | None:
        """Return the keys of the next chunk by kind; the kinds take turns in being first, so that none starves."""
        taken: list[list[bytes]] = [[], [], []]
        for turn in range(3):
            kind = (turn + self.seq) % 3
            if limit and self.tables[kind].dirty:
                taken[kind] = self.tables[kind].take(limit)
                limit -= len(taken[kind])
        return (taken[0], taken[1], taken[2]) if any(taken) else None

    def _flush_plus(self, keys: list[bytes], total: dict[bytes, int]) -> Command:
        """The common flush, increments only: as little work per counter as there can be."""
        acknowledged = self.tables[Kind.PLUS].acknowledged
        fresh = len(keys)
        if acknowledged:
            known = [k for k in keys if k in acknowledged]
            if known:
                keys = [k for k in keys if k not in acknowledged] + known
                fresh = len(keys) - len(known)
        values = [total[k] for k in keys]
        self._remember(Chunk(self.seq, (dict(zip(keys, values)), {}, {}), None))  # noqa: B905 - strict= costs time here
        head = (self.id, self.seq, self.base, fresh, 0, len(keys) - fresh, 0, 0, 0, 0)
        return Command(Script.SLOTS_MERGE, (self.registry, *keys), (*head, *values))

    def _flush_any(self, totals: tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int]]) -> Command:
        """A flush with decrements, floors or numbers of shards among its items."""
        items: list[tuple[Kind, bytes]] = []
        values: list[Argument] = []
        counts: list[int] = []

        def group(kind: Kind, wanted: Callable[[bytes, Table], bool], *, floors: bool = False) -> None:
            table, count = self.tables[kind], 0
            for key, total in totals[kind].items():
                if wanted(key, table):
                    items.append((kind, key))
                    values.append(total)
                    if floors:
                        values.append(table.acknowledged[key])
                    count += 1
            counts.append(count)

        for wanted, floors in ((_fresh, False), (_known, False), (_floored, True)):
            for kind in (Kind.PLUS, Kind.MINUS):
                group(kind, wanted, floors=floors)
        group(Kind.SHARDS, lambda _key, _table: True)
        self._remember(Chunk(self.seq, totals, items))
        keys = (self.registry, *(key for _, key in items))
        return Command(Script.SLOTS_MERGE, keys, (self.id, self.seq, self.base, *counts, *values))

    def _remember(self, chunk: Chunk) -> None:
        self.unknown = chunk
        self.sent[chunk.seq] = chunk
        self.remembered += len(chunk)
        while self.remembered > HISTORY:  # only answered ones are forgotten, oldest first
            oldest = next(iter(self.sent))
            if oldest > self.base:
                break
            self.remembered -= len(self.sent.pop(oldest))

    # -- what an answer means

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer to the last request in."""
        if self.phase in (Phase.NEW, Phase.REOPEN):
            self._answer_open(reply)
        elif self.phase is Phase.ACTIVE:
            self._answer_flush(reply, now)
        elif reply.word == "UNKNOWN":
            self.phase = Phase.REOPEN
        elif reply.word in ("REGRESS", "OPEN"):
            self._lost(reply.number(0) if reply.word == "REGRESS" else 0)
            self.phase = Phase.ACTIVE if reply.word == "REGRESS" else Phase.REOPEN
        elif self.phase is Phase.CLOSING:
            self.phase = Phase.FOLDING
            self.unfolded = list({key: None for t in self.tables[:2] for key in t.total})
            if not self.unfolded:
                self.phase = Phase.DONE
        elif self.phase is Phase.FOLDING:
            del self.unfolded[len(self.unfolded) - len(self.folding) :]
            if not self.unfolded:
                self.phase = Phase.DONE

    def _answer_open(self, reply: Reply) -> None:
        if reply.word == "OPEN":
            self.id = reply.text(0)
            self.phase = Phase.ACTIVE
            if reply.number(1) < self.base:  # an older state of us
                self._lost(reply.number(1))
        # FOLDED and GONE are the writer's: what is left moves to another actor (see `leftover`)

    def _lost(self, recorded: int) -> None:
        """Acknowledged flushes are missing (a fail-over): everything is told again."""
        self.base = recorded
        for table in self.tables:
            table.forget()

    def _answer_flush(self, reply: Reply, now: float) -> None:
        chunk = self.unknown
        assert chunk is not None
        if reply.word == "OK":
            self._acknowledge(chunk, reply)
            self.base = max(self.base, reply.number(0))
            self.last_acknowledged = now
        elif reply.word == "STALE":
            self.seq = max(self.seq, reply.number(0))
        elif reply.word == "REGRESS":
            self._lost(reply.number(0))
        elif reply.word == "MISSING":
            for number in reply.numbers():
                kind, key = chunk.item(number)
                self.tables[kind].floored.add(key)
        else:  # CLOSED, UNKNOWN: a second copy of the flush may still arrive, so it stays unknown
            self.phase = Phase.REOPEN

    def _acknowledge(self, chunk: Chunk, reply: Reply) -> None:
        refused = {chunk.item(number): text for number, text in reply.refused()}
        for table, totals in zip(self.tables, chunk.totals, strict=True):
            if refused:
                kept = {k: v for k, v in totals.items() if (table.kind, k) not in refused}
                table.acknowledge(kept)
            elif totals:
                table.acknowledge(totals)
            table.passed = table.taken
        for (kind, key), text in refused.items():
            self.tables[kind].refused[key] = text
        self.unknown = None

    # -- what moves on

    def leftover(self, seq: int) -> tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int]]:
        """Return, by kind, what this actor did not get across, given that it was folded as of ``seq``."""
        rests: list[dict[bytes, int]] = []
        later = [self.sent[s] for s in sorted(self.sent) if self.base < s <= seq]
        lost = seq < self.base
        for table in self.tables[:2]:
            if lost:  # a fail-over took acknowledged flushes back before the actor was folded
                applied, _exact = self._as_of(seq, table.kind)
            else:
                applied = dict(table.acknowledged)
                for chunk in later:
                    for key, total in chunk.totals[table.kind].items():
                        applied[key] = max(total, applied.get(key, 0))
            rests.append({k: t - applied.get(k, 0) for k, t in table.total.items() if t > applied.get(k, 0)})
        return rests[0], rests[1], dict(self.tables[Kind.SHARDS].total)

    def knows(self, seq: int) -> bool:
        """True if what was applied as of ``seq`` is known exactly: always, unless a fail-over went back too far."""
        return seq >= self.base or (self._as_of(seq, Kind.PLUS)[1] and self._as_of(seq, Kind.MINUS)[1])

    def _as_of(self, seq: int, kind: Kind) -> tuple[dict[bytes, int], bool]:
        """Return what was applied as of an earlier flush, and whether that is exact.

        Of each key sent since, this is the total that it had in the latest flush up to ``seq``. Where that is not
        remembered, the key counts as fully applied: rather too little than too much.
        """
        applied = dict(self.tables[kind].acknowledged)
        first = min(self.sent, default=self.seq + 1)
        if first > seq + 1:
            return applied, False
        before: dict[bytes, int] = {}
        for s in sorted(self.sent):
            if s <= seq:
                before.update(self.sent[s].totals[kind])
        exact = True
        for s in range(seq + 1, self.base + 1):
            for key in self.sent[s].totals[kind] if s in self.sent else ():
                if key in before or first == 1:
                    applied[key] = before.get(key, 0)
                else:
                    exact = False
        return applied, exact


def _fresh(key: bytes, table: Table) -> bool:
    return key not in table.acknowledged


def _known(key: bytes, table: Table) -> bool:
    return key in table.acknowledged and key not in table.floored


def _floored(key: bytes, table: Table) -> bool:
    return key in table.acknowledged and key in table.floored
