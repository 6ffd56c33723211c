"""The rights that check-a-server.md names are enough for what it says, and those of counting are not."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import Counters, Exchange, Refused
from tests.docs.pages import ROOT, section, table
from tests.servers import RealServer

TEXT = section((ROOT / "docs" / "howto" / "check-a-server.md").read_text(), "A user with just enough rights")
COUNTING = TEXT.split("SETUSER counting on >secret ")[1].splitlines()[0].split()
SHARDS = 4


def reshard(url: str) -> None:
    command = [sys.executable, "-m", "redis_counters", "reshard", "narrow", "1", "--shrink", "--reassert-window", "0.2"]
    done = subprocess.run([*command, "--url", url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def in_shards(url: str) -> None:
    with Counters.from_url(url) as counters:
        counters.counter("narrow", shards=SHARDS).incr()


def expires(url: str) -> None:
    with Counters.from_url(url) as counters:
        counters.counter("expires", expire_at=time.time() + 100).incr()
        counters.flush()


def taken_away(url: str) -> None:
    with Counters.from_url(url) as counters:
        counters.incr("taken away")
        assert counters.reset("taken away")
        assert counters.delete("taken away") == 0


def in_a_narrowed_one(url: str) -> None:
    with Counters.from_url(url) as counters:
        handle = counters.counter("narrow", shards=SHARDS)
        handle.incr()
        counters.flush()
        assert handle.value(max_age=0)


def counting(url: str) -> None:
    with Counters.from_url(url) as counters:
        counters.incr("exchanged")
        counters.flush()


def nothing(url: str) -> None: ...


def narrowed(url: str) -> None:
    in_shards(url)
    reshard(url)


USES: dict[
    str, tuple[Callable[[str], None], Callable[[str], None]]
] = {  # what is done before with all rights, and what is tried
    "counters with `expire_at`": (nothing, expires),
    "`reset` and `delete`": (nothing, taken_away),
    "`reshard --shrink`": (in_shards, reshard),
    "counting in such counters, and reading them": (narrowed, in_a_narrowed_one),
    "counting where regions exchange what they have": (nothing, counting),
    "`reset` and `delete` where regions do": (nothing, taken_away),
}
ROWS = {re.sub(r"\[(.+?)\]\(.+?\)", r"\1", row["for"]): re.findall(r"\+\w+", row["besides"]) for row in table(TEXT)}


@pytest.mark.every(3, "a command each")
@pytest.mark.parametrize("use", USES)
def test_they_are_enough(use: str, private_server: RealServer, any_server: RealServer) -> None:
    before, work = USES[use]
    before(private_server.url)
    if "regions" in use:
        with Exchange({"eu": private_server.url, "us": any_server.url}) as exchange:
            exchange.run_once()
    admin: Any = private_server.client()
    url = private_server.url.replace("://", "://limited:secret@")
    admin.execute_command("ACL", "SETUSER", "limited", "on", ">secret", *COUNTING)
    with pytest.raises((Refused, AssertionError)):
        work(url)
    admin.execute_command("ACL", "SETUSER", "limited", *ROWS[use])
    work(url)


def test_every_row_is_tried() -> None:
    """But for those that the pages themselves try: a user with such a line, in full."""
    assert ROWS.keys() - USES.keys() == {"the exchange", "keys, bounded counters, likes, and what is adopted"}
