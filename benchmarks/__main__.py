"""``python -m benchmarks``: measure everything, print one table, keep it as JSON and as pictures."""

from __future__ import annotations

import argparse
import sys

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
from benchmarks.harness import FULL, QUICK
from benchmarks.server import server

_MODULES = (calls, distinct, hot, zipf, cluster, reads, once, regions, shards, growth, journal, units, memory, imports)
GROUPS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}


def main() -> int:
    """Returns 1 if a figure misses what it should reach."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller and shorter; nothing is kept")
    parser.add_argument("--only", nargs="+", choices=sorted(GROUPS), help="these groups; nothing is kept")
    parser.add_argument("--markdown", action="store_true", help="measure nothing, put the kept tables into the pages")
    options = parser.parse_args()
    if options.markdown:
        rows, where = report.load()
        report.write_page(rows, where)
        ends.write_page(rows)
        pictures.draw(rows)
        pictures.draw_growth(rows)
        return 0
    rows = []
    with server() as own:
        where = report.conditions(own)
        for name in options.only or GROUPS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += GROUPS[name].rows(own, QUICK if options.quick else FULL)
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(report.table(rows))
    if not options.quick and not options.only:
        report.save(rows, where)
        pictures.draw(rows)
        pictures.draw_growth(rows)
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
