"""One run's outcomes as a table, as JSON, as Markdown between two marks of a page, and as a picture."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.faults.sides import BLOCKING, OURS, SIDES
from tests.faults.world import ROOT, Outcome
from tests.servers import Kind

RESULTS = ROOT / "tests" / "faults" / "results.json"
PAGE = ROOT / "docs" / "faults.md"
PICTURE = ROOT / "docs" / "faults.png"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
HEADS = {"incr": "INCR", "pipeline": "pipeline of INCRs", "ours": "redis-counters", "asyncio": "its asyncio face"}

LIVING = "Losses that raise no error, compared while the processes live, which count another counter, read or are idle:"


def conditions(kind: Kind) -> dict[str, Any]:
    """With what the run was made."""
    return {
        "server": kind.name,
        "redis-py": version("redis"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def save(outcomes: list[Outcome], where: dict[str, Any], path: Path = RESULTS) -> None:
    rows = [asdict(outcome) | {"error": outcome.error} for outcome in outcomes]
    path.write_text(json.dumps({"conditions": where, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


def load(path: Path = RESULTS) -> tuple[list[Outcome], dict[str, Any]]:
    kept = json.loads(path.read_text())
    rows = [{key: value for key, value in row.items() if key != "error"} for row in kept["rows"]]
    return [Outcome(**row) for row in rows], kept["conditions"]


def cell(outcome: Outcome) -> str:
    """``+30 of 3,000``; with what the caller was told of, and what its own reads lacked."""
    told = f"; {outcome.raised:,} raised" if outcome.raised else ""
    short = f"; own reads {outcome.short:,} short" if outcome.short else ""
    after = f"; after {outcome.seconds:g} s" if outcome.seconds is not None and outcome.side in OURS else ""
    error = f"{outcome.error:+,}" if outcome.error else "0"
    return f"{error} of {outcome.issued:,}{told}{short}{after}"


def rows(outcomes: list[Outcome]) -> list[tuple[str, dict[str, Outcome]]]:
    """Outcomes by fault, and in it by way of counting."""
    return [(fault, {each.side: each for each in group}) for fault, group in groupby(outcomes, lambda each: each.fault)]


def markdown(outcomes: list[Outcome], where: dict[str, Any]) -> str:
    """Two tables: counts after the processes have closed, and counts while they live."""
    table = rows(outcomes)
    lines = [", ".join(f"{key} {value}" for key, value in where.items()) + "."]
    for said, heads in (("Compared after the processes have closed:", BLOCKING), (LIVING, tuple(SIDES))):
        lines += [
            "",
            said,
            "",
            f"| fault | {' | '.join(HEADS[side] for side in heads)} |",
            f"|---|{'---|' * len(heads)}",
        ]
        for fault, sides in table:
            if tuple(sides) == heads:
                cells = [f"**{cell(sides[side])}**" if sides[side].error else cell(sides[side]) for side in heads]
                lines.append(f"| {fault} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(outcomes: list[Outcome], where: dict[str, Any], page: Path = PAGE) -> None:
    """The page holds this table between its marks; the rest of the page stays as it is."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} lacks the marks {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{markdown(outcomes, where)}\n{END}{after}")


DRAWN = {"incr": "tab:red", "ours": "tab:green"}


def at_stake(outcomes: list[Outcome]) -> list[tuple[str, dict[str, Outcome]]]:
    """The rows of the picture: those in which one of the sides that it shows is wrong. The table has all of them."""
    return [(fault, sides) for fault, sides in rows(outcomes) if any(sides[side].error for side in DRAWN)]


def draw(outcomes: list[Outcome], path: Path = PICTURE) -> None:
    """A picture: per 1,000 increments, how many are lost (to the left) or counted too often (to the right)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    table = at_stake(outcomes)
    figure, axes = plt.subplots(figsize=(11, 0.36 * len(table) + 1), layout="constrained")
    for (side, colour), shift in zip(DRAWN.items(), (-0.19, 0.19), strict=True):
        errors = [1000 * sides[side].error / sides[side].issued for _, sides in table]
        places = [place + shift for place in range(len(table))]
        axes.barh(places, errors, height=0.36, color=colour, label=HEADS[side])
        exact = [place for place, error in zip(places, errors, strict=True) if not error]
        axes.plot([0] * len(exact), exact, "o", color=colour, markersize=5, zorder=3)
        for place, error in zip(places, errors, strict=True):
            shown = f"{error:+,.0f}" if abs(error) >= 100 else f"{error:+.3g}"
            text, sign = (shown, -1 if error < 0 else 1) if error else ("0", 1)
            style: dict[str, Any] = {
                "va": "center",
                "ha": "left" if sign > 0 else "right",
                "fontsize": 8,
                "color": colour,
            }
            axes.annotate(text, (error, place), (6 * sign, 0), textcoords="offset points", **style)
    axes.axvline(0, color="black", linewidth=0.8, zorder=2)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(-6000, 6000)
    ticks = [-1000, -100, -10, -1, 0, 1, 10, 100, 1000]
    axes.set_xticks(ticks, [f"{abs(tick):,}" for tick in ticks])
    axes.set_yticks(range(len(table)), [fault for fault, _ in table])
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_xlabel("lost  ←  increments out of 1,000 that nobody was told of  →  counted too often")
    axes.legend(loc="lower right", framealpha=1)
    figure.savefig(path, dpi=100)
    plt.close(figure)
