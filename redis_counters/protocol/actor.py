"""One writer's identity in one bucket, as a state machine: what it sends, and what an answer makes of it.

The phases, and the answers that move between them (docs/design.md, "Actors"; the rules were found by model checking):

========  ======================  =============================================================================
phase     sends                   goes on
========  ======================  =============================================================================
NEW       actor_open              OPEN: to ACTIVE
REOPEN    actor_open, own id      OPEN: to ACTIVE; FOLDED, GONE: what did not get across moves to a new actor
ACTIVE    slots_merge             CLOSED, UNKNOWN: to REOPEN; REGRESS: all acknowledgements are forgotten
CLOSING   actor_close             OK: to FOLDING; REGRESS: to ACTIVE, everything is told again; UNKNOWN: to REOPEN;
                                  FOLDED: as above
FOLDING   slots_fold              all keys done: to DONE; OPEN: to REOPEN; UNKNOWN: to DONE, uncertain
DONE      nothing                 is dropped
========  ======================  =============================================================================

Rules for what was sent and not answered: it stays *unknown* until a flush that carries all of it is answered with OK,
even when that flush is refused meanwhile, because a copy of the command may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from itertools import islice

from redis_counters.protocol.commands import Argument, Command, Script
from redis_counters.protocol.replies import BadReply, Reply
from redis_counters.protocol.slots import Kind, Table

MOST_UNANSWERED = 64  # flushes that got no answer and are remembered all the same
HISTORY = 20_000  # slot values remembered of answered flushes, to know how far an actor got that was folded behind us


Totals = tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int]]


class Phase(Enum):
    NEW = auto()
    REOPEN = auto()
    ACTIVE = auto()
    CLOSING = auto()
    FOLDING = auto()
    DONE = auto()


class Chunk:
    """What one flush tells: totals by key, for each kind of slot, in the order of its items.

    ``items``: kind and key by item number; None if all are PLUS, in the order of the dict.
    """

    __slots__ = ("base", "items", "refused", "seq", "totals")

    def __init__(self, seq: int, base: int, totals: Totals, items: Sequence[tuple[Kind, bytes]] | None) -> None:
        self.seq = seq
        self.base = base
        self.totals = totals
        self.items = items
        self.refused: set[tuple[Kind, bytes]] = set()  # what Redis has said no to, alone: nothing of it was applied

    def __len__(self) -> int:
        return sum(map(len, self.totals))

    def applied(self, kind: Kind) -> dict[bytes, int]:
        """Return the totals of a kind but for those that were refused."""
        totals = self.totals[kind]
        return {k: v for k, v in totals.items() if (kind, k) not in self.refused} if self.refused else totals

    def item(self, number: int) -> tuple[Kind, bytes]:
        """Return the kind and key of an item, counted from 1 as the script does. Raises BadReply if there is none."""
        if not 1 <= number <= len(self):
            raise BadReply(f"item {number} of {len(self)}")
        if self.items is not None:
            return self.items[number - 1]
        return Kind.PLUS, next(islice(self.totals[Kind.PLUS], number - 1, None))


class Actor:
    """An owner's side of one actor. It decides what to send next and what an answer means; it sends nothing itself."""

    def __init__(
        self, bucket: int, registry: bytes, mint: Callable[[], str], display: bytes, delay: int, opened: float
    ) -> None:
        self.bucket = bucket
        self.registry = registry
        self.mint = mint
        self.owner = mint().encode()
        self.display = display
        self.delay = delay  # seconds after it was closed in which it may be taken back
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
        self.last_proved = opened  # when Redis last showed that it has all that is acknowledged
        self.probe = False  # an empty flush is wanted, to see whether it still does
        self.hesitates = False  # it was silent for so long that it may be gone: it asks before it tells anything new
        self.unfolded: list[bytes] = []  # keys that folding has still to do
        self.folding: list[bytes] = []  # keys in the fold on its way
        self.known_applied: tuple[dict[bytes, int], dict[bytes, int]] | None = None
        self.exact = False  # the next flush must rest on `base` itself: late copies may still move the record on
        self.blurred = False  # what Redis held as of `base` is not known exactly
        self.refused_now: list[bytes] = []  # by the last answer, and not before
        self.uncertain = False  # nobody can tell whether all of it is there
        self.unsure = False  # it comes from a journal that may be older than what was sent
        self.moved = 0  # how often amounts came here from another place
        self.successor: Actor | None = None

    # -- what there is to do

    @property
    def clean(self) -> bool:
        """Nothing waits to be sent or answered."""
        return self.unknown is None and not any(t.dirty or t.gated for t in self.tables)

    @property
    def delivered(self) -> bool:
        """Clean, and nothing is kept because Redis refuses it."""
        return self.clean and not any(t.refused for t in self.tables)

    @property
    def healing(self) -> bool:
        """A fail-over took something back, and not all of it is acknowledged again."""
        return self.known_applied is not None

    @property
    def shown(self) -> str:
        """Return its id for people."""
        return self.id.decode("ascii", "replace") or "(not opened)"

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
            return Command(Script.SLOTS_FOLD, (self.registry, *self.folding), (self.id, 0))
        return None

    def retire(self) -> None:
        """Close and fold as soon as everything is across."""
        if self.phase is Phase.NEW and self.clean:
            self.phase = Phase.DONE
        elif self.phase is Phase.ACTIVE and self.delivered:
            self.phase = Phase.CLOSING

    def _open(self) -> Command:
        # A generation is drawn for each request: a registry that is made anew must not get its old one again.
        generation = self.mint()[:5].encode()
        return Command(Script.ACTOR_OPEN, (self.registry,), (self.owner, self.id, generation, self.display, self.delay))

    def _flush(self, limit: int) -> Command | None:
        # A new chunk only after the last was answered: what may or may not have been applied goes along again.
        totals: Totals = (self.tables[0].total, self.tables[1].total, self.tables[2].total)
        taken: tuple[Collection[bytes], Collection[bytes], Collection[bytes]] | None
        if self.unknown is not None:
            taken = self.unknown.totals
            if self.hesitates:  # what GONE leaves in doubt is what was sent: no more than had been
                totals = self.unknown.totals
        else:
            taken = self._take(limit) if not self.hesitates else None
        if taken is None:
            if not self.probe and not (self.hesitates and not self.clean):
                return None
            taken = ((), (), ())
        plus, minus, shards = totals
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
        if not any(taken):
            for table in self.tables:  # what waits at a gate may have been passed over
                table.passed = table.taken
            return None
        return taken[0], taken[1], taken[2]

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
        self._remember(Chunk(self.seq, self.base, (dict(zip(keys, values)), {}, {}), None))  # noqa: B905 - strict= costs time here
        head = (self.id, self.seq, self.base, int(self.exact), fresh, 0, len(keys) - fresh, 0, 0, 0, 0)
        return Command(Script.SLOTS_MERGE, (self.registry, *keys), (*head, *values))

    def _flush_any(self, totals: Totals) -> Command:
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
        self._remember(Chunk(self.seq, self.base, totals, items))
        keys = (self.registry, *(key for _, key in items))
        return Command(Script.SLOTS_MERGE, keys, (self.id, self.seq, self.base, int(self.exact), *counts, *values))

    def _remember(self, chunk: Chunk) -> None:
        self.unknown = chunk
        self.sent[chunk.seq] = chunk
        self.remembered += len(chunk)
        while self.remembered > HISTORY:  # answered ones are forgotten, oldest first, and at last unanswered ones
            oldest = next(iter(self.sent))
            if oldest > self.base and len(self.sent) <= MOST_UNANSWERED:
                break
            self.remembered -= len(self.sent.pop(oldest))

    def void(self) -> None:
        """The last flush was answered with an error of Redis: it is not recorded, and need not be remembered."""
        chunk = self.unknown
        if self.phase is Phase.ACTIVE and chunk is not None and self.sent.pop(chunk.seq, None) is not None:
            self.remembered -= len(chunk)

    # -- what an answer means

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer to the last request in; FOLDED and GONE are the writer's (see `leftover`)."""
        if self.phase in (Phase.NEW, Phase.REOPEN):
            self._answer_open(reply)
        elif self.phase is Phase.ACTIVE:
            self._answer_flush(reply, now)
        elif reply.word == "UNKNOWN":
            # With the record, its "folded" is lost: telling again what is folded already would count it twice.
            self.phase = Phase.DONE if self.folding else Phase.REOPEN
            self.uncertain = bool(self.folding)
        elif reply.word in ("REGRESS", "OPEN"):
            self._lost(reply.number(0) if reply.word == "REGRESS" else 0)
            self.phase = Phase.ACTIVE if reply.word == "REGRESS" else Phase.REOPEN
        elif reply.word != "OK":
            raise BadReply(f"{reply.word} came for an actor that ends")
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
            self.id, recorded = reply.text(0), reply.number(1)
            self.phase = Phase.ACTIVE
            if recorded < self.base:  # an older state of us
                self._lost(recorded)

    def _lost(self, recorded: int) -> None:
        """Acknowledged flushes are missing (a fail-over): everything is told again."""
        self.known_applied, exact = self.applied_as_of(recorded)
        self.blurred = not exact
        self.base, self.exact = recorded, True
        self.seq = max(self.seq, recorded)
        for table in self.tables:
            table.forget()

    def _answer_flush(self, reply: Reply, now: float) -> None:
        chunk = self.unknown
        assert chunk is not None
        if reply.word == "OK":
            if reply.number(0) != chunk.seq:
                raise BadReply(f"OK came for flush {reply.number(0)} instead of {chunk.seq}")
            if len(chunk):
                self.last_acknowledged = now
            self._acknowledge(chunk, reply)
            self.base, self.exact = max(self.base, reply.number(0)), False
            self.last_proved, self.probe = now, False
        elif reply.word == "STALE":
            self.seq = max(self.seq, reply.number(0))
        elif reply.word == "REGRESS":
            self._lost(reply.number(0))
        elif reply.word == "MISSING":
            missing = [chunk.item(number) for number in reply.numbers()]
            if not all(key in self.tables[kind].acknowledged for kind, key in missing):
                raise BadReply("MISSING came for a slot that was never acknowledged")
            for kind, key in missing:
                self.tables[kind].floored.add(key)
        else:  # CLOSED, UNKNOWN: a second copy of the flush may still arrive, so it stays unknown
            self.phase = Phase.REOPEN

    def _acknowledge(self, chunk: Chunk, reply: Reply) -> None:
        refused = {chunk.item(number): text for number, text in reply.refused()}
        self.refused_now = [key for (kind, key), text in refused.items() if self.tables[kind].refused.get(key) != text]
        chunk.refused.update(refused)
        for table in self.tables:
            if totals := chunk.applied(table.kind):
                table.acknowledge(totals)
            table.passed = table.taken
        for (kind, key), text in refused.items():
            self.tables[kind].refused[key] = text
        self.unknown = None
        if self.known_applied is not None:
            for kind in (Kind.PLUS, Kind.MINUS):
                self.known_applied[kind].update(chunk.applied(kind))
            if self.clean:
                self.known_applied, self.blurred = None, False

    # -- what moves on

    def leftover(self, seq: int) -> tuple[Totals, bool]:
        """Return, by kind, what this actor did not get across, given that it was folded as of ``seq``.

        Also whether that is exact; if it is not, it is rather too little than too much.
        """
        applied, exact = self.applied_as_of(seq)
        plus, minus = (
            {key: total - done.get(key, 0) for key, total in table.total.items() if total > done.get(key, 0)}
            for table, done in zip(self.tables, applied, strict=False)
        )
        return (plus, minus, dict(self.tables[Kind.SHARDS].total)), exact

    def applied_as_of(self, seq: int) -> tuple[tuple[dict[bytes, int], dict[bytes, int]], bool]:
        """Return the totals that Redis held when it had recorded ``seq``, and whether that is exact.

        A flush is applied on top of its base, or of a later flush that was unanswered when it was sent, whose names it
        carries again. So its state is that of its base with its own totals on top; flushes that a fail-over took back
        are not on this chain, though their numbers are lower. Late copies of those may move the record on again: so
        the first flush after a fail-over is exact, which tells of any that did.
        """
        old, old_complete = self._chain(self.base)
        new, new_complete = self._chain(seq)
        common = max(set(old) & set(new), default=0)
        exact = (common > 0 or (old_complete and new_complete)) and not self.blurred
        if common == 0 and not new_complete:  # too far back to tell: all that was ever sent counts as applied
            return (dict(self.tables[0].total), dict(self.tables[1].total)), False
        kept, kept_complete = self._chain(common)
        applied = (dict(self._applied(Kind.PLUS)), dict(self._applied(Kind.MINUS)))
        for kind in (Kind.PLUS, Kind.MINUS):
            for s in old:
                if s <= common:
                    continue
                for key in self.sent[s].totals[kind]:  # goes back to what it was before
                    before = next((t[key] for k in kept if key in (t := self.sent[k].applied(kind))), None)
                    if before is not None or kept_complete:
                        applied[kind][key] = before or 0
                    else:
                        exact = False
            for s in reversed(new):
                if s > common:
                    applied[kind].update(self.sent[s].applied(kind))
        return applied, exact

    def _chain(self, seq: int) -> tuple[list[int], bool]:
        """Return a flush, its base, the base of that, and so on; and whether that goes back to the beginning."""
        chain: list[int] = []
        while seq > 0:
            chunk = self.sent.get(seq)
            if chunk is None:
                return chain, False
            chain.append(seq)
            seq = chunk.base
        return chain, True

    def let_through(self, table: Table, key: bytes) -> bool:
        """The key may be sent, or was, without an answer: holding it back now would break what flush() promises."""
        if self.unknown is not None and key in self.unknown.totals[table.kind]:
            return True
        return key in table.dirty and key not in table.gated

    def told_of(self, kind: Kind, key: bytes) -> int:
        """Return the highest total that Redis may have been told of a slot."""
        if self.healing:  # acknowledgements are forgotten, and what they were for may be there
            return self.tables[kind].total.get(key, 0)
        unanswered = 0 if self.unknown is None else self.unknown.totals[kind].get(key, 0)
        return max(unanswered, self.tables[kind].acknowledged.get(key, 0))

    def told(self) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Return, by kind, the highest totals that Redis may have been told of."""
        plus, minus = ({key: self.told_of(t.kind, key) for key in t.total} for t in self.tables[:2])
        return plus, minus

    def _applied(self, kind: Kind) -> dict[bytes, int]:
        """Return what Redis held as of `base`: what is acknowledged, but for the time that all is told again."""
        return self.tables[kind].acknowledged if self.known_applied is None else self.known_applied[kind]


def _fresh(key: bytes, table: Table) -> bool:
    return key not in table.acknowledged


def _known(key: bytes, table: Table) -> bool:
    return key in table.acknowledged and key not in table.floored


def _floored(key: bytes, table: Table) -> bool:
    return key in table.acknowledged and key in table.floored
