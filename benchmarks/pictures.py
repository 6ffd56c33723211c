"""One run's rows as pictures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import ROOT, TIMES, Row
from benchmarks.report import curves

PICTURE = ROOT / "docs" / "benchmarks.png"
GROWTH = ROOT / "docs" / "growth.png"


def draw(rows: list[Row], path: Path = PICTURE) -> None:
    """A picture of the ratios, each as its share of what is asked: longer is better, 1 is where it should be."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    asked = [row for row in rows if row.unit == TIMES and row.ok is not None]
    margins = [row.at_most / row.value if row.at_most is not None else row.value / (row.at_least or 1) for row in asked]
    figure, axes = plt.subplots(figsize=(13, 0.45 * len(asked) + 1), layout="constrained")
    axes.barh(range(len(asked)), margins, color=["tab:green" if row.ok else "tab:red" for row in asked])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(asked)), [row.what for row in asked])
    for position, (row, margin) in enumerate(zip(asked, margins, strict=True)):
        text = f"{row.measured} (asked: {row.reach})"
        axes.text(max(margin, 1) + 0.03, position, text, va="center", fontsize=9)
    axes.set_xlim(0, max([*margins, 1]) * 1.55)  # with room for the text behind the longest
    axes.set_ylim(len(asked) - 0.4, -0.6)  # the first on top
    axes.set_xlabel("how far the mark is reached; 1: just so")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_growth(rows: list[Row], path: Path = GROWTH) -> None:
    """A picture of the curves, each as a multiple of its first point: flat is what is asked."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    grown = curves(rows)
    figure, several = plt.subplots(1, len(grown), figsize=(6 * len(grown), 4.5), layout="constrained", squeeze=False)
    for axes, (over, lot) in zip(several[0], grown.items(), strict=True):
        for done, points in lot.items():
            places = sorted(points)
            axes.plot(places, [points[at] / points[places[0]] for at in places], marker="o", label=done)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
        axes.set_xlabel(over)
        axes.set_ylabel("CPU per counter, the first point is 1")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    plt.close(figure)
