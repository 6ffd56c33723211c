"""The wheel as it is built: what it says of itself holds where there is no repository beside it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser

import pytest

from hatch_build import absolute
from tests.docs.pages import PAGES, ROOT, links, prose

BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
SETTING = re.compile(r'^repository = "(https://[^"]+[^"/])"', re.MULTILINE)
CITED = re.compile(r'\bpages? "([^"]+)"')


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([sys.executable, "-c", BUILD, folder], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as built:
        yield built


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def repository() -> str:
    [setting] = SETTING.findall((ROOT / "pyproject.toml").read_text())
    return str(setting)


def test_the_wheel_names_the_projects_addresses(metadata: Message) -> None:
    """All from one setting; those of files lead to files that are there."""
    told = dict(str(line).split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert told["Source"] == repository()
    assert told.keys() == {"Source", "Documentation", "Issues", "Changelog"}
    for name in ("Documentation", "Changelog"):
        start, _, path = told[name].partition("/blob/main/")
        assert start == repository()
        assert (ROOT / path).is_file(), name


def test_the_address_stands_in_one_place() -> None:
    """Whoever changes the setting has changed it everywhere."""
    files = subprocess.run(["git", "grep", "-lF", repository()], cwd=ROOT, capture_output=True, text=True)
    if files.returncode > 1:
        pytest.skip("this is no checkout")
    assert files.stdout.split() == ["pyproject.toml"]


def test_no_link_of_the_readme_needs_the_repository_beside_it(metadata: Message) -> None:
    """In the wheel each is an address, of a picture one that gives the picture itself, and it is otherwise the same."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    text, readme = str(metadata.get_payload()), (ROOT / "README.md").read_text()
    here, there = links(readme), links(text)
    assert len(here) == len(there) > 40
    for path, address in zip(here, there, strict=True):
        kind = "raw" if path.endswith(".png") else "blob"
        assert address == (path if "://" in path else f"{repository()}/{kind}/main/{path}")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", prose(text))
    assert len(pictures) == 2
    assert all("/raw/" in picture for picture in pictures)
    for kind in ("raw", "blob"):
        text = text.replace(f"({repository()}/{kind}/main/", "(")
    assert text.strip() == readme.strip()


def test_only_paths_become_addresses() -> None:
    """Not code, nor what is an address already, nor a place of the same page."""
    same = "[a](https://x.y/z) [b](#below) `[c](d.md)`\n```python\n[e](f.md)\n```\n"
    assert absolute(same, "https://r") == same
    assert absolute("[a](b.md#c) ![`d`](e.png)", "https://r") == (
        "[a](https://r/blob/main/b.md#c) ![`d`](https://r/raw/main/e.png)"
    )
    assert absolute("[![a](b.png)](c.md)", "https://r") == "[![a](https://r/raw/main/b.png)](https://r/blob/main/c.md)"


def texts(wheel: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    for name in wheel.namelist():
        if name.endswith((".py", ".lua", ".html", ".js", ".css")):
            yield name, wheel.read(name).decode()


def test_nothing_in_the_wheel_cites_files_that_are_not_in_it(wheel: zipfile.ZipFile) -> None:
    """Its users have no docs/: pages are cited by their titles, and there is such a page."""
    titles = {page.read_text().splitlines()[0].removeprefix("# ") for page in PAGES}
    cited = []
    for name, text in texts(wheel):
        assert not re.search(r"(?<![\w/])docs/\w", text), name
        cited += [(name, title) for title in CITED.findall(re.sub(r"\s+(?:--|#)?\s*", " ", text))]
    assert len(cited) > 5
    assert [(name, title) for name, title in cited if title not in titles] == []


def test_help_says_where_the_pages_are(wheel: zipfile.ZipFile) -> None:
    """The package's own docstring, which is what help() and editors show first."""
    said = ast.get_docstring(ast.parse(wheel.read("redis_counters/__init__.py"))) or ""
    assert "pip show --verbose redis-counters" in said
