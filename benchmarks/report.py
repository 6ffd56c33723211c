"""One run's rows as a table, as JSON, and as Markdown between the marks of a page."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Row
from benchmarks.server import Server

RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
BEGIN_GROWTH, END_GROWTH = "<!-- growth: begin -->", "<!-- growth: end -->"
VERDICTS = {True: "ok", False: "miss", None: ""}


def conditions(server: Server) -> dict[str, Any]:
    """Where and with what the run was made."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "redis-py": _version("redis"),
        "hiredis": _version("hiredis"),
        "server": server.version(),
        "commit": _commit(),
    }


def save(rows: list[Row], where: dict[str, Any], path: Path = RESULTS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = [asdict(row) | {"ok": row.ok} for row in rows]
    path.write_text(json.dumps({"conditions": where, "rows": figures}, indent=1, ensure_ascii=False) + "\n")


def load(path: Path = RESULTS) -> tuple[list[Row], dict[str, Any]]:
    kept = json.loads(path.read_text())
    return [Row(**{key: value for key, value in row.items() if key != "ok"}) for row in kept["rows"]], kept[
        "conditions"
    ]


def table(rows: list[Row]) -> str:
    """The rows in columns, for a terminal or a log."""
    cells = [("what", "reach", "measured", "", "note")]
    cells += [(row.what, row.reach, row.measured, VERDICTS[row.ok], row.note) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def markdown(rows: list[Row], where: dict[str, Any]) -> str:
    lines = [", ".join(f"{key} {value}" for key, value in where.items()) + ".", ""]
    lines += ["| what | reach | measured | | |", "|---|---|---|---|---|"]
    for row in rows:
        if not row.curve:
            lines.append(f"| {row.what} | {row.reach} | {row.measured} | {VERDICTS[row.ok]} | {row.note} |")
    return "\n".join(lines)


def curves(rows: list[Row]) -> dict[str, dict[str, dict[int, float]]]:
    """Return, by what grows and by the name of the curve, its points."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        if row.curve:
            over, _, done = row.curve.partition(": ")
            found.setdefault(over, {}).setdefault(done, {})[row.at] = row.value
    return found


def growth(rows: list[Row]) -> str:
    """The points of curves, a table for each thing that grows."""
    lines: list[str] = []
    for over, lot in curves(rows).items():
        places = sorted({at for points in lot.values() for at in points})
        lines += ["", f"| CPU per counter, µs; {over}: | {' | '.join(f'{at:,}' for at in places)} |"]
        lines += ["|---|" + "---|" * len(places)]
        for done, points in lot.items():
            cells = (f"{points[at]:.3g}" if at in points else "" for at in places)
            lines += [f"| {done} | {' | '.join(cells)} |"]
    return "\n".join(lines[1:])


def write_page(rows: list[Row], where: dict[str, Any], page: Path = PAGE) -> None:
    """The page holds these tables between its marks; the rest of the page stays as it is."""
    text = between(page.read_text(), BEGIN, END, markdown(rows, where))
    if any(row.curve for row in rows):
        text = between(text, BEGIN_GROWTH, END_GROWTH, growth(rows))
    page.write_text(text)


def between(text: str, begin: str, end: str, table: str) -> str:
    """Return the text with the table between two marks. Raises ValueError if these are not there."""
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page lacks the marks {begin} and {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
