"""What is required to be here fails where it is lacking; the rest is skipped, and says why."""

from __future__ import annotations

import pytest

from tests import needs


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [("", "Skipped"), ("matplotlib", "Skipped"), ("mount", "Failed"), (" matplotlib, mount", "Failed")],
)
def test_lacking(monkeypatch: pytest.MonkeyPatch, asked: str, outcome: str) -> None:
    monkeypatch.setenv(needs.REQUIRED, asked)
    with pytest.raises(BaseException, match="nobody may") as caught:
        needs.lacks("mount", "nobody may")
    assert type(caught.value).__name__ == outcome


def test_what_no_test_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip of the pen does not make the run pass."""
    monkeypatch.setenv(needs.REQUIRED, "mount,matplotlip")
    with pytest.raises(pytest.UsageError, match="matplotlip"):
        needs.required()
