"""The comment block at the head of a script, as a value; the form is that of CONTRIBUTING.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script

_BLOCK = re.compile(r"--\[\[\n(.*?)\n\]\]\n", re.DOTALL)
_SECTION = re.compile(r"(KEYS|ARGV|REPLY|ERROR|COST) +")
_NUMBERED = re.compile(r"(\d+)(\.\.)?\s+(\w+)(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Shape:
    """What follows a reply's word: so many values, then any number of groups of so many."""

    fixed: int
    group: int = 0

    def fits(self, count: int) -> bool:
        rest = count - self.fixed
        return rest >= 0 and rest % self.group == 0 if self.group else rest == 0


@dataclass(frozen=True, slots=True)
class Names:
    """Numbered keys or arguments: those that must be there, and what may follow them; empty: nothing may."""

    leading: tuple[str, ...]
    more: str


@dataclass(frozen=True, slots=True)
class Header:
    purpose: str
    keys: Names
    args: Names
    replies: dict[str, Shape]
    errors: tuple[str, ...]
    cost: str


@cache
def header(script: Script) -> Header:
    """Return the script's header. Raises: ValueError for a header that is not in form."""
    return parse(scripts.text(script).decode())


def parse(text: str) -> Header:
    """Return the header that a script's text begins with. Raises: ValueError for one that is not in form."""
    block = _BLOCK.match(text)
    if not block:
        raise ValueError("does not begin with a comment block")
    lines = block[1].split("\n")
    sections: dict[str, list[str]] = {}
    for line in lines:
        if start := _SECTION.match(line):
            if start[1] in sections:
                raise ValueError(f"{start[1]} twice")
            sections[start[1]] = [line[start.end() :]]
        elif sections:
            list(sections.values())[-1].append(line.strip())
    if list(sections) != ["KEYS", "ARGV", "REPLY", "ERROR", "COST"]:
        raise ValueError(f"sections are {', '.join(sections)}")
    return Header(
        purpose=lines[0],
        keys=_names(sections["KEYS"]),
        args=_names(sections["ARGV"]),
        replies=dict(map(_reply, _with_word(sections["REPLY"]))),
        errors=tuple(line.split()[0] for line in _with_word(sections["ERROR"])),
        cost=" ".join(sections["COST"]),
    )


def _names(lines: list[str]) -> Names:
    if lines == ["none"]:
        return Names((), "")
    leading: list[str] = []
    for line in lines:
        found = _NUMBERED.match(line)
        if not found or int(found[1]) != len(leading) + 1:
            raise ValueError(f"expected number {len(leading) + 1}, got {line!r}")
        if found[2]:
            if line != lines[-1]:
                raise ValueError(f"{line!r} is not the last")
            return Names(tuple(leading), found[3])
        leading.append(found[3])
    return Names(tuple(leading), "")


def _with_word(lines: list[str]) -> list[str]:
    return [line for line in lines if re.match(r"[A-Z]{2,}\b", line)]


def _reply(line: str) -> tuple[str, Shape]:
    """``OK seq [index error]...   what it means``: a word, values, perhaps groups; two blanks end it."""
    word, *values = re.split(r"  +", line)[0].split()
    rest = " ".join(values)
    if group := re.fullmatch(r"(.*?) ?\[([^]]+)\]\.\.\.", rest):
        return word, Shape(len(group[1].split()), len(group[2].split()))
    if repeated := re.fullmatch(r"(.*?) ?\w+\.\.\.", rest):
        return word, Shape(len(repeated[1].split()) + 1, 1)
    return word, Shape(len(values))
