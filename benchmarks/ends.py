"""``python -m benchmarks.ends``: what increments take, by arithmetic from the unit costs of the last run.

docs/explanation/where-it-ends.md says how; ``python -m benchmarks --markdown`` puts the tables there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks import report, units
from benchmarks.harness import ROOT, Row
from redis_counters.protocol.wire.keys import CLUSTER_BUCKETS, DEFAULT_BUCKETS, MAX_BUCKETS

PAGE = ROOT / "docs" / "explanation" / "where-it-ends.md"
BEGIN, END = "<!-- ends: begin -->", "<!-- ends: end -->"

BATCH = 500  # slots in a script, the default max_batch
BUSY = 0.5  # of its core that a primary may spend on us
BUCKETS_EACH = 4  # per primary, where that is more than the default
SHARDS_EACH = 4  # per primary, of a counter that one primary alone cannot take: so that they spread evenly
CROWD = 512  # slots: with more Redis keeps a hash in another way, by default


@dataclass(frozen=True, slots=True)
class Units:
    """Unit costs: microseconds of CPU, and bytes."""

    increment: float
    flush: float
    script: float
    flush_client: float
    flush_bytes: float
    counter: float
    counter_client: float
    counter_bytes: float
    counter_memory: float
    slot_memory: float
    crowd_memory: float

    @classmethod
    def of(cls, rows: list[Row]) -> Units:
        """Raises KeyError if the rows lack one."""
        found = {row.what: row.value for row in rows}
        return cls(
            found[units.INCREMENT] / 1000,
            found[units.FLUSH],
            found[units.SCRIPT],
            found[units.FLUSH_CLIENT],
            found[units.FLUSH_BYTES],
            found[units.COUNTER],
            found[units.COUNTER_CLIENT],
            found[units.COUNTER_BYTES],
            found[units.COUNTER_MEMORY],
            found[units.SLOT_MEMORY],
            found[units.CROWD_MEMORY],
        )


@dataclass(frozen=True, slots=True)
class Case:
    """So many increments a second by so many processes, spread evenly over so many names; None: each a new one."""

    rate: float
    names: int | None
    processes: int
    interval: float = 0.1  # of flushing, in seconds; the default

    @property
    def flushes(self) -> float:
        """How many processes flush in a second."""
        return self.processes / self.interval

    def slots(self) -> float:
        """Return how many slots each process tells at each flush."""
        counted = self.rate / self.flushes
        return counted if self.names is None else min(self.names, counted)

    def scripts(self, primaries: int) -> float:
        """Return how many scripts run in a second: one per bucket with news, or more where these are many."""
        slots, buckets = self.slots(), DEFAULT_BUCKETS
        if primaries > 1:
            buckets = min(MAX_BUCKETS, max(CLUSTER_BUCKETS, BUCKETS_EACH * primaries))
        return self.flushes * max(min(slots, buckets), slots / BATCH)

    def server(self, unit: Units, primaries: int) -> float:
        """Return the cores that all primaries use. The first slot of a script is in its price."""
        scripts, slots = self.scripts(primaries), self.slots() * self.flushes
        first = min(scripts, self.flushes * primaries)  # of a flush at a primary: it is woken up for it
        return (first * unit.flush + (scripts - first) * unit.script + (slots - scripts) * unit.counter) / 1e6

    def primaries(self, unit: Units) -> int:
        """Return how many are enough. More of them have more buckets, so it is looked one by one."""
        if self.names == 1:
            return math.ceil(self.server(unit, 1) / BUSY)
        return next(few for few in count(1) if self.server(unit, few) <= few * BUSY)

    def clients(self, unit: Units) -> float:
        """Return the cores that counting and flushing take in all processes together."""
        flushing = self.flushes * (unit.flush_client + self.slots() * unit.counter_client)
        return (self.rate * unit.increment + flushing) / 1e6

    def sent(self, unit: Units, primaries: int) -> float:
        """Return the bytes that are sent in a second."""
        scripts, slots = self.scripts(primaries), self.slots() * self.flushes
        return scripts * unit.flush_bytes + (slots - scripts) * unit.counter_bytes

    def memory(self, unit: Units, shards: int) -> float:
        """Return the bytes in Redis; where each name is a new one, those of a second."""
        if self.names is None:
            return self.rate * unit.counter_memory
        if self.processes / shards > CROWD:
            return self.names * self.processes * unit.crowd_memory
        return self.names * (shards * unit.counter_memory + max(0, self.processes - shards) * unit.slot_memory)


CASES = [
    Case(1e6, 1, 10),
    Case(1e6, 1, 10_000),
    Case(1e6, 1_000, 100),
    Case(1e6, None, 10),
    Case(1e8, 1, 100),
    Case(1e8, 1, 10_000),
    Case(1e8, 1_000, 100),
    Case(1e8, None, 1_000),
    Case(1e8, None, 1_000, interval=1.0),
]


HEADS = (
    "increments/s",
    "names",
    "processes",
    "flush_interval",
    "slots/s",
    "scripts/s",
    "cores that count",
    "cores of Redis",
    "primaries",
    "K",
    "sent/s",
    "in Redis",
)
UNIT = "unit: "


def table(rows: list[Row]) -> str:
    """Unit costs as they were measured, and what follows from them."""
    unit = Units.of(rows)
    lines = ["| unit cost | measured |", "|---|---|"]
    lines += [f"| {row.what.removeprefix(UNIT)} | {row.measured} |" for row in rows if row.what.startswith(UNIT)]
    lines += ["", f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    return "\n".join(lines + [_line(case, unit) for case in CASES])


def _line(case: Case, unit: Units) -> str:
    primaries = case.primaries(unit)
    shards = SHARDS_EACH * primaries if case.names == 1 and primaries > 1 else 1
    cells = [
        f"{case.rate:,.0f}",
        "each a new one" if case.names is None else f"{case.names:,}",
        f"{case.processes:,}",
        f"{case.interval:g} s",
        _rounded(case.slots() * case.flushes),
        _rounded(case.scripts(primaries)),
        _rounded(case.clients(unit)),
        _rounded(case.server(unit, primaries)),
        f"{primaries:,}",
        f"{shards:,}",
        _bytes(case.sent(unit, primaries)),
        _bytes(case.memory(unit, shards)) + (" more each second" if case.names is None else ""),
    ]
    return f"| {' | '.join(cells)} |"


def _rounded(value: float) -> str:
    """Two digits: the unit costs are no more exact than that."""
    if not value:
        return "0"
    digits = 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def _bytes(count: float) -> str:
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{_rounded(count / size)} {name}"
    return f"{_rounded(count)} B"


def write_page(rows: list[Row], page: Path = PAGE) -> None:
    """The page holds the tables between its marks."""
    page.write_text(report.between(page.read_text(), BEGIN, END, table(rows)))


if __name__ == "__main__":
    print(table(report.load()[0]))
