"""What hatchling writes about the package by itself lacks: addresses, and a README that can be read anywhere.

Both follow from one setting, ``repository`` in ``[tool.hatch.metadata.hooks.custom]`` of pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

BRANCH = "main"
# Code, which has no links, and links, whose text may be code, or a picture.
_PARTS = re.compile(
    r"^```.*?^```$ | `[^`\n]+` | (?P<picture>!?) \[ (?P<text>(?:[^\[\]]|\[[^\]]*\])*) \] \( (?P<target>[^)\s]+) \)",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


def urls(repository: str) -> dict[str, str]:
    """The addresses that package indexes and ``pip show --verbose`` name."""
    pages = f"{repository}/blob/{BRANCH}"
    return {
        "Documentation": f"{pages}/docs/README.md",
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{pages}/CHANGELOG.md",
    }


def absolute(readme: str, repository: str) -> str:
    """The page with an address in place of each path: a reader elsewhere has no files beside it."""

    def replaced(part: re.Match[str]) -> str:
        picture, text, target = part.group("picture", "text", "target")
        if target is None:
            return part[0]
        if "://" not in target and not target.startswith("#"):
            target = f"{repository}/{'raw' if picture else 'blob'}/{BRANCH}/{target}"
        return f"{picture}[{absolute(text, repository)}]({target})"

    return _PARTS.sub(replaced, readme)


class Addresses(MetadataHookInterface):
    """Called by hatchling for each build, of the sdist and of the wheel."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add ``urls`` and ``readme``, which pyproject.toml calls dynamic."""
        repository = self.config["repository"].rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = urls(repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, repository)}
