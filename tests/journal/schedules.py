"""Random schedules in which processes are killed, and others find their journals, beside all that `adversary.py` does.

A process is killed at any step, also one that is telling an orphan; the next tells what the journal holds. Where the
schedule says so, the journal cannot be written for a while, and processes are killed then, too.
"""

from __future__ import annotations

import random
import string
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from redis_counters.protocol.flush.round import RECORDED_FIRST
from redis_counters.protocol.journal.changes import Stored
from redis_counters.protocol.journal.recorder import Recorder, head_of
from redis_counters.protocol.journal.recovery import Orphan, revive
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.write.actor_set import Request
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.states import Phase
from redis_counters.protocol.write.writer import Writer
from tests.journal.adversary import NAMES, Client, Outcome, Schedule


@dataclass
class Process(Client):
    """A process with a journal, or its orphan's teller. ``recorded``: what was counted when it was last written."""

    stored: Stored = field(default_factory=lambda: Stored(b"t", b"main", always=False))
    recorded: dict[bytes, int] = field(default_factory=dict)
    orphan: Orphan | None = None  # that it tells
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        of_orphan = self.orphan.recorder if self.orphan is not None else None
        self.recorder = of_orphan or Recorder(self.writer, strict=self.stored.always)

    def count(self, name: bytes, amount: int) -> None:
        if self.stored.always:
            call = self.writer.calls + 1
            self.stored.calls[call] = (name, amount)
            self.writer.calls = call
        super().count(name, amount)
        if self.stored.always:
            self.recorded = dict(self.issued)


class JournalSchedule(Schedule):
    """``failures``: the journal cannot be written now and then. ``always``: each call is recorded by itself."""

    def __init__(self, client: Any, seed: int, *, failures: bool) -> None:
        super().__init__(client, seed)
        self.always = self.rng.random() < 0.3
        self.failures = failures and not self.always
        self.failing = False
        self.kills = self.twice = self.uncertain = 0
        self.low: dict[bytes, int] = {}  # of processes that are gone: what is certainly recorded,
        self.high: dict[bytes, int] = {}  # and what they had counted
        chance = random.Random(-seed - 2)
        self.mint = lambda: "".join(chance.choices(string.ascii_letters, k=12))
        self.clients = [self._process(self._settings(client.writer.settings)) for client in self.clients]

    def _settings(self, settings: Settings) -> Settings:
        return settings._replace(journal="memory", journal_always=self.always)

    def _process(self, settings: Settings) -> Client:
        writer = Writer(settings, Buffer(), self.mint)
        process = Process(writer, stored=Stored(b"t", b"main", always=self.always))
        if self.rng.random() < 0.5:  # else it counts for a while before it knows the buckets
            writer.settle(self.server.keys, self.now)
        return process

    def _step(self, client: Client) -> None:
        assert isinstance(client, Process)
        event = self.rng.random()
        if event < 0.04:
            self._kill(client)
        elif event < 0.08:
            self._record(client)
        elif event < 0.12 and self.failures:
            self.failing = not self.failing
        elif client.orphan is not None:  # it gets nothing to count
            self._exchange(client)
        else:
            super()._step(client)

    def _exchange(self, client: Client) -> None:
        assert isinstance(client, Process)
        if client.writer.router.keys is None:
            client.writer.settle(self.server.keys, self.now)
        if client.orphan is not None:
            client.orphan.look(self.now, closing=False)
        super()._exchange(client)

    def _may_send(self, client: Client, request: Request) -> bool:
        assert isinstance(client, Process)
        recorder = client.recorder
        if request.command.script not in RECORDED_FIRST or self._record(client) or not recorder.holds(request.actor):
            return True
        client.writer.unrecorded(request)
        return False

    def _record(self, process: Process) -> bool:
        recorder = process.recorder
        changes = recorder.take()
        if changes is not None and self.failing:
            kept = self.rng.random() < 0.2  # and nobody knows
            if kept:
                process.stored.apply(deepcopy(changes))
            recorder.put_back(unknown=kept)
            return False
        if changes is not None:
            process.stored.apply(deepcopy(changes))
            recorder.kept()
        process.recorded = dict(process.issued)
        return True

    def _kill(self, process: Process) -> None:
        """Nothing is left but the journal; a new process counts on, and another tells what the old one had."""
        self.kills += 1
        self.twice += process.orphan is not None
        for name in NAMES:
            low, high = process.recorded.get(name, 0), process.issued.get(name, 0)
            self.low[name] = self.low.get(name, 0) + low
            self.high[name] = self.high.get(name, 0) + (high if self.failures else low)
        self.uncertain += process.writer.uncertain
        self.clients.remove(process)
        settings = process.writer.settings
        stored = process.stored
        recorder = revive(deepcopy(stored), settings, self.server.keys, self.mint, self.now)
        self._check_whole(recorder, stored)
        orphan = Orphan(stored, "journal", recorder)
        self.clients.append(Process(recorder.writer, stored=stored, orphan=orphan))
        if process.orphan is None:
            self.clients.append(self._process(settings))

    def _check_whole(self, recorder: Recorder, stored: Stored) -> None:
        """What was revived is what the journal held."""
        for actor, number in recorder.numbers.items():
            if number not in stored.actors:
                continue
            kept = stored.actors[number]
            head = head_of(actor)
            if kept.head.unanswered and max(kept.flushes, default=0) <= kept.head.base:
                head = head._replace(unanswered=True)  # nothing is known of it that is not acknowledged
            if actor.state.phase is Phase.DONE:
                head = head._replace(folding=True)
            assert head == kept.head
            assert {seq: (chunk.base, chunk.totals) for seq, chunk in actor.sent.items()} == kept.flushes
            for table in actor.tables:
                slots = {key: slot for (kind, key), slot in kept.slots.items() if kind is table.kind}
                assert table.total == {key: slot.total for key, slot in slots.items()}
                assert {key: table.acknowledged.get(key, 0) for key in slots} == {
                    key: slot.acknowledged for key, slot in slots.items()
                }

    def _heal(self) -> None:
        for client in self.clients:
            if client.writer.router.keys is None:
                client.writer.settle(self.server.keys, self.now)
        super()._heal()

    def _check_bound(self) -> None:
        if self.decrements:
            return
        for name in NAMES:
            issued = self.high.get(name, 0) + sum(c.issued.get(name, 0) for c in self.clients)
            assert self.server.value(name) <= issued, f"over-count of {name!r}"

    def bounds(self) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Return what must be there at the end: at least, and at most."""
        living = {name: sum(c.issued.get(name, 0) for c in self.clients) for name in NAMES}
        return tuple(  # type: ignore[return-value]
            {name: living[name] + gone.get(name, 0) for name in NAMES} for gone in (self.low, self.high)
        )

    def fault(self, outcome: Outcome) -> str | None:
        """Return what is wrong with how it ended, None if nothing is."""
        uncertain = outcome.uncertain + self.uncertain
        recorded, issued = self.bounds()
        if not self.failures and uncertain and not self.registry_loss:
            return f"uncertain without a cause: {outcome}"
        if self.decrements and self.failures:  # then there is no order between what was recorded and what was counted
            return None
        excused = bool(outcome.deleted or uncertain)
        if self.decrements and excused:
            return None
        for name in NAMES:
            low = recorded[name] if not excused else 0
            if not min(low, issued[name]) <= outcome.values[name] <= issued[name]:
                return f"{name!r}: recorded {recorded[name]}, issued {issued[name]}, found {outcome.values[name]}"
        return None
