"""What several scripts do in the same way stands once, in a part that each of them includes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua import names, source

FOLDER = scripts.folder()
PARTS = sorted(path.stem for path in (FOLDER / "parts").iterdir())
_INCLUDE = re.compile(r"^-- include parts/(\w+)\.lua\n", re.MULTILINE)
LONGEST = 5  # lines of code that two files may share: what is longer is a part
FILES = {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*.lua")}


def code(text: str) -> list[str]:
    """Return the lines of code, without indentation."""
    return [line for each in source.code(text).splitlines() if (line := each.strip())]


def runs(texts: dict[str, str]) -> dict[tuple[str, ...], set[str]]:
    """Return which files hold each run of lines that is too long to stand twice."""
    found: dict[tuple[str, ...], set[str]] = {}
    for name, text in texts.items():
        lines = code(text)
        for first in range(len(lines) - LONGEST):
            found.setdefault(tuple(lines[first : first + LONGEST + 1]), set()).add(name)
    return found


def test_nothing_stands_in_two_files() -> None:
    assert {run: where for run, where in runs(FILES).items() if len(where) > 1} == {}


def test_what_stands_in_two_files_is_seen() -> None:
    texts = {**FILES, "another": FILES["slots_fold.lua"] + FILES["parts/sums.lua"]}
    assert {"parts/sums.lua", "another"} in runs(texts).values()


every_file = pytest.mark.parametrize("file", sorted(FILES))


def part_text(part: str) -> str:
    return FILES[f"parts/{part}.lua"]


def included(text: str) -> set[str]:
    """Return the parts that a file includes, and those that they include."""
    direct = set(_INCLUDE.findall(text))
    return direct.union(*(included(part_text(part)) for part in direct))


def given(part: str) -> set[str]:
    """Return the names that a part defines for the file that includes it."""
    lists = re.findall(r"^local (?:function )?([\w, ]+)", part_text(part), re.MULTILINE)
    return {name for each in lists for name in re.findall(r"\w+", each)}


def lacking(text: str) -> set[str]:
    """Return the names that a file uses, and has neither itself nor from a part that it includes itself."""
    return names.imported(text).difference(*map(given, _INCLUDE.findall(text)))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_of_several_files(part: str) -> None:
    """And once in each script that includes it, however many of its parts do."""
    assert sum(part in _INCLUDE.findall(text) for text in FILES.values()) > 1
    code = _INCLUDE.sub("", part_text(part))
    for script in Script:
        expected = part in included(FILES[f"{script.value}.lua"])
        assert scripts.text(script).decode().count(code) == expected


@every_file
def test_includes_come_first(file: str) -> None:
    """So no part can use what the including file defines."""
    start = r"--\[\[\n.*?\n\]\]\n" if "/" not in file else ""
    text = re.sub(start, "", FILES[file], count=1, flags=re.DOTALL)
    assert not _INCLUDE.search(re.sub(rf"\A(?:{_INCLUDE.pattern})*", "", text, flags=re.MULTILINE))


@every_file
def test_a_file_imports_what_it_includes(file: str) -> None:
    """It has no other free names: all else that it needs is given to its functions. And it includes what it uses."""
    text = FILES[file]
    assert lacking(text) == set()
    used = names.imported(text)
    assert [part for part in _INCLUDE.findall(text) if not given(part) & used] == []


@every_file
def test_a_free_name_is_seen(file: str) -> None:
    """One that is local elsewhere, one that is read in a function within a function, one that is written."""
    text = FILES[file].rpartition("\nreturn ")[0] or FILES[file]
    for line in (
        "local function f(key) return free .. key end local function g(free) end",
        "local function f() return function() return free end end",
        "local function f() free = 1 end",
    ):
        assert lacking(f"{text}\n{line}\n") == {"free"}
    for part in _INCLUDE.findall(text):
        assert lacking(FILES[file].replace(f"-- include parts/{part}.lua\n", ""))


@pytest.mark.parametrize("script", Script)
def test_every_include_is_a_part(script: Script) -> None:
    assert included(FILES[f"{script.value}.lua"]) <= set(PARTS)
    assert "include" not in re.sub(r"--\[\[.*?\]\]", "", scripts.text(script).decode(), flags=re.DOTALL)


def test_parts_are_no_folder_within_folders() -> None:
    assert all(Path(name).parent in (Path(), Path("parts")) for name in FILES)


@pytest.mark.parametrize("script", Script)
def test_a_number_is_checked_in_one_way(script: Script) -> None:
    """What becomes a Lua number out of an argument is `whole`."""
    assert not re.search(r"tonumber\(ARGV", source.code(scripts.text(script).decode()))
