"""Who has how much in Redis, who counted how much, and what may be missing: the checks of a schedule.

Everything is kept per process, counter and sign. What a process has in Redis must never be more than what it counted;
in the end it must be just that, but for what the schedule itself took away, which is written down when it happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from redis_counters.protocol.keys import name_of
from tests.simulation.hashes import Value

Account = tuple[int, bytes, bytes]  # a process, a counter, a sign
Entry = tuple[bytes, int, bytes]  # a shard's key, a process, a sign


class Violation(AssertionError):  # noqa: N818 - it says what happened
    """A promise was broken."""


def halves(value: Value | None) -> tuple[int, int]:
    """Return what a shard counts, increments and decrements."""
    plus = minus = 0
    if isinstance(value, dict):
        for field, raw in value.items():
            if field.endswith(b"+"):
                plus += -int(raw) if field.startswith(b"~") else int(raw)
            elif field.endswith(b"-"):
                minus += -int(raw) if field.startswith(b"~") else int(raw)
    return plus, minus


class Ledger:
    """``there`` belongs to a state of the server and is rolled back with it; the rest only grows."""

    def __init__(self, *, deleted_stays: bool) -> None:
        self.there: dict[Entry, int] = {}
        self.totals: Counter[Account] = Counter()
        self.issued: Counter[Account] = Counter()
        self.lost: Counter[Account] = Counter()  # may be missing: of processes that ended, or by reported uncertainty
        self.removed: Counter[Account] = Counter()  # was in keys that were deleted
        self.kept_out: Counter[Account] = Counter()  # of that, was acknowledged: must not come back
        self.expired: set[bytes] = set()  # counters whose time is over: nothing of them is there, or missing
        self.deleted_stays = deleted_stays  # False where a fail-over may bring deleted keys back

    def count(self, process: int, name: bytes, amount: int) -> None:
        self.issued[process, name, b"+" if amount > 0 else b"-"] += abs(amount)

    # -- what commands do

    def merged(self, process: int, key: bytes, old: Value | None, new: Value | None) -> None:
        """A flush of the process has changed a shard: slots grew, nothing else did, and it is not too much."""
        if isinstance(old, dict):
            assert isinstance(new, dict)
            for field, raw in old.items():
                now = new.get(field)
                if now is None or (now != raw if field == b"d" else int(now) < int(raw)):
                    raise Violation(f"a flush turned {field!r} of {key!r} from {raw!r} into {now!r}")
        for sign, before, after in zip((b"+", b"-"), halves(old), halves(new), strict=True):
            if after < before:
                raise Violation(f"a flush lowered {key!r} from {before} to {after}")
            if after > before:
                entry, account = (key, process, sign), (process, name_of(key), sign)
                self.there[entry] = self.there.get(entry, 0) + after - before
                self.totals[account] += after - before
                self._check_not_above(account)

    def folded(self, key: bytes, old: Value | None, new: Value | None) -> None:
        if halves(old) != halves(new):
            raise Violation(f"folding turned {halves(old)} of {key!r} into {halves(new)}")

    def _check_not_above(self, account: Account) -> None:
        most = self.issued[account] - (self.kept_out[account] if self.deleted_stays else 0)
        if self.totals[account] > most:
            raise Violation(f"over-count: {self._told(account)}, at most {most} expected")

    def _told(self, account: Account) -> str:
        process, name, sign = account
        there, issued = self.totals[account], self.issued[account]
        return f"process {process} has {sign.decode()}{there} in {name!r}, of {issued} that it counted"

    # -- what is taken away

    def deleted(self, key: bytes, pending: Mapping[Account, int]) -> None:
        """The shard is gone; ``pending``: what of it its processes have no acknowledgement for."""
        for entry in [entry for entry in self.there if entry[0] == key]:
            account, amount = (entry[1], name_of(key), entry[2]), self.there.pop(entry)
            self.totals[account] -= amount
            self.removed[account] += amount
            self.kept_out[account] += max(0, amount - pending.get(account, 0))

    def ended(self, process: int, recorded: Mapping[Account, int]) -> None:
        """The process was killed: what it has not got across may stay lost, but for what its journal has."""
        for account, issued in self.issued.items():
            if account[0] == process:
                self.lost[account] += max(0, issued - max(self.totals[account], recorded.get(account, 0)))

    def rolled_back(self, there: dict[Entry, int], cannot_heal: set[int]) -> None:
        """The server holds an earlier state again; of these processes, what it lacks may stay lost."""
        before = self.totals
        self.there = dict(there)
        self.totals = Counter()
        for (key, process, sign), amount in there.items():
            self.totals[process, name_of(key), sign] += amount
        for account, amount in before.items():
            if account[0] in cannot_heal and amount > self.totals[account]:
                self.lost[account] += amount - self.totals[account]

    # -- the end

    def check_end(self, keys: Mapping[bytes, Value]) -> None:
        """What is there is what was counted, but for what is known to be missing."""
        sums: Counter[tuple[bytes, bytes]] = Counter()
        for (key, _process, sign), amount in self.there.items():
            sums[key, sign] += amount
        for key, value in keys.items():
            if b":c:" in key and halves(value) != (sums[key, b"+"], sums[key, b"-"]):
                raise Violation(f"{key!r} holds {halves(value)}, not {sums[key, b'+']}, {sums[key, b'-']}")
        self.check_all_there(None)

    def check_all_there(self, process: int | None) -> None:
        """Of the process, or of all, everything is there that is not known to be missing."""
        for account, issued in self.issued.items():
            if process not in (None, account[0]) or account[1] in self.expired:
                continue
            least = issued - self.lost[account] - self.removed[account]
            self._check_not_above(account)
            if self.totals[account] < least:
                raise Violation(f"under-count: {self._told(account)}, at least {least} expected")

    @property
    def exact(self) -> bool:
        """Everything that was counted is there."""
        return all(self.totals[account] == issued for account, issued in self.issued.items())

    def value(self, name: bytes) -> int:
        """Return what the counter's shards hold together."""
        return sum(amount if a[2] == b"+" else -amount for a, amount in self.totals.items() if a[1] == name)
