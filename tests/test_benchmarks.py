"""Each benchmark runs, at a size that says nothing, and counts right; times are not looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import (
    calls,
    cluster,
    distinct,
    ends,
    growth,
    hot,
    imports,
    journal,
    memory,
    once,
    pictures,
    reads,
    regions,
    report,
    shards,
    units,
    zipf,
)
from benchmarks.harness import TIMES, TINY, Row, ratio, take_turns
from benchmarks.server import Server, server
from tests.needs import needs_matplotlib

HAS_GLIDE = find_spec("glide_sync") is not None


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with server() as own:
        yield own


SLOW = pytest.mark.slow("several servers, or many rounds")


@pytest.mark.parametrize(
    ("group", "asked", "reported"),
    [
        (calls, 7, 3),
        (distinct, 2 + HAS_GLIDE, 1),
        (hot, 2, 0),
        pytest.param(zipf, 0, 2, marks=SLOW),
        pytest.param(cluster, 3, 2, marks=SLOW),
        pytest.param(reads, 4, 3, marks=SLOW),
        (once, 2, 2),
        pytest.param(regions, 5, 2, marks=SLOW),
        (shards, 1, 1),
        pytest.param(growth, 4, 7, marks=SLOW),
        (units, 0, 11),
        (memory, 2, 6),
        (imports, 1, 0),
        pytest.param(journal, 0, 3, marks=SLOW),
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
    (row,) = [row for row in calls.rows(own, TINY) if "counts lost" in row.what]
    assert row.value == 0
    assert row.note == f"of {TINY.threads * TINY.calls_per_thread:,}"


def test_a_wrong_count_in_the_cluster_shows() -> None:
    assert [cluster.Counted(10, found, [(1, 2)] * 3).wrong for found in (9, 10, 12)] == [1, 0, 2]


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
    pictures.draw(ROWS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


CURVES = [
    Row(f"{at:,} names: CPU", cost, unit="µs", curve=f"names: {done}", at=at)
    for done, costs in (("read", [1.0, 1.5]), ("flushed", [2.0, 2.25]))
    for at, cost in zip((1000, 10_000), costs, strict=True)
]


def test_points_of_curves_have_a_table_of_their_own(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{report.BEGIN}\n{report.END}\nbetween\n{report.BEGIN_GROWTH}\n{report.END_GROWTH}\n")
    report.write_page([*ROWS, *CURVES], {}, page)
    first, _, second = page.read_text().partition("between\n")
    assert "names" not in first
    assert second.splitlines()[1:-1] == [
        "| CPU per counter, µs; names: | 1,000 | 10,000 |",
        "|---|---|---|",
        "| read | 1 | 1.5 |",
        "| flushed | 2 | 2.25 |",
    ]


def test_the_curves_are_drawn(tmp_path: Path) -> None:
    needs_matplotlib()
    pictures.draw_growth(CURVES, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


UNIT = ends.Units(
    increment=0.05,
    flush=20,
    script=5,
    flush_client=200,
    flush_bytes=200,
    counter=2,
    counter_client=3,
    counter_bytes=40,
    counter_memory=120,
    slot_memory=25,
    crowd_memory=60,
)


def test_what_one_hot_name_takes() -> None:
    """By processes, not by increments: each flushes ten times a second, a slot each time."""
    case = ends.Case(1e6, 1, 10)
    assert (case.slots(), case.scripts(1), case.primaries(UNIT)) == (1, 100, 1)
    assert case.server(UNIT, 1) == pytest.approx(100 * 20e-6)
    assert case.clients(UNIT) == pytest.approx(1e6 * 0.05e-6 + 100 * 203e-6)
    assert (case.sent(UNIT, 1), case.memory(UNIT, 1)) == (100 * 200, 120 + 9 * 25)
    assert ends.Case(1e8, 1, 10).server(UNIT, 1) == case.server(UNIT, 1)
    many = ends.Case(1e8, 1, 10_000)
    assert (many.scripts(4), many.primaries(UNIT), many.memory(UNIT, 16)) == (100_000, 4, 10_000 * 60)


def test_what_new_names_take() -> None:
    """Of each increment a slot: in scripts of 500, but no fewer than there are buckets with news."""
    case = ends.Case(1e6, None, 10)
    primaries = case.primaries(UNIT)
    assert case.slots() == 10_000
    assert [case.scripts(1), case.scripts(2), case.scripts(100)] == [100 * 20, 100 * 64, 100 * 400]
    assert case.server(UNIT, 2) == pytest.approx((200 * 20 + 6200 * 5 + (1e6 - 6400) * 2) / 1e6)
    assert case.server(UNIT, primaries) <= primaries / 2
    assert case.server(UNIT, primaries - 1) > (primaries - 1) / 2
    assert case.memory(UNIT, 1) == 120e6
    assert ends.Case(1e6, None, 10, interval=1).slots() == 100_000


def test_the_page_says_what_follows_from_the_kept_run() -> None:
    """`python -m benchmarks --markdown` was run after the last full run."""
    rows, where = report.load()
    text = ends.PAGE.read_text()
    assert text == report.between(text, ends.BEGIN, ends.END, ends.table(rows))
    page = report.PAGE.read_text()
    assert report.markdown(rows, where) in page
    assert report.growth(rows) in page
