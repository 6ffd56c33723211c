"""Who has how much in Redis, who counted how much, and what may be missing: the checks of a schedule.

Everything is kept per process, counter and sign. What a process has in Redis must never be more than what it counted;
in the end it must be just that, but for what the schedule itself took away, which is written down when it happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from redis_counters.protocol.wire.keys import name_of, shard_of
from tests.simulation.hashes import Value

Account = tuple[int, bytes, bytes]  # a process, a counter, a sign
Entry = tuple[bytes, int, bytes]  # a shard's key, a process, a sign


class Violation(AssertionError):  # noqa: N818 - it says what happened
    """A promise was broken."""


class TooLate(Violation):
    """What should have been there by then was not: a promise of when was broken."""


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


def whole(keys: Mapping[bytes, Value], name: bytes, told: int = 2**30) -> tuple[int, int]:
    """Return what a counter counts, increments and decrements, over its first shards, so many as are told of (or all).

    What was copied from a shard into shard 0, and that shard, if it is still the same, count once: as the larger.
    """
    copies: dict[tuple[int, bytes], list[int]] = {}
    shards: dict[tuple[int, bytes], tuple[int, int]] = {}
    plus = minus = 0
    for key, value in keys.items():
        if b":c:" not in key or name_of(key) != name or shard_of(key) >= told:
            continue
        if isinstance(value, dict):
            own = {field: raw for field, raw in value.items() if not field.startswith(b"s.")}
            shards[shard_of(key), value.get(b"d", b"")] = halves(own)
            for field, raw in value.items():
                if field.startswith(b"s."):
                    _, shard, generation, number = field[:-1].split(b".")
                    half = copies.setdefault((int(shard), generation + b"." + number), [0, 0])
                    half[field[-1:] == b"-"] = int(raw)
        elif value.startswith(b"sealed "):
            _, _, _, dot, more, less = value.split(b" ")
            shards[shard_of(key), dot] = int(more), int(less)
    for part in {*copies, *shards}:
        copied, there = copies.get(part, (0, 0)), shards.get(part, (0, 0))
        plus, minus = plus + max(copied[0], there[0]), minus + max(copied[1], there[1])
    return plus, minus


class Ledger:
    """``there`` belongs to a state of the server and is rolled back with it; the rest only grows."""

    def __init__(self, *, deleted_stays: bool) -> None:
        self.there: dict[Entry, int] = {}
        self.taken: dict[Entry, int] = {}  # was there, and is under a floor now; belongs to a state, too
        self.all_taken: Counter[Account] = Counter()
        self.gained: Counter[bytes] = Counter()  # by counter, all that flushes have added, whatever their sign
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
                if field == b"z":  # a narrowing, which it makes void
                    continue
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
                self.gained[account[1]] += after - before
                self._check_not_above(account)

    def folded(self, key: bytes, old: Value | None, new: Value | None) -> None:
        if halves(old) != halves(new):
            raise Violation(f"folding turned {halves(old)} of {key!r} into {halves(new)}")

    def _check_not_above(self, account: Account) -> None:
        most = self.issued[account] - (self.kept_out[account] if self.deleted_stays else 0)
        if self.totals[account] + self.all_taken[account] > most:
            raise Violation(f"over-count: {self._told(account)}, at most {most} expected")

    def _told(self, account: Account) -> str:
        process, name, sign = account
        there, taken, issued = self.totals[account], self.all_taken[account], self.issued[account]
        gone = f" ({taken} were reset)" if taken else ""
        return f"process {process} has {sign.decode()}{there} in {name!r}, of {issued} that it counted{gone}"

    # -- what is taken away

    def deleted(self, key: bytes, pending: Mapping[Account, int]) -> None:
        """The shard is gone; ``pending``: what of it its processes have no acknowledgement for."""
        for entry in [entry for entry in {**self.there, **self.taken} if entry[0] == key]:
            account, there = (entry[1], name_of(key), entry[2]), self.there.pop(entry, 0)
            taken = self.taken.pop(entry, 0)  # the floor over it is gone, too
            self.totals[account] -= there
            self.all_taken[account] -= taken
            self.removed[account] += there + taken
            self.kept_out[account] += max(0, there + taken - pending.get(account, 0))

    def take(self, key: bytes, new: Value | None) -> None:
        """The shard was reset: what was there does not count any more, and does not come back."""
        if halves(new) != (0, 0):
            raise Violation(f"{key!r} was reset, and counts {halves(new)}")
        for entry in [entry for entry in self.there if entry[0] == key]:
            account, amount = (entry[1], name_of(key), entry[2]), self.there.pop(entry)
            self.totals[account] -= amount
            self.taken[entry] = self.taken.get(entry, 0) + amount
            self.all_taken[account] += amount

    def magnitude(self, name: bytes) -> int:
        """Return how much is there of a counter, increments and decrements alike."""
        return sum(amount for account, amount in self.totals.items() if account[1] == name)

    def ended(self, process: int, recorded: Mapping[Account, int]) -> None:
        """The process was killed: what it has not got across may stay lost, but for what its journal has."""
        for account, issued in self.issued.items():
            if account[0] == process:
                told = self.totals[account] + self.all_taken[account]
                self.lost[account] += max(0, issued - max(told, recorded.get(account, 0)))

    def rolled_back(self, there: dict[Entry, int], taken: dict[Entry, int], cannot_heal: set[int]) -> None:
        """The server holds an earlier state again; of these processes, what it lacks may stay lost."""
        before = self.totals + self.all_taken
        self.there, self.taken = dict(there), dict(taken)
        self.totals, self.all_taken = _by_account(there), _by_account(taken)
        for account, amount in before.items():
            told = self.totals[account] + self.all_taken[account]
            if account[0] in cannot_heal and amount > told:
                self.lost[account] += amount - told

    # -- the end

    def check_end(self, keys: Mapping[bytes, Value], *, narrowed: bool = False) -> None:
        """What is there is what was counted, but for what is known to be missing.

        ``narrowed``: what a shard holds may have been moved to another, so it is looked at by counter.
        """
        sums: Counter[tuple[bytes, bytes]] = Counter()
        for (key, _process, sign), amount in self.there.items():
            sums[key, sign] += amount
        for key, value in keys.items() if not narrowed else ():
            if b":c:" in key and halves(value) != (sums[key, b"+"], sums[key, b"-"]):
                raise Violation(f"{key!r} holds {halves(value)}, not {sums[key, b'+']}, {sums[key, b'-']}")
        for name in {name for _, name, _ in self.totals} if narrowed else ():
            expected = tuple(
                sum(n for (_, counter, its_sign), n in self.totals.items() if (counter, its_sign) == (name, sign))
                for sign in (b"+", b"-")
            )
            if whole(keys, name) != expected:
                raise Violation(f"{name!r} holds {whole(keys, name)} in all, not {expected}")
        self.check_all_there(None)

    def check_all_there(self, process: int | None, *, but: Collection[bytes] = (), late: str | None = None) -> None:
        """Of the process, or of all, everything is there that is not known to be missing, ``but`` in these counters.

        ``late``: that it had so much time; what is missing then is TooLate.
        """
        for account, issued in self.issued.items():
            if process not in (None, account[0]) or account[1] in self.expired or account[1] in but:
                continue
            least = issued - self.lost[account] - self.removed[account] - self.all_taken[account]
            self._check_not_above(account)
            if self.totals[account] < least:
                if late is not None:
                    raise TooLate(f"late, {late}: {self._told(account)}, at least {least} expected")
                raise Violation(f"under-count: {self._told(account)}, at least {least} expected")

    @property
    def exact(self) -> bool:
        """Everything that was counted is there."""
        return all(self.totals[a] + self.all_taken[a] == issued for a, issued in self.issued.items())

    def value(self, name: bytes) -> int:
        """Return what the counter's shards hold together."""
        return sum(amount if a[2] == b"+" else -amount for a, amount in self.totals.items() if a[1] == name)


def _by_account(entries: Mapping[Entry, int]) -> Counter[Account]:
    found: Counter[Account] = Counter()
    for (key, process, sign), amount in entries.items():
        found[process, name_of(key), sign] += amount
    return found
