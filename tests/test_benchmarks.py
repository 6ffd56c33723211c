"""Each benchmark runs, at a size that says nothing, and counts right; times are not looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import calls, distinct, hot, imports, memory, once, reads, report, zipf
from benchmarks.harness import TIMES, TINY, Row, ratio, take_turns
from benchmarks.server import Server, server
from tests.needs import needs_matplotlib


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with server() as own:
        yield own


@pytest.mark.parametrize(
    ("group", "asked", "reported"),
    [
        (calls, 5, 1),
        (distinct, 2, 1),
        (hot, 2, 0),
        (zipf, 0, 3),
        (reads, 4, 0),
        (once, 2, 2),
        (memory, 2, 6),
        (imports, 1, 0),
    ],
    ids=lambda value: value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else None,
)
def test_every_group_runs_and_counts_right(own: Server, group: object, asked: int, reported: int) -> None:
    """A group checks its own counts and raises; its rows are those of the table."""
    rows: list[Row] = group.rows(own, TINY)  # type: ignore[attr-defined] # a module of benchmarks/
    assert [sum(row.ok is not None for row in rows), sum(row.ok is None for row in rows)] == [asked, reported]
    assert all(math.isfinite(row.value) for row in rows)
    assert len({row.what for row in rows}) == len(rows)


def test_no_increment_is_lost_between_threads(own: Server) -> None:
    (row,) = [row for row in calls.rows(own, TINY) if "threads" in row.what]
    assert row.value == 0
    assert row.note == f"of {TINY.threads * TINY.calls_per_thread:,}"


def test_writers_of_the_reads_leave_one_slot_each(own: Server) -> None:
    """What is read has as many slots as the table says: 8 writers, 8 slots."""
    own.clear()
    reads.write(own.url, ["one"], writers=8)
    (key,) = own.client.scan_iter(match="*:c:0:one")
    assert sum(field[-1:] in (b"+", "+") for field in own.client.hkeys(key)) == 8


def test_sides_take_turns() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return len(order)

    assert take_turns(3, lambda: side("a"), lambda: side("b")) == [[1, 4, 5], [2, 3, 6]]
    assert "".join(order) == "abbaab"


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert ratio([10, 1, 3], [1, 1, 1]) == 3


ROWS = [
    Row("short", 2, at_most=2),
    Row("slow", 2.004, at_most=2, note="why"),
    Row("fast", 1234.5, at_least=600),
    Row("lame", 5.999, at_least=6),
    Row("size", 12.5, unit="MB"),
]


def test_a_row_says_whether_it_reaches_its_mark() -> None:
    assert [row.ok for row in ROWS] == [True, False, True, False, None]
    assert [row.reach for row in ROWS[:3]] == [f"≤ 2 {TIMES}", f"≤ 2 {TIMES}", f"≥ 600 {TIMES}"]
    assert [row.measured for row in ROWS] == [
        f"2 {TIMES}",
        f"2.00 {TIMES}",
        f"1,234 {TIMES}",
        f"6.00 {TIMES}",
        "12.50 MB",
    ]
    assert [line.split()[0] for line in report.table(ROWS).splitlines()] == [
        "what",
        "short",
        "slow",
        "fast",
        "lame",
        "size",
    ]


def test_what_is_kept_is_what_was_measured(own: Server, tmp_path: Path) -> None:
    where = report.conditions(own)
    report.save(ROWS, where, tmp_path / "results" / "latest.json")
    assert report.load(tmp_path / "results" / "latest.json") == (ROWS, where)
    assert json.loads((tmp_path / "results" / "latest.json").read_text())["rows"][3]["ok"] is False
    assert set(where) == {"cpu", "cores", "python", "redis-py", "hiredis", "server", "commit"}


def test_the_table_goes_between_the_marks_of_the_page(tmp_path: Path) -> None:
    """Writing twice changes nothing more, and the page's own words stay."""
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_page(ROWS, {"cores": 2}, page)
    first = page.read_text()
    report.write_page(ROWS, {"cores": 2}, page)
    assert page.read_text() == first
    assert "old" not in first
    assert first.startswith("# Title\n")
    assert first.endswith("after\n")
    assert f"| slow | ≤ 2 {TIMES} | 2.00 {TIMES} | miss | why |" in first


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    with pytest.raises(ValueError, match="lacks the marks"):
        report.write_page(ROWS, {}, page)
    assert page.read_text() == "# Title\n"


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    needs_matplotlib()
    report.draw(ROWS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
