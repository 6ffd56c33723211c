"""Where a schedule takes place: a server whose state can go back, processes, and a network that keeps old commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple, TypeVar

from redis_counters.protocol.journal.recovery import Orphan, revive
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.commands import Argument, Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from tests.simulation.hashes import Value
from tests.simulation.ledger import Account, Entry, Ledger, Violation, whole
from tests.simulation.memory import Journal
from tests.simulation.narrowing import Narrowing
from tests.simulation.plan import EXPIRES, EXPIRING, FORMS, LATEST, NAMES, WINDOW, Options, Plan
from tests.simulation.process import Process
from tests.simulation.server import LuaServer
from tests.simulation.taking import Taking

BEGINNING = 1_000_000.0  # seconds, on every clock
NOBODY = -1  # who sends what janitors send
RESHARDING = (Script.NARROW_OPEN, Script.SHARD_SEAL, Script.SHARD_UNSEAL, Script.NARROW_APPLY, Script.SHARDS_WIDEN)

T = TypeVar("T")

Flush = tuple[Argument, Argument]  # an actor and a number


class Late(NamedTuple):
    """A command that may still arrive."""

    sent: float
    process: int
    command: Command


class State(NamedTuple):
    """What the server held at one time."""

    time: float
    keys: dict[bytes, Value]
    expiries: dict[bytes, int]
    there: dict[Entry, int]
    taken: dict[Entry, int]


class World:
    """One run of a schedule. ``texts`` replaces scripts; ``tell`` is told of every step and command, in words."""

    def __init__(
        self, plan: Plan, texts: Mapping[Script, bytes] | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self.plan = plan
        self.tell = tell
        self.now = BEGINNING
        self.server = LuaServer(lambda: self.now, texts)
        self.database = self.server.database
        self.space = KeySpace(b"t", plan.buckets)
        self.ledger = Ledger(deleted_stays=plan.faults.isdisjoint(("fail-over", "registry lost", "killed", "emptied")))
        self.nodes = [0] * plan.buckets  # which server each bucket is on, as addresses tell; a new one has a new number
        self.history: list[State] = [State(self.now, {}, {}, {}, {})]
        self.late: list[Late] = []
        self.trouble_until = 0.0
        self.expires_at = BEGINNING + EXPIRES[plan.seed % len(EXPIRES)] if "expires" in plan.faults else None
        self.squatted: set[bytes] = set()  # keys that hold another type
        self.narrowed: set[bytes] = set()  # counters whose number of shards a fail-over took back,
        self.unpublished: set[bytes] = set()  # and those where nobody need tell it again
        # What Redis refused alone, by flush: see "Limits" for what a lost answer or a late copy may do then.
        self.refused: dict[Flush, set[Account]] = {}
        self.heard: set[Flush] = set()  # whose answers their owners have
        self.put_back: list[tuple[float, Counter[Account], set[bytes]]] = []  # by late copies, and when
        self.fall_backs = 0  # times that the server's state went back
        self.fell_back_at = 0.0
        self.uncertain = 0
        self.streams = 0  # of chance, for tellers of orphans
        self.happened: Counter[str] = Counter()
        self.all: list[Process] = []
        self.narrowings: list[Narrowing] = []
        self.takings: list[Taking] = []
        self.numbers = 0
        self.processes = [self.new_process(options) for options in plan.processes]

    def new_process(self, options: Options, forked_from: Process | None = None) -> Process:
        process = Process(self, self.numbers, options, forked_from)
        self.numbers += 1
        self.all.append(process)
        return process

    def take_over(self, killed: Process) -> None:
        """Another process tells what the journal of one that was killed holds, under its number in the books."""
        assert killed.journal is not None
        if "fail-over" in self.plan.faults:  # a journal does not tell what was refused: see "Limits"
            for account in set[Account]().union(*self.refused.values()):
                if account[0] == killed.number:
                    self.ledger.lost[account] = self.ledger.issued[account]
        for kept in killed.journal.stored.actors.values():  # what it had heard, and had not yet kept, nobody has heard
            head = kept.head
            self.heard -= {flush for flush in self.heard if flush[0] == head.id and int(flush[1]) > head.base}
        self.streams += 1
        teller = Process(self, killed.number, killed.options, None, self.streams)
        teller.journal, teller.issued = Journal(teller, killed.journal.stored), killed.issued
        teller.journal.recorded, teller.journal.has_failed = killed.journal.recorded, killed.journal.has_failed
        teller.of_a_closing_one = killed.closing or killed.of_a_closing_one
        core = teller.core
        recorder = revive(deepcopy(killed.journal.stored), core.settings, self.space, teller.mint, self.now)
        teller.orphan = Orphan(killed.journal.stored, "journal", recorder)
        core.writer, core.recorder = recorder.writer, recorder
        core.reads = Reads(recorder.writer, core.clock, core.wall, core.chance)
        self.all.append(teller)
        self.processes.append(teller)

    def alive(self, which: int) -> Process | None:
        """Return one that runs."""
        living = [process for process in self.processes if not process.dead and not process.frozen]
        return living[which % len(living)] if living else None

    # -- the server, as it is reached

    def run(self, process: int, command: Command, *, text: bool = True) -> object:
        """Return the server's answer; what the command did is checked, written down, and may be taken back later."""
        database = self.database
        self.expire()
        writes, before = database.writes, {key: database.keys.get(key) for key in command.keys[1:]}
        recorded = self._recorded(command)
        resharded = name_of(command.keys[-1]) if command.script in RESHARDING else None
        counted = whole(database.keys, resharded) if resharded is not None else None
        answer = self.server.run(command, text=text)
        if self.tell is not None:
            self.tell("    " + _told(process, command, answer))
        if database.writes != writes:
            for key, old in before.items():
                new = database.keys.get(key)
                if new is old:
                    continue
                if resharded is not None:
                    continue
                if command.script is Script.SLOTS_FOLD:
                    self.ledger.folded(key, old, new)
                elif command.script is Script.SHARD_RESET and command.args[0] == 1:
                    self.ledger.deleted(key, self._pending(key))
                elif command.script is Script.SHARD_RESET:
                    self.ledger.take(key, new)
                else:
                    self.ledger.merged(process, key, old, new)
            if resharded is not None and whole(database.keys, resharded) != counted:
                raise Violation(
                    f"{_told(process, command, answer)} turned {counted} into {whole(database.keys, resharded)}"
                )
            self._check_published()
            if resharded is not None and resharded not in self.narrowed | self.unpublished:
                told = int(self.database.fields(self.space.shard_key(resharded, 0)[1]).get(b"k", b"1"))
                if whole(database.keys, resharded, told) != counted:
                    raise Violation(f"after {_told(process, command, answer)} not all is in {told} shards")
            if command.script is Script.SHARD_UNSEAL:
                self.happened["unsealed"] += 1
            if self._recorded(command) <= recorded and command.script is Script.SLOTS_MERGE:
                raise Violation(f"{recorded} was recorded, and after {_told(process, command, answer)} no more")
            self.keep()
            if command.script is Script.SLOTS_MERGE and isinstance(answer, list) and len(answer) > 2:
                keys = [command.keys[item + 1] for item in answer[2::2]]
                self.refused[_flush(command)] = {(process, name_of(k), sign) for k in keys for sign in (b"+", b"-")}
        return answer

    def note_refused(self) -> None:
        """What was refused alone, without its owner hearing of it, may be missing."""
        for flush in self.refused.keys() - self.heard:
            for account in self.refused[flush]:
                self.ledger.lost[account] = self.ledger.issued[account]

    def _recorded(self, command: Command) -> int:
        """Return the number that is recorded of the actor that a flush is of."""
        if command.script is not Script.SLOTS_MERGE:
            return 0
        record = self.database.fields(command.keys[0]).get(_flush(command)[0])  # type: ignore[arg-type]  # bytes
        return -1 if record is None else int(record.split(b" ")[1])

    def _check_published(self) -> None:
        """There is no shard that a reader would not look for, but for sealed ones, which have been moved."""
        for key, value in self.database.keys.items():
            if b":c:" not in key or not isinstance(value, dict) or not shard_of(key):
                continue
            name = name_of(key)
            if name not in self.narrowed | self.unpublished:
                width = int(self.database.fields(self.space.shard_key(name, 0)[1]).get(b"k", b"1"))
                if width <= shard_of(key):
                    raise Violation(f"{key!r} is there, and shard 0 tells of {width}")

    def has_heard(self, command: Command) -> None:
        """The owner has the answer to a flush of his actor; those before it were told again in it, or were answered."""
        actor, _ = _flush(command)
        self.heard.update(flush for flush in self.refused if flush[0] == actor)

    def ask(self, command: Command) -> object:
        """Return the answer to a command that nobody sends twice by mistake: one that reads, or a janitor's."""
        answer = self.run(NOBODY, command, text=False)
        if isinstance(answer, ErrorReply) and answer.code == "NOSCRIPT":
            answer = self.run(NOBODY, command)
        return answer

    def keep(self) -> None:
        """The server's state now is one that a fail-over may come back to."""
        database = self.database
        there, taken = dict(self.ledger.there), dict(self.ledger.taken)
        self.history.append(State(self.now, database.snapshot(), dict(database.expiries), there, taken))
        while "emptied" not in self.plan.faults and self.now - self.history[1].time > 2 * WINDOW:
            del self.history[0]

    def fail_over(self, lost: int, form: int = 0, *, far: bool = False) -> bool:
        """The latest writes are lost; a new primary knows no scripts. None that is older than the window, if not far.

        ``form``: what clients see of it, see `FORMS`.
        """
        count = 0
        while count < lost and len(self.history) > 1 and (far or self.now - self.history[-1].time < WINDOW):
            self.history.pop()
            count += 1
        return bool(count) and self._fall_back(self.history[-1].time, range(self.plan.buckets), form)

    def empty(self, form: int) -> None:
        """There is nothing any more: FLUSHALL, or a restart without persistence."""
        known = set(self.server.known)
        self.history.append(State(self.now, {}, {}, {}, {}))
        self._fall_back(self.now, range(self.plan.buckets), form)
        self.squatted.clear()
        if FORMS[form] == "kept":  # which FLUSHALL does not forget
            self.server.known |= known

    def _fall_back(self, since: float, buckets: Iterable[int], form: int) -> bool:
        """The server holds the last state of the history; what was lost had come since then."""
        state, widths = self.history[-1], self._told_widths()
        for when, gained, widened in self.put_back:  # its owner may have seen it there, and gone: see "Limits"
            if when >= since:
                self.ledger.lost.update(gained)
                self.unpublished |= widened
        self.database.restore(state.keys, state.expiries)
        staying = (p for p in self.all if not (p.dead or p.closing or p.of_a_closing_one or p.forgetful))
        going = {p.number for p in staying}
        ended = {p.number for p in self.all} - going
        self.ledger.rolled_back(state.there, state.taken, ended)
        # What processes that ended told of the number of shards, nobody may tell again.
        self.narrowed.update(name for name, width in self._told_widths().items() if width != widths[name])
        if ended:
            self.unpublished |= self.narrowed
        self.server.known.clear()
        self.fall_backs += 1
        self.fell_back_at = self.now
        self._check_published()
        if FORMS[form] == "redirected":
            for bucket in buckets:
                self.nodes[bucket] = self.fall_backs
        for process in self.all:
            if FORMS[form] == "broken":
                process.connections.broken = True
            elif FORMS[form] == "redialled":
                process.hang_up()
        return True

    def fail_over_one(self, bucket: int, lost: int, form: int = 0, *, far: bool = False) -> bool:
        """As `fail_over`, of the node of one bucket; what happened in the others stays."""
        bucket %= self.plan.buckets
        mine = b"{t:%d}" % bucket
        states = self.history
        first = len(states) - 1
        count = 0
        while count < lost and first > 0 and (far or self.now - states[first].time < WINDOW):
            first -= 1
            count += 1
        if not count:
            return False
        target = states[first]
        for n in range(first + 1, len(states)):
            states[n] = State(
                states[n].time,
                _of_two(states[n].keys, target.keys, mine),
                _of_two(states[n].expiries, target.expiries, mine),
                _of_entries(states[n].there, target.there, mine),
                _of_entries(states[n].taken, target.taken, mine),
            )
        return self._fall_back(target.time, [bucket], form)

    def _widths(self) -> dict[bytes, bytes | None]:
        """Return the numbers of shards that shards 0 tell of."""
        return {name: self.database.fields(self.space.shard_key(name, 0)[1]).get(b"k") for name in NAMES}

    def _told_widths(self) -> dict[bytes, list[bytes | None]]:
        """As `_widths`, and the narrowings that telling it has made void."""
        shards0 = {name: self.database.fields(self.space.shard_key(name, 0)[1]) for name in NAMES}
        return {name: [fields.get(b"k"), fields.get(b"z")] for name, fields in shards0.items()}

    def expire(self) -> None:
        """Of a counter whose time is over nothing is there any more, and no key of it is without that time."""
        if self.expires_at is None:
            return
        if self.now >= self.expires_at:
            self.ledger.expired.add(EXPIRING)
        due = self.database.due()
        for key in due:
            self.lose(key, EXPIRING)
        if due:
            self.database.delete(*due)
            self.keep()
        for key, value in self.database.keys.items():
            ours = b":c:" in key and isinstance(value, dict) and name_of(key) == EXPIRING
            if ours and key not in self.database.expiries:
                raise Violation(f"{key!r} has no time to expire")

    def lose(self, key: bytes, name: bytes) -> None:
        """The shard is about to be gone; it is written down what may be missing for that."""
        if key == self.space.shard_key(name, 0)[1]:
            self.unpublished.add(name)
        self.ledger.deleted(key, self._pending(key))

    def _pending(self, key: bytes) -> dict[Account, int]:
        """Return what of a shard may be there without its processes knowing it."""
        pending: dict[Account, int] = {}
        for process in self.all:
            pending.update(process.pending(key, name_of(key)))
        return pending

    def records(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (registry, actor, record) of every actor."""
        return [
            (registry, actor, record)
            for registry in self.space.registries
            for actor, record in self.database.fields(registry).items()
            if b"." in actor and not actor.startswith(b"@")
        ]

    def shard_keys(self, registry: bytes) -> list[bytes]:
        """Return the shards in the registry's bucket."""
        prefix = registry[:-1] + b"c:"
        return sorted(key for key in self.database.keys if key.startswith(prefix))

    # -- the network

    def keep_late(self, process: int, command: Command) -> None:
        self.late.append(Late(self.now, process, command))

    def deliver_late(self, which: int) -> None:
        late = self.late.pop(which % len(self.late))
        flush = _flush(late.command)
        if self.now - late.sent >= LATEST or flush in self.refused:
            return
        before, widths = Counter(self.ledger.totals), self._widths()
        self.run(late.process, late.command)
        gained = self.ledger.totals - before
        widened = {name for name, width in self._widths().items() if width != widths[name]}
        if gained or widened:
            self.put_back.append((self.now, gained, widened))
        for account in self.refused.get(flush, ()):  # its owner never hears of that: see "Limits"
            self.ledger.lost[account] = self.ledger.issued[account]

    # -- what processes say

    def check_bound(self, name: bytes, value: int) -> None:
        """A value is never above what was issued."""
        issued = self.ledger.issued
        most = sum(n for (_, counter, sign), n in issued.items() if counter == name and sign == b"+")
        least = -sum(n for (_, counter, sign), n in issued.items() if counter == name and sign == b"-")
        if not least <= value <= most:
            raise Violation(f"{name!r} was read as {value}; issued were {most} and {least}")

    def reported_uncertain(self, process: Process, word: bytes) -> None:
        """A process says that nobody can tell how far it got: it must have a reason."""
        self.uncertain += 1
        faults = self.plan.faults
        known = (
            process.forgetful
            or "cleaned" in faults
            or "short memory" in faults
            or ((process.closing or process.of_a_closing_one) and "fail-over" in faults)
            or "other type" in faults  # a flush without an answer, which something may have been refused of
        )
        if not known:
            raise Violation(f"process {process.number} reports an uncertainty for nothing, after {word.decode()}")


def _flush(command: Command) -> Flush:
    return (command.args[0], command.args[1]) if command.script is Script.SLOTS_MERGE else (b"", 0)


def _told(process: int, command: Command, answer: object) -> str:
    what = command.script.value if command.script else command.plain.decode()
    words = [part if isinstance(part, bytes) else b"%d" % part for part in (*command.keys, *command.args)]
    shown = answer.text if isinstance(answer, ErrorReply) else answer
    return f"process {process}: {what} {b' '.join(words).decode('utf-8', 'replace')} -> {shown}"


def _of_two(others: dict[bytes, T], mine: dict[bytes, T], prefix: bytes) -> dict[bytes, T]:
    """Return what one state has of the keys with this prefix, and another one of all others."""
    kept = {key: value for key, value in others.items() if not key.startswith(prefix)}
    return kept | {key: value for key, value in mine.items() if key.startswith(prefix)}


def _of_entries(others: dict[Entry, int], mine: dict[Entry, int], prefix: bytes) -> dict[Entry, int]:
    """As `_of_two`, of entries of the ledger."""
    kept = {entry: amount for entry, amount in others.items() if not entry[0].startswith(prefix)}
    return kept | {entry: amount for entry, amount in mine.items() if entry[0].startswith(prefix)}
