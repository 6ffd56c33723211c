"""The pages, and what stands in one: code blocks, links, headings, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


class PageError(AssertionError):
    """A page is not as it should be; the message says where."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block. ``output``: the block of language text right behind it, which is what it prints."""

    line: int
    language: str
    text: str
    output: str | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A run of lines: a code block (with a language), or prose (``language`` is None)."""

    line: int
    language: str | None
    text: str


def _parts(text: str) -> Iterator[_Part]:
    lines: list[str] = []
    begin, language = 1, None
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            if not line.startswith("```"):
                raise PageError(f"line {number}: write code blocks as ```language at the beginning of a line")
            yield _Part(begin, language, "".join(f"{line}\n" for line in lines))
            lines, begin = [], number + 1
            language = line[3:].strip() if language is None else None
        else:
            lines.append(line)
    if language is not None:
        raise PageError(f"line {begin - 1}: this code block is not closed")
    yield _Part(begin, None, "".join(f"{line}\n" for line in lines))


def blocks(text: str) -> list[Block]:
    """Return the code blocks in order, each with its output."""
    found: list[Block] = []
    near = False  # nothing but blank lines since the last block
    for part in _parts(text):
        if part.language is None:
            near = near and not part.text.strip()
        elif part.language == "text":
            if not found or not near or found[-1].output is not None:
                raise PageError(f"line {part.line}: a text block must be the output of the code block before it")
            last = found.pop()
            found.append(Block(last.line, last.language, last.text, part.text))
        else:
            found.append(Block(part.line, part.language, part.text))
            near = True
    return found


def prose(text: str) -> str:
    """Return the page without its code blocks and without code in single backticks."""
    joined = "".join(part.text for part in _parts(text) if part.language is None)
    return re.sub(r"`[^`]+`", "", joined)


def links(text: str) -> list[str]:
    """Return the targets of links and pictures."""
    return re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", prose(text))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    found: set[str] = set()
    joined = "".join(part.text for part in _parts(text) if part.language is None)
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", joined, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number, anchor = 0, slug
        while anchor in found:
            number += 1
            anchor = f"{slug}-{number}"
        found.add(anchor)
    return found


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,6}} |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise PageError(f"there is no heading {heading!r}")
    return found[2]


def table(text: str) -> list[dict[str, str]]:
    """Return the first table's rows: cell by column name. A bar in a cell is written with a backslash before it."""
    rows = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        for line in re.findall(r"^\|.*$", text, re.MULTILINE)
    ]
    if len(rows) < 3:
        raise PageError("there is no table")
    heads, _, *body = rows
    # A second table below begins with a row of its own that has dashes under it.
    end = next((i - 1 for i, row in enumerate(body) if set("".join(row)) <= set("-: ")), len(body))
    return [dict(zip(heads, row, strict=True)) for row in body[:end]]


def code(cell: str) -> str:
    """Return what the cell shows as code: the text between its first two backticks."""
    return cell.split("`")[1] if cell.count("`") >= 2 else ""
