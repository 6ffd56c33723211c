"""``python -m tests.faults``: run every fault against every way of counting, print the table, keep it."""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults import report
from tests.faults.campaign import FAULTS, FULL, SMALL, run
from tests.faults.sides import OURS
from tests.faults.world import Outcome
from tests.servers import kinds


def main() -> int:
    """Returns 1 if this library has counted wrong anywhere."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--small", action="store_true", help=f"{SMALL} increments a fault; nothing is kept")
    parser.add_argument("--only", metavar="WORDS", help="faults with these words in their titles; nothing is kept")
    parser.add_argument("--server", help="the kind of server, such as valkey-8.1; nothing is kept")
    parser.add_argument("--markdown", action="store_true", help="run nothing, put the kept table into the page")
    options = parser.parse_args()
    if options.markdown:
        outcomes, where = report.load()
        report.write_page(outcomes, where)
        report.draw(outcomes)
        return 0
    kind = next((kind for kind in kinds() if kind.name.startswith(options.server or "")), None)
    if kind is None:
        parser.error(f"no such server here; found: {', '.join(kind.name for kind in kinds()) or 'none'}")
    outcomes = []
    for fault in FAULTS:
        if options.only and options.only not in fault.title:
            continue
        for side in fault.sides:
            begun = time.monotonic()
            outcomes.append(run(fault, side, kind, SMALL if options.small else FULL))
            print(_line(outcomes[-1], time.monotonic() - begun), flush=True)
    if not (options.small or options.only or options.server):
        report.save(outcomes, report.conditions(kind))
        report.write_page(outcomes, report.conditions(kind))
        report.draw(outcomes)
    ours = [outcome for outcome in outcomes if outcome.side in OURS]
    wrong = [outcome for outcome in ours if outcome.error or outcome.short]
    print(f"redis-counters was wrong in {len(wrong)} of {len(ours)} runs")
    return int(bool(wrong))


def _line(outcome: Outcome, seconds: float) -> str:
    head = report.HEADS[outcome.side]
    return f"{outcome.fault:54} {head:18} {report.cell(outcome):34} struck {outcome.struck}, {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
