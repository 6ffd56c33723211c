"""The flushes of an actor that are remembered. They say what Redis held at an earlier time.

A flush is applied on top of its base, or of a later flush that was unanswered when it was sent, whose names it carries
again. So its state is that of its base with its own totals on top; flushes that a fail-over took back are not on this
chain, though their numbers are lower. Late copies of those may move the record on again: so the first flush after a
fail-over is exact: its answer shows whether any did.
"""

from __future__ import annotations

from redis_counters.protocol.write.flushes import Chunk
from redis_counters.protocol.write.slot_totals import SlotKind

MAX_UNANSWERED = 64  # flushes that got no answer and are remembered all the same
# Slot values remembered of answered flushes, to know how far an actor got that was folded behind us.
MAX_SLOTS = 20_000

Applied = tuple[dict[bytes, int], dict[bytes, int]]
"""Totals by key, of increments and of decrements."""


class History(dict[int, Chunk]):
    """Unanswered flushes and the latest answered ones, by number."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = 0  # values in them

    def remember(self, chunk: Chunk) -> None:
        """The flush is remembered, whatever it takes."""
        self[chunk.seq] = chunk
        self.slots += len(chunk)

    def shorten(self, base: int) -> None:
        """There is not too much of it: answered flushes are forgotten, oldest first, and at last unanswered ones."""
        while self.slots > MAX_SLOTS:
            oldest = next(iter(self))
            if oldest > base and len(self) <= MAX_UNANSWERED:
                break
            self.forget(oldest)

    def forget(self, seq: int) -> None:
        """That flush is not remembered."""
        chunk = self.pop(seq, None)
        if chunk is not None:
            self.slots -= len(chunk)

    def chain(self, seq: int) -> tuple[list[int], bool]:
        """Return a flush, its base, the base of that, and so on; and whether that goes back to the beginning."""
        chain: list[int] = []
        while seq > 0:
            chunk = self.get(seq)
            if chunk is None:
                return chain, False
            chain.append(seq)
            seq = chunk.base
        return chain, True

    def applied_as_of(
        self, seq: int, base: int, held: Applied, suspects: frozenset[tuple[SlotKind, bytes]]
    ) -> tuple[Applied, bool] | None:
        """Return the totals that Redis held when it had recorded ``seq``, and whether that is exact.

        ``held``: what it held as of ``base``. None: that is too far back to know. ``suspects``: what Redis refuses now.
        A flush that had no answer may have been refused these, or whatever was refused in another one: they count as
        applied, and it is not exact.
        """
        old, old_complete = self.chain(base)
        new, new_complete = self.chain(seq)
        common = max(set(old) & set(new), default=0)
        exact = common > 0 or (old_complete and new_complete)
        if common == 0 and not new_complete:
            return None
        kept, kept_complete = self.chain(common)
        applied = (dict(held[0]), dict(held[1]))
        suspects = suspects.union(*(chunk.refused for chunk in self.values()))
        for kind in (SlotKind.PLUS, SlotKind.MINUS):
            for s in old:
                if s <= common:
                    continue
                for key in self[s].totals[kind]:  # goes back to what it was before
                    last = next((k for k in kept if key in self[k].applied(kind)), None)
                    if last is not None or kept_complete:
                        applied[kind][key] = 0 if last is None else self[last].totals[kind][key]
                    else:
                        exact = False
                    if last is not None and not self[last].answered and (kind, key) in suspects:
                        exact = False
            for s in reversed(new):
                if s > common:
                    applied_by_it = self[s].applied(kind)
                    applied[kind].update(applied_by_it)
                    if not self[s].answered and any((kind, key) in suspects for key in applied_by_it):
                        exact = False
        return applied, exact
