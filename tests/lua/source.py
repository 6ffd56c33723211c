"""Just enough reading of Lua to hold the scripts to their rules: which commands they run, on which keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

KEYLESS = frozenset({"TIME", "INFO"})
KEY_NAMES = ("registry", "meta", "index", "key", "marks")
FROM_KEYS = re.compile(rf"(?:unpack\()?KEYS\b|changes\.(?:{'|'.join(KEY_NAMES)})$")


def code(text: str) -> str:
    """Return the text without comments."""
    return re.sub(r"--[^\n]*", "", re.sub(r"--\[\[.*?\]\]", "", text, flags=re.DOTALL))


def calls(text: str, names: str) -> Iterator[list[str]]:
    """Yield the arguments of every call of a function whose name matches; its definition is none."""
    bare = code(text)
    for found in re.finditer(rf"(?<![\w])(?<!function )(?:{names})\(", bare):
        yield _arguments(bare, found.end())


def _arguments(text: str, start: int) -> list[str]:
    depth, arguments, current, quoted = 0, [], "", False
    for char in text[start:]:
        if char == "'":
            quoted = not quoted
        if not quoted and char in "([{":
            depth += 1
        if not quoted and char in ")]}":
            depth -= 1
            if depth < 0:
                break
        if char == "," and not quoted and depth == 0:
            arguments.append(current.strip())
            current = ""
        else:
            current += char
    return [*arguments, current.strip()]


def keys_not_from_keys(text: str) -> list[str]:
    """Return what stands for a key in a call of Redis and is not, by its name or its origin, one of KEYS."""
    bare, wrong = code(text), []
    for command, *arguments in calls(text, r"(?:redis\.)?p?call"):
        name = command.strip("'")
        if name not in KEYLESS and not _is_key(arguments[0]):
            wrong.append(f"{name} {arguments[0]}")
    for left, right in re.findall(r"^\s*(?:local )?([\w, ]+?) = ([^\n]+)", bare, re.MULTILINE):
        names, values = re.findall(r"\w+", left), _arguments(right + ")", 0)
        for name, value in zip(names, values, strict=False):
            if name in KEY_NAMES and value != name and not FROM_KEYS.match(value):
                wrong.append(f"{name} = {value}")
    for function, parameters in re.findall(r"function (\w+)\(([^)]*)\)", bare):
        for place, name in enumerate(re.findall(r"\w+", parameters)):
            if name in KEY_NAMES:
                given = [arguments[place] for arguments in calls(text, function)]
                wrong.extend(f"{function}({one})" for one in given if not _is_key(one))
    return wrong


def _is_key(argument: str) -> bool:
    return argument in KEY_NAMES or bool(re.match(r"KEYS\[[^]]+\]$|unpack\(KEYS, ", argument))
