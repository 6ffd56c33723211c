"""One run's rows as a table, as JSON, as Markdown between two marks of a page, and as a picture."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, TIMES, Row
from benchmarks.server import Server

RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.png"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
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
    lines += [f"| {row.what} | {row.reach} | {row.measured} | {VERDICTS[row.ok]} | {row.note} |" for row in rows]
    return "\n".join(lines)


def write_page(rows: list[Row], where: dict[str, Any], page: Path = PAGE) -> None:
    """The page holds this table between its marks; the rest of the page stays as it is."""
    text = page.read_text() if page.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} lacks the marks {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{markdown(rows, where)}\n{END}{after}")


def draw(rows: list[Row], path: Path = PICTURE) -> None:
    """A picture of the ratios, each as its share of what is asked: longer is better, 1 is where it should be."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    asked = [row for row in rows if row.unit == TIMES and row.ok is not None]
    margins = [row.at_most / row.value if row.at_most is not None else row.value / (row.at_least or 1) for row in asked]
    figure, axes = plt.subplots(figsize=(12, 0.45 * len(asked) + 1), layout="constrained")
    axes.barh(range(len(asked)), margins, color=["tab:green" if row.ok else "tab:red" for row in asked])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(asked)), [row.what for row in asked])
    for position, (row, margin) in enumerate(zip(asked, margins, strict=True)):
        text = f"{row.measured} (asked: {row.reach})"
        axes.text(max(margin, 1) + 0.03, position, text, va="center", fontsize=9)
    axes.set_xlim(0, max([*margins, 1]) * 1.35)
    axes.invert_yaxis()
    axes.set_xlabel("how far the mark is reached; 1: just so")
    figure.savefig(path, dpi=100)
    plt.close(figure)


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
