"""``python -m tests.release``: what keeps this state from being released. It publishes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(root: Path) -> list[str]:
    """Return what is to be done before: of the version, the changelog, the repository's address, the checkout."""
    version = _found(r'^__version__ = "([^"]+)"', root / "redis_counters" / "__init__.py")
    changelog = (root / "CHANGELOG.md").read_text()
    found = []
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md: no section '## [{version}] - YEAR-MONTH-DAY'")
    if "example.org" in _found(r'^repository = "([^"]+)"', root / "pyproject.toml"):
        found.append("pyproject.toml: `repository` is nobody's address yet")
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    if changed.stdout:
        found.append(f"not committed: {', '.join(line[3:] for line in changed.stdout.splitlines())}")
    tags = subprocess.run(["git", "tag", "--list", f"v{version}"], cwd=root, capture_output=True, text=True, check=True)
    if tags.stdout:
        found.append(f"v{version} is a tag already: raise __version__ in redis_counters/__init__.py")
    return found


def _found(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text(), re.MULTILINE)
    assert match, path
    return match[1]


if __name__ == "__main__":
    told = problems(ROOT)
    print("\n".join(told) or "ready: tag it, push the tag, publish dist/")
    sys.exit(bool(told))
