"""What several scripts do in the same way stands in each of them, as scripts share no code: all copies are equal."""

from __future__ import annotations

import re

import pytest

from redis_counters.drivers import lua_files
from redis_counters.protocol.commands import CONTRACTS, Script
from tests.lua import source

# Those whose first argument makes the registry's generation where there is none.
SETTLING = {script for script in Script if CONTRACTS[script].args[:1] == ("generation",)}
# Of these, those that write in any case find out at once whether they may.
WRITING = SETTLING - {Script.KEYED_OPEN}

# What to look for, so loosely that a copy that differs is found too; where it stands; what is the copy: the group.
COPIES: dict[str, tuple[str, set[Script]]] = {
    "less": (
        r"^(local function less\b.*?^end)$",
        {Script.SLOTS_MERGE, Script.SLOTS_FOLD, Script.SLOTS_SEED, Script.KEYED_OPEN},
    ),
    "whole": (
        r"^(local function whole\b.*?^end)$",
        {
            Script.ACTOR_OPEN,
            Script.ACTOR_CLOSE,
            Script.ACTORS_REAP,
            Script.ACTORS_CLEAN,
            Script.JANITOR_LEASE,
            Script.ONCE_APPLY,
            Script.SLOTS_MERGE,
            Script.SLOTS_FOLD,
        },
    ),
    "how many bases": (
        r"^local [^\n]*\bMOST_BASES = [^\n]*?(\w+)$",
        {Script.SLOTS_FOLD, Script.ONCE_APPLY, Script.LIKES_APPLY},
    ),
    "the registry is read": (r"^(local settled = [^\n]*\n[^\n]*)$", SETTLING),
    "nothing is made without a generation": (r"\b(ARGV\[1\] == '' [^\n]*)$", SETTLING),
    "the registry is made": (r"^(  generation = [^\n]*\n[^\n]*\nend)$", SETTLING),
    "the registry is written": (r"^(if generation then\n.*?^end)$", WRITING),
    "the next dot": (r"^(local highest = [^\n]*\nlocal dot\b[^\n]*), \w+$", SETTLING),
    "the dot is used": (r"call\((?='HSET', registry, 'n')(.*?)\)", SETTLING),
}


def copies(what: str, text: str) -> list[str]:
    """Return what stands in a script's text, comments left out."""
    return re.findall(COPIES[what][0], re.sub(r"\n\n+", "\n", source.code(text)), re.MULTILINE | re.DOTALL)


def text(script: Script) -> str:
    return lua_files.text(script).decode()


@pytest.mark.parametrize("what", COPIES)
def test_all_copies_are_equal(what: str) -> None:
    """Once in each script that is said to have it, in no other, and the same there."""
    _, where = COPIES[what]
    found = {script: copies(what, text(script)) for script in where}
    assert {script: len(texts) for script, texts in found.items()} == dict.fromkeys(where, 1)
    assert len({texts[0] for texts in found.values()}) == 1, found


@pytest.mark.parametrize("name", ["less", "whole", "MOST_BASES"])
def test_no_copy_is_overlooked(name: str) -> None:
    """Wherever the name is made, the table above says so."""
    what = {"MOST_BASES": "how many bases"}.get(name, name)
    made = {script for script in Script if re.search(rf"\blocal [^\n=]*\b{name}\b", source.code(text(script)))}
    assert made == COPIES[what][1]


@pytest.mark.parametrize("script", Script)
def test_a_number_is_checked_in_one_way(script: Script) -> None:
    """What becomes a Lua number out of an argument is `whole`."""
    assert not re.search(r"tonumber\(ARGV", source.code(text(script)))


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("less", "#a < #b or", "#a <= #b or"),
        ("how many bases", "MOST_BASES = 16", "MOST_BASES = 8"),
        ("the registry is read", "settled[2] or '0'", "settled[2] or '1'"),
        ("nothing is made without a generation", "{'UNKNOWN'}", "{'OK'}"),
        ("the registry is made", "'n', '0', 'c', '0'", "'n', '0'"),
        ("the registry is written", "'g', generation)", "'g', '')"),
        ("the next dot", "issued + 1", "issued + 2"),
        ("the dot is used", "'n', highest", "'n', issued"),
    ],
)
def test_a_copy_that_differs_is_seen(what: str, old: str, new: str) -> None:
    script = min(COPIES[what][1], key=lambda each: each.value)
    good = text(script)
    assert old in good
    assert len(copies(what, good.replace(old, new))) == 1
    assert copies(what, good.replace(old, new)) != copies(what, good)
