"""What a journal costs: writing down what a flush is about to send, and each increment in the mode ``always``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness import Row, Size, expect, ratio, seconds, take_turns
from benchmarks.server import Server
from redis_counters import Counters
from redis_counters.protocol.wire.options import JournalMode

FLUSHES = 10  # in each turn
INCREMENTS = 2_000  # in each turn of the mode `always`


def rows(server: Server, size: Size) -> list[Row]:
    return [*(_flushing(server, size, names) for names in (100, 1_000)), _always(server, size)]


@contextmanager
def _client(server: Server, mode: JournalMode | None) -> Iterator[Counters]:
    """Nothing is flushed but by flush()."""
    with tempfile.TemporaryDirectory(prefix="rc-bench-") as folder:
        kept: dict[str, object] = {} if mode is None else {"journal": folder, "journal_mode": mode}
        with Counters.from_url(server.url, flush_interval=60, **kept) as counters:  # type: ignore[arg-type]
            yield counters


def _flushing(server: Server, size: Size, names: int) -> Row:
    server.clear()
    with _client(server, None) as plain, _client(server, "interval") as kept:

        def flush(counters: Counters) -> float:
            def work() -> None:
                for _ in range(FLUSHES):
                    for number in range(names):
                        counters.incr(f"n{number}")
                    counters.flush()

            return seconds(work) / FLUSHES

        flush(plain), flush(kept)
        sides = take_turns(size.rounds, lambda: flush(kept), lambda: flush(plain))
        expect(plain.get("n0", max_age=0), 2 * FLUSHES * (size.rounds + 1))
    here, alone = (sorted(side)[len(side) // 2] * 1e3 for side in sides)
    return Row(
        f"incr() and flush of {names:,} counters that are there: with a journal, over without",
        ratio(*sides),
        note=f"{here:.2f} ms, {alone:.2f} ms",
    )


def _always(server: Server, size: Size) -> Row:
    with _client(server, "always") as counters:

        def count() -> None:
            for _ in range(INCREMENTS):
                counters.incr("x")

        count()
        always = sorted(seconds(count) / INCREMENTS for _ in range(size.rounds))
    return Row("incr() in the mode always of the journal", always[len(always) // 2] * 1e6, unit="µs")
