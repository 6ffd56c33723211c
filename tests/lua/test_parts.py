"""What several scripts do in the same way stands once, in a part that each of them includes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from redis_counters.drivers import lua_files
from redis_counters.protocol.wire.commands import Script
from tests.lua import source

FOLDER = lua_files.lua_folder()
PARTS = sorted(path.stem for path in (FOLDER / "parts").iterdir())
INCLUDES = {
    script: re.findall(r"include.*?(\w+)\.lua", (FOLDER / f"{script.value}.lua").read_text()) for script in Script
}
LONGEST = 5  # lines of code that two files may share: what is longer is a part


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


def files() -> dict[str, str]:
    return {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*.lua")}


def test_nothing_stands_in_two_files() -> None:
    assert {run: where for run, where in runs(files()).items() if len(where) > 1} == {}


def test_what_stands_in_two_files_is_seen() -> None:
    texts = files()
    texts["another"] = texts["slots_fold.lua"] + texts["parts/sums.lua"]
    assert {"parts/sums.lua", "another"} in runs(texts).values()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_of_several_scripts(part: str) -> None:
    """Once in each, word for word, where the line stands that says so."""
    where = [script for script, parts in INCLUDES.items() if part in parts]
    assert len(where) > 1
    text = (FOLDER / "parts" / f"{part}.lua").read_text()
    assert [lua_files.text(script).decode().count(text) for script in where] == [1] * len(where)


@pytest.mark.parametrize("script", Script)
def test_every_include_is_a_part(script: Script) -> None:
    assert set(INCLUDES[script]) <= set(PARTS)
    assert "include" not in re.sub(r"--\[\[.*?\]\]", "", lua_files.text(script).decode(), flags=re.DOTALL)


def test_parts_are_no_folder_within_folders() -> None:
    """Includes are not looked for in parts."""
    assert all(Path(name).parent in (Path(), Path("parts")) for name in files())
    assert not [part for part in PARTS if "-- include" in (FOLDER / "parts" / f"{part}.lua").read_text()]


@pytest.mark.parametrize("script", Script)
def test_a_number_is_checked_in_one_way(script: Script) -> None:
    """What becomes a Lua number out of an argument is `whole`."""
    assert not re.search(r"tonumber\(ARGV", source.code(lua_files.text(script).decode()))
