"""``doctor`` of clocks and of exchanges, and how long what a peer lacks has been waiting: from given facts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from redis_counters.cli.checks.findings import Finding, Level
from redis_counters.cli.checks.region_findings import clock, exchange
from redis_counters.cli.doctor import examine
from redis_counters.protocol.exchange.change_index import Moment, moments_in, waiting
from redis_counters.protocol.exchange.heartbeats import EVERY, FEW, Beat, beats_in, pause
from redis_counters.testing import LossyLink
from tests.regions.support import regions

NOW = 1_000_000_000


def test_clocks_that_agree() -> None:
    assert clock({"": 1.9}, {}) == Finding("clock", Level.OK, "agrees with this machine's within 2 s")
    both = clock({"": -1.9}, {"us": 1.0, "ap": -1.0})
    assert (both.level, both.found) == (Level.OK, "agrees with this machine's within 2 s, and so do those of us, ap")


def test_clocks_that_do_not_agree() -> None:
    """Whose it is, by how much, and which way."""
    assert clock({"": 3600.2}, {}).found == "the server's is 3,600 s ahead of this machine's"
    told = clock({"a:1": 0.0, "b:2": -7.0}, {"us": -3600.0, "ap": 0.0})
    assert told.level is Level.WARNING
    assert (
        told.found
        == "the server's at b:2 is 7 s behind this machine's; that of region us is 3,600 s behind this region's"
    )
    assert "expire_at" in told.advice


def beat(source: bytes, ago: float, every: float = 60.0, by: bytes = b"host:1:a") -> Beat:
    return Beat(source, by, int(NOW - ago * 1000), NOW, int(every * 1000))


@pytest.mark.parametrize(
    ("beats", "level", "found"),
    [
        ([beat(b"us", 5)], Level.OK, "heard of 5 s ago at most, from host:1:a"),
        ([beat(b"us", 5), beat(b"us", 900, by=b"gone:2:b")], Level.OK, "heard of 5 s ago at most, from host:1:a"),
        ([beat(b"us", 209)], Level.OK, "heard of 209 s ago at most, from host:1:a"),
        ([beat(b"us", 211)], Level.WARNING, "of us: last heard of 211 s ago, from host:1:a"),
        ([beat(b"us", 31, 0)], Level.WARNING, "of us: last heard of 31 s ago, from host:1:a"),
        ([], Level.WARNING, "of us: none was ever heard of"),
        ([beat(b"ap", 5)], Level.WARNING, "of us: none was ever heard of"),
    ],
)
def test_an_exchange_that_says_nothing_any_more(beats: list[Beat], level: Level, found: str) -> None:
    """Three intervals and half a minute is what it may keep silent; one that ran once is not expected again."""
    told = exchange(["us"], beats, NOW)
    assert (told.check, told.level) == ("exchange", level)
    assert told.found.endswith(found)


def test_heartbeats_among_marks() -> None:
    """The latest first; what is none is passed over."""
    marks = {
        b"h:us a:1": b"5 9005 1",
        b"h:ap b": b"7 7 0",
        b"h:us c": b"x 1 1",
        b"<us": b"i 1 1",
        b"t:us": b"5",
        b"h:u d": b"1 1",
    }
    found = beats_in(marks)
    assert found == [Beat(b"ap", b"b", 7, 7, 0), Beat(b"us", b"a:1", 5, 9005, 1)]
    assert [each.skew for each in found] == [0, 9]


def test_heartbeats_are_rarer_where_there_are_few_buckets() -> None:
    """They are of a pair, and what a quiet pair says has its limit by bucket."""
    assert [pause(buckets) for buckets in (1, FEW, 16, 64)] == [FEW * EVERY, EVERY, EVERY, EVERY]


def test_how_long_a_change_has_been_waiting() -> None:
    """The first one behind what was told: exact where its moment is known, else between two."""
    known = (Moment(10, 1000), Moment(11, 4600), Moment(20, 4700))
    assert waiting(known, 10, 4610.0, 3610.0) == 10, "though nothing had changed for an hour"
    assert waiting(known, 12, 4710.0, None) == 110
    assert waiting(known, 12, 4710.0, 50.0) == 50, "it was not there when it was asked for"
    assert waiting(known, 12, 4710.0, 3.0) == 10, "it was there by then"
    assert waiting(known, 20, 4710.0, None) == 10
    assert waiting(known, 0, 4610.0, None) == 3610
    assert waiting((), 5, 4610.0, 7.0) == 7
    assert waiting((), 5, 4610.0, None) is None
    assert waiting(known, 10, 4000.0, None) == 0, "a clock that was set back"


def test_moments_of_a_field() -> None:
    assert moments_in(b"1:1000 25:1010") == (Moment(1, 1000), Moment(25, 1010))
    assert moments_in(b"none 1:x :5 7:8") == (Moment(7, 8),)
    assert moments_in(None) == moments_in(b"") == ()


def finding(server: Any, check: str, region: str = "eu") -> Finding:
    (found,) = [each for each in examine(server, "rc", region) if each.check == check]
    return found


def test_doctor_hears_of_exchanges() -> None:
    """Only where regions exchange what they have; a peer's clock is compared through the exchange."""
    with regions(("eu", "us")) as two:
        client: Any = two.client("eu")
        assert "exchange" not in {each.check for each in examine(client)}
        two.incr("eu", "a")
        two.flush()
        assert "exchange" not in {each.check for each in examine(client, "rc", "eu")}
        with LossyLink(two.urls["us"]) as link:
            two.urls["us"] = link.url
            seconds = client.time()[0] + 3600
            link.replace_reply(
                b"*2\r\n$%d\r\n%d\r\n$1\r\n0\r\n" % (len(str(seconds)), seconds), every=1, commands=["TIME"]
            )
            exchange = two.exchange()
            exchange.run_once()
            exchange.close()
        found = finding(client, "exchange")
        assert (found.level, "heard of 0 s ago" in found.found) == (Level.OK, True)
        skew = r"that of region us is 3,(59\d|60\d) s ahead of this region's"
        assert re.fullmatch(skew, finding(client, "clock").found)
        skews = {pair: told.clock_skew or 0 for pair, told in exchange.stats().pairs.items()}
        assert abs(skews["us", "eu"] - 3600) < 5
        assert abs(skews["eu", "us"]) < 2, "the destination's clock is that of its scripts, which stays what it is"
        (field,) = [each for each in client.hkeys("{rc:0}:m") if each.startswith(b"h:")]
        client.hset("{rc:0}:m", field, f"{(client.time()[0] - 600) * 1000} 1 60000")
        assert finding(client, "exchange").level is Level.WARNING
        client.hdel("{rc:0}:m", field)
        assert "none was ever heard of" in finding(client, "exchange").found
