"""`make release` says what is to be done before, and nothing of what is done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.release import problems


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A checkout that may be released."""
    (tmp_path / "redis_counters").mkdir()
    (tmp_path / "redis_counters" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2030-01-31\n")
    (tmp_path / "pyproject.toml").write_text('repository = "https://git.example.com/redis-counters"\n')
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "all of it"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_nothing_is_to_be_done(ready: Path) -> None:
    assert problems(ready) == []


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("CHANGELOG.md", "## [Unreleased]\n", "CHANGELOG.md: no section '## [1.2.0] - YEAR-MONTH-DAY'"),
        ("pyproject.toml", 'repository = "https://example.org/x"\n', "pyproject.toml: `repository` is nobody's"),
        ("other", "", "not committed: other"),
    ],
)
def test_what_is_to_be_done_is_told(ready: Path, path: str, content: str, told: str) -> None:
    (ready / path).write_text(content)
    assert any(line.startswith(told) for line in problems(ready)), problems(ready)


def test_a_version_is_released_once(ready: Path) -> None:
    subprocess.run(["git", "tag", "v1.2.0"], cwd=ready, check=True)
    assert problems(ready) == ["v1.2.0 is a tag already: raise __version__ in redis_counters/__init__.py"]
