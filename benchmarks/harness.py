"""What benchmarks share: sizes, rows, taking turns, processes of their own."""

from __future__ import annotations

import os
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 1e-9  # seconds, what the clock can tell
TIMES = "\N{MULTIPLICATION SIGN}"  # the unit of a ratio


@dataclass(frozen=True, slots=True)
class Size:
    """How much each benchmark does."""

    rounds: int  # how often the sides take turns
    calls: int  # calls in a loop that is timed
    threads: int
    calls_per_thread: int
    distinct: int  # names
    hot: int  # increments of one name
    zipf_names: int
    zipf_seconds: float  # per side
    reads: int  # reads in a loop that is timed
    memory: int  # names
    imports: int  # fresh interpreters per side
    once: int  # keyed increments per side; a multiple of 200
    grown: int  # names of the largest; a power of 10
    past: int  # actors that are gone, of the counter with most; a power of 10
    cluster_seconds: float  # per side


FULL = Size(7, 200_000, 32, 20_000, 100_000, 2_000_000, 100_000, 10, 2000, 1_000_000, 21, 40_000, 1_000_000, 1000, 3)
QUICK = Size(3, 50_000, 32, 3_000, 30_000, 500_000, 100_000, 2, 500, 100_000, 11, 10_000, 100_000, 100, 1.5)
TINY = Size(1, 200, 4, 200, 700, 5_000, 500, 0.2, 5, 2_000, 1, 400, 1_000, 10, 0.5)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``at_most`` or ``at_least`` is what it should reach; neither: it is only reported."""

    what: str
    value: float
    unit: str = TIMES
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""
    curve: str = ""  # the row is a point of a curve of that name, which has a table and a picture of its own,
    at: int = 0  # at this place

    @property
    def ok(self) -> bool | None:
        """Whether the figure is where it should be; None where nothing is asked of it."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    @property
    def reach(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g} {self.unit}"
        return "" if self.at_least is None else f"≥ {self.at_least:g} {self.unit}"

    @property
    def measured(self) -> str:
        value = f"{self.value:,.0f}" if abs(self.value) >= 100 or self.value == int(self.value) else f"{self.value:.2f}"
        return f"{value} {self.unit}".strip()


def take_turns(rounds: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Run the sides one after the other, so often, each second time backwards; what each of them returned, per side."""
    results: list[list[float]] = [[] for _ in sides]
    for side in turns(rounds, len(sides)):
        results[side].append(sides[side]())
    return results


def turns(rounds: int, sides: int) -> list[int]:
    """Return whose turn it is, again and again."""
    there = list(range(sides))
    return [side for number in range(rounds) for side in (there if number % 2 == 0 else reversed(there))]


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the ratios of each round."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def per_call(call: Callable[[], object], calls: int) -> float:
    """Seconds that one call takes, without the loop round it: the difference of medians over many short loops.

    timeit compiles each loop anew: one loop for all would be specialized by CPython for the first callable it meets.
    It is never 0, as few loops on a busy machine may have it.
    """
    loops = min(calls, 100)
    empty = timeit.Timer("pass").repeat(loops, calls // loops)
    calling = timeit.Timer("call()", "call = given", globals={"given": call}).repeat(loops, calls // loops)
    return max(statistics.median(calling) - statistics.median(empty), LEAST) / (calls // loops)


class Empty:
    """Has a method that does nothing: what any call costs."""

    def call(self) -> None: ...


def seconds(work: Callable[[], object]) -> float:
    """How long the work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def left_out(what: str, why: str) -> None:
    """It is told that there will be no such row, and why."""
    print(f"left out: {what}: {why}", file=sys.stderr, flush=True)


def expect(found: int, issued: int) -> None:
    """A wrong count stops the run."""
    if found != issued:
        raise AssertionError(f"issued {issued:,}, found {found:,}")


def environment() -> dict[str, str]:
    """That of a process of its own: it imports the library from here."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}
