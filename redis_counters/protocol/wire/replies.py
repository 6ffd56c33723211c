"""A script's answer: a word, then values. Clients differ in what they make of a reply; here it is one thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redis_counters.errors import Unavailable, quoted

MAX_NUMBER = 2**53  # numbers of flushes are Lua numbers


class BadReply(Unavailable):
    """Something answered that is not one of our scripts: a proxy, a broken peer. Nothing is taken from it."""


class Reply:
    """A script's answer: its upper-case word and the values behind it, as bytes or int, whatever the client decodes."""

    __slots__ = ("values", "word")

    def __init__(self, raw: object, expected: Sequence[str]) -> None:
        if not isinstance(raw, (list, tuple)) or not raw:
            raise BadReply(f"expected one of {', '.join(expected)}, got {type(raw).__name__}")
        word = raw[0]
        self.word = word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)
        if self.word not in expected:
            raise BadReply(f"expected one of {', '.join(expected)}, got {quoted(self.word[:40])}")
        self.values = raw[1:]

    def number(self, index: int) -> int:
        """Return a value that is a sequence number (never a count)."""
        try:
            number = int(self.values[index])
        except (IndexError, TypeError, ValueError):
            raise BadReply(f"{self.word} came without its number {index + 1}") from None
        if not 0 <= number < MAX_NUMBER:
            raise BadReply(f"{self.word} came with {number} as its number {index + 1}")
        return number

    def numbers(self) -> list[int]:
        return [self.number(i) for i in range(len(self.values))]

    def text(self, index: int) -> bytes:
        try:
            value = self.values[index]
        except IndexError:
            raise BadReply(f"{self.word} came without its value {index + 1}") from None
        return value if isinstance(value, bytes) else str(value).encode()

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """Yield (item number, text) from a list of them."""
        if len(self.values) % 2:
            raise BadReply(f"{self.word} came with {len(self.values)} values: an item without its text")
        for i in range(0, len(self.values), 2):
            yield self.number(i), self.text(i + 1)

    def refused(self, behind: int = 1) -> Iterator[tuple[int, str]]:
        """Yield (item number, error text) from the list behind the first value, or so many."""
        if (len(self.values) - behind) % 2:
            raise BadReply(f"{self.word} came with {len(self.values)} values: an item without its error")
        for i in range(behind, len(self.values), 2):
            yield self.number(i), self.text(i + 1).decode("utf-8", "replace")
