"""Answers of Redis as what was asked for: a script's reply, or a list; anything else is raised."""

from __future__ import annotations

from redis_counters.protocol.wire.commands import CONTRACTS, ErrorReply, NoAnswer, Script
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply, Reply


def reply_of(raw: object, script: Script) -> Reply:
    """Return what a script replied. Raises BadReply, and what Redis refuses."""
    if isinstance(raw, ErrorReply):
        raise error_for(raw, script)
    if isinstance(raw, NoAnswer):
        raise raw.error
    return Reply(raw, CONTRACTS[script].replies)


def list_of(raw: object, length: int | None = None, key: bytes | None = None) -> list[object]:
    """Return the answer as a list, of that length. Raises BadReply, and what Redis refuses (of ``key``)."""
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None, key)
    if isinstance(raw, NoAnswer):
        raise raw.error
    if not isinstance(raw, (list, tuple)) or len(raw) != (len(raw) if length is None else length) or not raw:
        raise BadReply(f"expected a list, got {type(raw).__name__}")
    return list(raw)


def all_answered(answers: list[object]) -> list[object]:
    """Return them. Raises the error of one that there is no answer of."""
    for answer in answers:
        if isinstance(answer, NoAnswer):
            raise answer.error
    return answers
