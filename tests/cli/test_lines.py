"""Blocks of lines and the number of distinct names: what is independent of Redis."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters.cli.counting import lines
from redis_counters.cli.counting.distinct import Distinct
from redis_counters.cli.counting.lines import LineTooLongError
from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import UsageError

texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\x0b", b"\xff", b"\x00"]), max_size=30).map(b"".join)


@given(text=texts, block=st.integers(1, 9))
def test_blocks_hold_every_line_once(text: bytes, block: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the size of a block, the lines are those of the text, and the sizes add up to it."""
    path = tmp_path_factory.getbasetemp() / "text"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as patch, Stop() as stop:
        patch.setattr(lines, "BLOCK", block)
        source = lines.check(os.fsencode(path))
        found = list(lines.blocks(source, stop))
    assert source.size == len(text)
    expected = text.removesuffix(b"\n").split(b"\n") if text else []
    assert [line for block, _ in found for line in block] == expected
    assert sum(size for _, size in found) == len(text)


@pytest.mark.parametrize("block", [1, 5, 10])
def test_the_limit_does_not_depend_on_the_blocks(tmp_path: Path, block: int) -> None:
    """A line of exactly the limit is read, a longer one never is, with or without its newline."""
    path = tmp_path / "text"
    path.write_bytes(b"")
    source = lines.check(os.fsencode(path))
    with pytest.MonkeyPatch.context() as patch, Stop() as stop:
        patch.setattr(lines, "BLOCK", block)
        patch.setattr(lines, "MAX_LINE", 10)
        path.write_bytes(b"a\n" + b"x" * 10 + b"\n" + b"y" * 10)
        assert [line for block, _ in lines.blocks(source, stop) for line in block] == [b"a", b"x" * 10, b"y" * 10]
        for end in (b"\n", b"", b"\nb\n"):
            path.write_bytes(b"a\n" + b"x" * 11 + end)
            seen: list[bytes] = []
            with pytest.raises(LineTooLongError):
                seen.extend(line for block, _ in lines.blocks(source, stop) for line in block)
            assert seen == [b"a"]


def test_a_named_pipe_is_not_opened_by_the_check(tmp_path: Path) -> None:
    """To look at a pipe would wait for its writer, or end it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    source = lines.check(os.fsencode(path))
    assert source.size is None


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read every file")
def test_permission(tmp_path: Path) -> None:
    """A file that may not be read is told by the check."""
    path = tmp_path / "secret"
    path.touch(mode=0o000)
    with pytest.raises(UsageError, match="Permission denied"):
        lines.check(os.fsencode(path))


@pytest.mark.parametrize("number", [0, 1, 1000])
def test_distinct_is_exact_up_to_its_limit(number: int) -> None:
    """Names that come again do not count again."""
    distinct = Distinct(limit=1000)
    for _ in range(2):
        distinct.add(b"%d" % i for i in range(number))
    assert (int(distinct), distinct.exact) == (number, True)
    assert str(distinct) == f"{number:,}"


def test_distinct_estimates_beyond_its_limit() -> None:
    """A hundred times its limit of names, and it is off by less than 20 %, five standard errors and more."""
    distinct = Distinct(limit=1000)
    for start in range(0, 100_000, 500):
        distinct.add(b"%d" % i for i in range(start, start + 1000))
    assert not distinct.exact
    assert abs(int(distinct) - 100_500) < 20_100
    assert str(distinct).startswith("≈ ")
    assert len(distinct._kept) <= 1000
