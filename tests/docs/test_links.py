"""Every relative link leads to a file that is there, and to a heading that is in it; and the README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links

ALL = sorted({*PAGES, *ROOT.glob("*.md")})


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    wrong = []
    for target in links(text):
        path, _, anchor = target.partition("#")
        if path.startswith(("http://", "https://")):
            continue
        there = (page.parent / path).resolve()
        found = not path or (there.exists() and ROOT in there.parents)
        if found and anchor:
            found = anchor in anchors(there.read_text() if path else text)
        if not found:
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_a_broken_link_is_found() -> None:
    """Of a missing file, of a missing heading, here and elsewhere; code is not searched for links."""
    text = "# Here I am\n[a](nowhere.md) [b](#here-i-am) [c](#there) [d](README.md#no-such-heading) `[e](code.md)`\n"
    assert broken(ROOT / "page.md", text) == ["nowhere.md", "#there", "README.md#no-such-heading"]


FOR_DEVELOPERS = [
    *(ROOT / name for name in ("docs/extending.md", "docs/design.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]


def named_in(page: Path) -> set[str]:
    return set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|lua|md))`", page.read_text()))


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    """Pages for those who change the code name files from the top, or from the package."""
    places = (ROOT, ROOT / "redis_counters", ROOT / "redis_counters" / "protocol", ROOT / "lua")
    assert [name for name in named_in(page) if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("page", FOR_DEVELOPERS[:3], ids=lambda page: page.name)
def test_these_pages_name_files(page: Path) -> None:
    assert named_in(page)


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target.partition("#")[0]).resolve() for target in links(index.read_text())}
    assert {page for page in PAGES if ROOT / "docs" in page.parents and page != index} <= listed


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150
