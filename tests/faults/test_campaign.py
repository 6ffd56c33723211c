"""The campaign, small: whatever happens, this library counts right; and what is kept of the last full run is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults import report
from tests.faults.campaign import FAULTS, SMALL, Fault, run
from tests.faults.sides import OURS, SIDES
from tests.faults.world import Outcome
from tests.needs import needs_matplotlib
from tests.servers import Kind


@pytest.mark.every(15, "seconds each")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_ours_is_exact(any_kind: Kind, fault: Fault) -> None:
    """The fault happened; where it is known to make others count wrong, it did; ours is exact."""
    for side in fault.wrong:
        assert run(fault, side, any_kind, SMALL).error != 0
    for side in OURS:
        if side in fault.sides:
            ours = run(fault, side, any_kind, SMALL)
            assert ours.struck > 0
            assert ours.issued >= SMALL // 3
            assert (ours.error, ours.raised, ours.short) == (0, 0, 0)


def test_the_kept_run_is_of_these_faults_and_exact() -> None:
    """A fault that was added or renamed asks for a new run."""
    outcomes, _where = report.load()
    assert [(each.fault, each.side) for each in outcomes] == [
        (fault.title, side) for fault in FAULTS for side in fault.sides
    ]
    assert [each for each in outcomes if each.side in OURS and (each.error or each.raised or each.short)] == []
    for fault in FAULTS:
        assert {each.side for each in outcomes if each.fault == fault.title and each.error} >= set(fault.wrong)


def test_the_page_shows_the_kept_run(tmp_path: Any) -> None:
    page = tmp_path / "faults.md"
    page.write_text(report.PAGE.read_text())
    report.write_page(*report.load(), page=page)
    assert page.read_text() == report.PAGE.read_text()


def test_the_picture_has_the_rows_where_something_is_at_stake() -> None:
    """INCR or redis-counters is wrong there; where both are right there is nothing to see, but a row in the table."""
    outcomes, _where = report.load()
    off = {each.fault for each in outcomes if each.side in ("incr", "ours") and each.error}
    drawn = [fault for fault, _ in report.at_stake(outcomes)]
    assert drawn == [fault.title for fault in FAULTS if fault.title in off]
    assert 0 < len(drawn) < len(FAULTS)
    pipeline_only = [Outcome("a fault", side, 10, 0, 10 + (side == "pipeline"), 1) for side in SIDES]
    assert report.at_stake(pipeline_only) == []
    ours = [Outcome("a fault", side, 10, 0, 10 - (side == "ours"), 1) for side in SIDES]
    assert [fault for fault, _ in report.at_stake(ours)] == ["a fault"]


def test_the_picture_can_be_drawn(tmp_path: Any) -> None:
    needs_matplotlib()
    report.draw(report.load()[0], tmp_path / "faults.png")
    assert (tmp_path / "faults.png").stat().st_size > 10_000
