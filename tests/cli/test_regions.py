"""``exchange``, ``regions`` and ``verify``: two regions and more, from a shell."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.cli.regional.pairs import Pair
from redis_counters.cli.regional.traffic import traffic, versions
from redis_counters.cli.regional.urls import transports
from redis_counters.cli.regions import _cells
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.testing import LossyLink
from tests.cli.commands import COMMAND, TIMEOUT, environment, run, start
from tests.cli.terminals import on_terminal
from tests.faces.either import commandstats, reset_stats
from tests.servers import NOWHERE, Kind, RealServer, kinds
from tests.topologies import Cluster
from tests.waiting import until


@pytest.fixture
def servers(any_kind: Kind, kinds_running: Callable[[], list[RealServer]]) -> list[RealServer]:
    """Three empty servers."""
    found = kinds_running()
    for server in found:
        server.client().flushall()
    return found


@pytest.fixture(scope="module")
def kinds_running() -> Iterator[Callable[[], list[RealServer]]]:
    """Three servers for this module, started when first asked for."""
    started: list[RealServer] = []

    def get() -> list[RealServer]:
        while len(started) < 3:
            started.append(RealServer.start(kinds()[len(started) % len(kinds())]))
        return started

    yield get
    for server in started:
        server.stop()


def arguments(servers: list[RealServer], *names: str) -> list[str]:
    names = names or ("eu", "us", "ap")[: len(servers)]
    return [word for name, server in zip(names, servers, strict=True) for word in ("--region", f"{name}={server.url}")]


def add(server: RealServer, name: str, amount: int) -> None:
    with Counters.from_url(server.url) as counters:
        counters.add(name, amount)


def value(server: RealServer, name: str) -> int:
    with Counters.from_url(server.url) as counters:
        return int(counters.get(name, max_age=0))


def told(*words: str, code: int = 0) -> Any:
    """The object that a command prints with --json."""
    done = run(None, *words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def exchange(servers: list[RealServer]) -> None:
    done = run(None, "exchange", "--once", *arguments(servers))
    assert done.returncode == 0, done.stderr


def ended_by(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> None:
    """It has ended well, as it was told to."""
    process.send_signal(number)
    assert process.wait(TIMEOUT) == 0


# -- the option --region


@pytest.mark.every(2, "a command each")
@pytest.mark.parametrize("command", ["exchange", "verify"])
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], b"$REDIS_COUNTERS_REGIONS: two regions at least, got 0"),
        (["eu=redis://:secret@localhost"], b"two regions at least, got 1"),
        (["eu=redis://:secret@a,us=redis://:secret@b"], b"stands a blank, and nothing else"),
        (["eu=redis://:secret@a;us=redis://:secret@b"], b"stands a blank, and nothing else"),
        (["eu=redis://:secret@a", "eu=redis://:secret@b"], b"eu is named twice"),
        (["eu=", "us=redis://:secret@b"], b"eu has no URL"),
        (["redis://:secret@a", "us=redis://:secret@b"], b"is NAME=URL"),
        (["redis://a?password=secret", "us=redis://:secret@b"], b"is NAME=URL"),
        (["e/u=redis://:secret@a", "us=redis://:secret@b"], b"name must be 1 to 64 of"),
        (["eu=redis://:secret@a", "us=rodeo://:secret@b"], b"us"),
    ],
)
def test_what_is_no_region_is_refused(command: str, given: list[str], complaint: bytes) -> None:
    """Wrong usage, and no password in what is said about it."""
    done = run(None, command, *(word for region in given for word in ("--region", region)))
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaint in done.stderr
    assert b"secret" not in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_regions_before_the_command_are_refused() -> None:
    """There `--region` is the name that one deployment has; the password is not repeated."""
    done = run(None, "--region", "eu=redis://:secret@a", "--region", "us=redis://:secret@b", "verify")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"after the command" in done.stderr
    assert b"secret" not in done.stderr


@pytest.mark.every(3, "a command each")
@pytest.mark.parametrize("link", ["eu", "eu:eu", "eu:ap", "eu:us:eu", ":"])
def test_a_link_is_between_two_of_the_regions(link: str) -> None:
    done = run(None, "exchange", "--region", "eu=redis://a", "--region", "us=redis://b", "--link", link)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--link: two of eu, us" in done.stderr


def test_a_region_without_a_link_is_refused() -> None:
    regions = [word for name in ("eu", "us", "ap") for word in ("--region", f"{name}=redis://{name}")]
    done = run(None, "exchange", *regions, "--link", "eu:us")
    assert done.returncode == 2
    assert b"no link leads to ap" in done.stderr


# -- exchange


def test_once_brings_all_regions_to_the_same_value(servers: list[RealServer]) -> None:
    for server, amount in zip(servers, (5, 7, -2), strict=True):
        add(server, "likes", amount)
    found = told("exchange", "--once", *arguments(servers))
    assert [value(server, "likes") for server in servers] == [10, 10, 10]
    assert {(pair["from"], pair["to"]) for pair in found["pairs"]} == {
        (a, b) for a in ("eu", "us", "ap") for b in ("eu", "us", "ap") if a != b
    }
    assert all(pair["lag"] is not None and pair["last_error"] is None for pair in found["pairs"])
    exchange(servers)
    assert [value(server, "likes") for server in servers] == [10, 10, 10]


def test_regions_come_from_the_environment_too(servers: list[RealServer]) -> None:
    add(servers[0], "likes", 3)
    regions = " ".join(f"{name}={server.url}" for name, server in zip(("eu", "us"), servers, strict=False))
    done = subprocess.run(
        [*COMMAND, "exchange", "--once"],
        env=environment(None, REDIS_COUNTERS_REGIONS=regions),
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert lines[0][:4] == ["from", "to", "lag", "entries"]
    assert sorted(line[:2] for line in lines[1:]) == [["eu", "us"], ["us", "eu"]]
    assert value(servers[1], "likes") == 3


def test_along_links_all_hear_of_all(servers: list[RealServer]) -> None:
    """A star: the two at its ends hear of each other by the one in the middle."""
    add(servers[1], "likes", 3)
    for _ in range(2):
        found = told("exchange", "--once", *arguments(servers), "--link", "eu:us", "--link", "eu:ap")
        asked = {(pair["from"], pair["to"]) for pair in found["pairs"]}
        assert asked == {("eu", "us"), ("us", "eu"), ("eu", "ap"), ("ap", "eu")}
    assert [value(server, "likes") for server in servers] == [3, 3, 3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow("it goes on for a while")
def test_it_goes_on_until_a_signal(servers: list[RealServer], number: signal.Signals) -> None:
    """Quiet in a pipe, and it ends cleanly."""
    process = start(servers[0], "exchange", *arguments(servers[:2]))
    add(servers[0], "likes", 4)
    until(lambda: value(servers[1], "likes") == 4, "what is counted here comes there")
    add(servers[1], "likes", 5)
    until(lambda: value(servers[0], "likes") == 9, "and what is counted there")
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_with_json_it_prints_lines(servers: list[RealServer]) -> None:
    add(servers[0], "likes", 4)
    process = start(servers[0], "exchange", *arguments(servers[:2]), "--json")
    assert process.stdout is not None
    while True:
        line = json.loads(process.stdout.readline())
        if any(pair["entries"] for pair in line["pairs"]) and line["lag"] is not None:
            break
    ended_by(process)


@pytest.mark.slow("waits for a region that is down")
def test_a_region_that_is_down_is_told_of_and_delays_nothing(servers: list[RealServer]) -> None:
    nowhere = ["--region", f"ap=redis://:secret@127.0.0.1:{NOWHERE}"]
    add(servers[0], "likes", 4)
    done = run(None, "exchange", "--once", *arguments(servers[:2]), *nowhere)
    assert done.returncode == 1
    assert b"ap" in done.stderr
    assert b"secret" not in done.stderr
    process = start(servers[0], "exchange", *arguments(servers[:2]), *nowhere)
    until(lambda: value(servers[1], "likes") == 4, "the others go on")
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith(b"redis-counters: ")
    assert b"ap" in line
    assert b"secret" not in line
    ended_by(process)


@pytest.mark.slow("waits for a region that is down")
def test_a_region_that_is_back_is_told_of(servers: list[RealServer]) -> None:
    """In words: which way it was is not enough."""
    link = LossyLink(servers[1].url)
    regions = ["--region", f"eu={servers[0].url}", "--region", f"us={link.url}"]
    with link:
        exchange(servers[:2])
        link.stop()
        process = start(servers[0], "exchange", *regions)
        assert process.stderr is not None
        failed = process.stderr.readline()
        link.start()
        recovered = process.stderr.readline()
        while recovered.startswith(b"redis-counters: exchange failed"):
            recovered = process.stderr.readline()
        ended_by(process)
    assert failed.startswith(b"redis-counters: exchange failed: ")
    assert recovered.startswith(b"redis-counters: exchange recovered: ")


def test_on_a_terminal_there_is_a_table(servers: list[RealServer]) -> None:
    add(servers[0], "likes", 4)
    with on_terminal(start, servers[0], "exchange", *arguments(servers[:2])) as terminal:
        terminal.wait_for(b"entries exchanged")
        terminal.wait_for(b"bytes/entry")
        ended_by(terminal.process, signal.SIGINT)
    assert b"Traceback" not in terminal.seen


def test_at_the_end_of_once_a_column_without_errors_is_left_out_on_a_terminal(servers: list[RealServer]) -> None:
    """80 columns are no more than the others need."""
    with on_terminal(start, servers[0], "exchange", "--once", *arguments(servers[:2]), streams=("stdout",)) as terminal:
        assert terminal.process.wait(TIMEOUT) == 0
    assert b"failures" in terminal.seen
    assert "┃┃".encode() not in terminal.seen


# -- regions


@pytest.mark.slow("clusters")
def test_a_cluster_and_a_single_server(servers: list[RealServer], any_cluster: Cluster) -> None:
    """One region is a cluster of three primaries: exchanged, listed and compared like others."""
    where = [f"--region=eu={any_cluster.url}", f"--region=us={servers[0].url}"]
    with Counters.from_url(any_cluster.url) as counters:
        for number in range(200):
            counters.incr(f"name:{number}", 2)
    assert run(None, "exchange", "--once", *where).returncode == 0
    add(servers[0], "name:7", 1)
    found = told("regions", "list", "name:7", *where)
    assert [pair["behind"] for pair in found["pairs"]] == [1, 0]
    assert found["counters"] == [{"name": "name:7", "values": {"eu": 2, "us": 3}, "read_skew": 1}]
    assert differences(*where) == [("name:7", "eu", "us", 1, "not_pulled")]
    assert run(None, "exchange", "--once", *where).returncode == 0
    assert told("verify", *where)["shards"] == 200


@pytest.mark.slow("several commands")
def test_an_entry_has_one_size(servers: list[RealServer]) -> None:
    """In the figures of an exchange, and in the list: the size of its name and its text."""
    add(servers[0], "likes", 4)
    once = told("exchange", "--once", *arguments(servers[:2]))
    listed = told("regions", "list", *arguments(servers[:2]))
    size = len(f"0:likes0 0 eu/{'12345'}.0,4")
    (pulled,) = [pair["bytes_per_entry"] for pair in once["pairs"] if pair["from"] == "eu"]
    (changed,) = [pair["bytes_per_entry"] for pair in listed["pairs"] if pair["peer"] == "eu"]
    assert pulled == changed == size
    assert once["pairs"][0]["lag"] == 0


@pytest.mark.slow("several commands")
def test_list_shows_who_takes_part_and_how_far_apart_they_are(servers: list[RealServer]) -> None:
    add(servers[0], "likes", 4)
    exchange(servers[:2])
    add(servers[0], "likes", 3)
    found = told("regions", "list", "likes", *arguments(servers[:2]))
    assert [(pair["region"], pair["peer"], pair["state"]) for pair in found["pairs"]] == [
        ("eu", "us", "member"),
        ("us", "eu", "member"),
    ]
    assert [pair["behind"] for pair in found["pairs"]] == [0, 1]
    assert all(pair["lag"] is not None for pair in found["pairs"])
    assert found["pairs"][1]["bytes_per_entry"] > len("0:likes")
    assert found["counters"] == [{"name": "likes", "values": {"eu": 7, "us": 4}, "read_skew": 3}]
    plain = run(None, "regions", "list", "likes", *arguments(servers[:2]))
    assert b"likes\t7\t4\t3\n" in plain.stdout


def an_hour_passes(server: RealServer) -> None:
    """What a region keeps of times says that all of it was an hour earlier."""
    client: Any = server.client()
    for key in client.scan_iter("{rc:*}:m"):
        for field, value in client.hgetall(key).items():
            if field[:2] in (b"t:", b"h:"):
                at, *rest = value.split(b" ")
                client.hset(key, field, b" ".join([b"%d" % (int(at) - 3_600_000), *rest]))
    for key in client.scan_iter("{rc:*}:a"):
        if moments := client.hget(key, "h"):
            earlier = (b"%b:%d" % (v, int(at) - 3600) for v, at in (each.split(b":") for each in moments.split(b" ")))
            client.hset(key, "h", b" ".join(earlier))


@pytest.mark.slow("eight commands")
def test_lag_is_the_age_of_the_oldest_change_that_is_not_told(servers: list[RealServer]) -> None:
    """No exchange runs any more: what was counted last waits since then, and not since the exchange ended."""
    add(servers[0], "likes", 4)
    add(servers[0], "often", 4)
    exchange(servers[:2])
    exchange(servers[:2])  # (then each knows that the other has all)
    for server in servers[:2]:
        an_hour_passes(server)
    us, eu = 1, 0
    pairs = told("regions", "list", *arguments(servers[:2]))["pairs"]
    assert [pair["lag"] for pair in pairs] == [0, 0]
    assert all(3600 <= pair["heartbeat"] < 3700 for pair in pairs)
    assert pairs[0]["exchange"] == pairs[1]["exchange"]
    assert all(abs(pair["clock_skew"]) < 2 for pair in pairs)
    add(servers[0], "likes", 3)
    pairs = told("regions", "list", *arguments(servers[:2]))["pairs"]
    assert [pair["behind"] for pair in pairs] == [0, 1]
    assert pairs[eu]["lag"] == 0
    assert 0 < pairs[us]["lag"] < 100
    for server in servers[:2]:
        an_hour_passes(server)
    for _ in range(3):
        add(servers[0], "often", 1)
    pairs = told("regions", "list", *arguments(servers[:2]))["pairs"]
    assert 3600 <= pairs[us]["lag"] < 3700
    plain = run(None, "regions", "list", *arguments(servers[:2]))
    assert b"eu\tus\tmember\t0.0 s\t0\t72" in plain.stdout
    exchange(servers[:2])
    pairs = told("regions", "list", *arguments(servers[:2]))["pairs"]
    assert [pair["lag"] for pair in pairs] == [0, 0]
    assert all(pair["heartbeat"] < 100 for pair in pairs)


@pytest.mark.parametrize("name", ["main", "eu"])
def test_before_anything_was_exchanged_nobody_knows_anybody(servers: list[RealServer], name: str) -> None:
    """Who has named no region yet may be given any name, as an exchange does."""
    add(servers[0], "likes", 4)
    found = told("regions", "list", "likes", *arguments(servers[:2], name, "us"))
    assert [(pair["state"], pair["lag"]) for pair in found["pairs"]] == [("unknown", None)] * 2
    assert found["counters"] == [{"name": "likes", "values": {name: 4, "us": 0}, "read_skew": 4}]
    assert servers[1].client().dbsize() == 0


@pytest.mark.parametrize("command", [["regions", "list"], ["verify"]])
def test_a_region_under_another_name_is_told_of(servers: list[RealServer], command: list[str]) -> None:
    exchange(servers[:2])
    done = run(None, *command, *arguments(servers[:2], "us", "ap"))
    assert done.returncode == 1
    assert b"region us: the deployment given as region 'us' takes part as 'eu' already" in done.stderr


def test_a_region_that_does_not_answer_is_told_of(servers: list[RealServer]) -> None:
    exchange(servers[:2])
    add(servers[0], "likes", 3)
    away = ["--region", f"ap=redis://:secret@127.0.0.1:{NOWHERE}"]
    words = ["regions", "list", "likes", *arguments(servers[:2]), *away]
    found = told(*words, code=1)
    assert list(found["errors"]) == ["ap"]
    assert "secret" not in found["errors"]["ap"]
    assert found["counters"] == [{"name": "likes", "values": {"eu": 3, "us": 0}, "read_skew": None}]
    assert b"likes\t3\t0\t?\n" in run(None, *words).stdout


@pytest.mark.slow("six commands")
def test_add_and_evict(servers: list[RealServer]) -> None:
    """A third region is added, and takes part; evicted, it is told nothing more, and what it counted stays."""
    exchange(servers[:2])
    add(servers[2], "likes", 5)
    assert run(None, "regions", "add", "ap", *arguments(servers)).returncode == 0
    exchange(servers)
    assert value(servers[0], "likes") == 5
    found = told("regions", "evict", "ap", *arguments(servers[:2]))
    assert {region["region"]: region["state"] for region in found["regions"]}["ap"] == "evicted"
    add(servers[0], "likes", 1)
    exchange(servers[:2])
    assert [value(server, "likes") for server in servers] == [6, 6, 5]
    pairs = told("regions", "list", *arguments(servers[:2]))["pairs"]
    assert {(pair["region"], pair["peer"]): pair["state"] for pair in pairs}["eu", "ap"] == "evicted"


def test_nothing_is_known_of_regions_that_do_not_answer() -> None:
    """Neither that a name is unknown, nor that values do not differ."""
    regions = [word for name in ("eu", "us") for word in ("--region", f"{name}=redis://127.0.0.1:{NOWHERE}")]
    done = run(None, "regions", "evict", "ap", *regions)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"whether 'ap' is a region is not known, for none answers; eu: Redis is not reachable" in done.stderr
    assert told("regions", "list", "likes", *regions, code=1)["counters"][0]["read_skew"] is None
    assert b"likes\t?\n" in run(None, "regions", "list", "likes", *regions).stdout


@pytest.mark.slow("five commands")
def test_an_evicted_region_comes_back(servers: list[RealServer]) -> None:
    """What it counted meanwhile counts once."""
    add(servers[2], "likes", 5)
    exchange(servers)
    assert run(None, "regions", "evict", "ap", *arguments(servers)).returncode == 0
    add(servers[2], "likes", 2)
    add(servers[0], "likes", 10)
    assert run(None, "regions", "add", "ap", *arguments(servers)).returncode == 0
    exchange(servers)
    exchange(servers)
    assert [value(server, "likes") for server in servers] == [17, 17, 17]


def test_what_is_to_be_done_with_whom(servers: list[RealServer]) -> None:
    for words, complaint in (
        (["evict"], b"evict which region?"),
        (["add", "xx"], b"URL of xx"),
        (["drop"], b"drop"),
        (["renew"], b"renew which region?"),
        (["renew", "xx"], b"renew needs the URLs"),
    ):
        done = run(None, "regions", *words, *arguments(servers))
        assert done.returncode == 2
        assert complaint in done.stderr


@pytest.mark.parametrize("command", [["exchange", "--once"], ["verify"], ["regions", "list"]])
def test_a_record_that_is_something_else_is_named_as_a_key(servers: list[RealServer], command: list[str]) -> None:
    """And not as a counter of that name."""
    servers[1].client().set("rc:meta", "x")
    done = run(None, *command, *arguments(servers[:2]))
    assert done.returncode == 1
    assert b"region us: the key 'rc:meta' holds something else" in done.stderr


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("exchanged", [False, True])
def test_regions_with_different_numbers_of_buckets_are_listed(servers: list[RealServer], exchanged: bool) -> None:
    """It names the two regions, and compares the others; also where one was emptied and settled anew."""
    for server in servers:
        add(server, "likes", 1)
    run(None, "exchange", "--once", *(arguments(servers) if exchanged else arguments(servers[::2], "eu", "ap")))
    us = servers[1]
    us.client().flushall()
    with Counters.from_url(us.url, buckets=64) as counters:
        counters.add("likes", 1)
    done = run(None, "regions", "list", "--json", *arguments(servers))
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert "eu has 16" in found["errors"]["us"]
    assert "us has 64" in found["errors"]["us"]
    behind = {(pair["region"], pair["peer"]): pair["behind"] for pair in found["pairs"]}
    assert behind[("eu", "ap")] == behind[("ap", "eu")] == 0
    assert behind[("eu", "us")] is None


@pytest.mark.parametrize("renew", [False, True])
@pytest.mark.slow("a dozen commands")
def test_a_region_is_restored_from_a_backup(servers: list[RealServer], renew: bool) -> None:
    """What others have of it comes back; what is counted anew is added, if it was renewed, and does not show if not."""
    eu = servers[0].client()
    add(servers[0], "likes", 80)
    exchange(servers[:2])
    backup = {key: eu.dump(key) or b"" for key in eu.scan_iter()}
    add(servers[0], "likes", 20)
    add(servers[0], "since then", 5)
    add(servers[1], "likes", 3)
    exchange(servers[:2])
    eu.flushall()
    for key, kept in backup.items():
        eu.restore(key, 0, kept)
    assert value(servers[0], "likes") == 80
    if renew:
        done = run(None, "regions", "renew", "eu", *arguments(servers[:2]))
        assert (done.returncode, done.stdout) == (0, b"eu counts on under new dots, in 2 shards\n")
    else:
        done = run(None, "exchange", "--once", *arguments(servers[:2]))
        assert b"region eu had lost counts of its own" in done.stderr
    add(servers[0], "likes", 7)
    add(servers[0], "since then", 1)
    exchange(servers[:2])
    for server in servers[:2]:
        found = value(server, "likes"), value(server, "since then")
        assert found == ((110, 6) if renew else (103, 5))
    if renew:
        assert told("verify", *arguments(servers[:2]))["equal"]
        return
    for _ in range(2):  # for good, or until it is renewed
        found = told("verify", "--wait", "0", *arguments(servers[:2]), code=1)["differences"]
        assert sorted((gap["name"], gap["region"], gap["has"], gap["lacks"], gap["why"]) for gap in found) == [
            ("likes", "eu", 87, 13, "behind"),
            ("since then", "eu", 1, 4, "behind"),
        ]
        exchange(servers[:2])
    shown = run(None, "verify", "--wait", "0", *arguments(servers[:2])).stdout
    assert b"of what it counts anew is lost, until 'regions renew'" in shown
    add(servers[0], "likes", 50)  # more than peers had: of it 13 are gone, and nothing else shows it
    exchange(servers[:2])
    assert [value(server, "likes") for server in servers[:2]] == [140, 140]
    found = told("verify", "--wait", "0", *arguments(servers[:2]), code=1)["differences"]
    assert sorted((gap["name"], gap["lacks"], gap["why"]) for gap in found) == [
        ("likes", 0, "caught_up"),
        ("since then", 4, "behind"),
    ]
    assert run(None, "regions", "renew", "eu", *arguments(servers[:2])).returncode == 0
    assert told("verify", *arguments(servers[:2]))["equal"]
    add(servers[0], "likes", 1)
    exchange(servers[:2])
    assert [value(server, "likes") for server in servers[:2]] == [141, 141]


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("gone", ["expired", "deleted"])
def test_what_expires_earlier_by_the_clock_of_a_region_is_not_lost(servers: list[RealServer], gone: str) -> None:
    """Its server is an hour ahead of the other; a key that is deleted before its time is."""
    at = time.time() + (1800 if gone == "expired" else 7200)
    with Counters.from_url(servers[0].url) as counters:
        counters.counter("likes", expire_at=at).incr(4)
    exchange(servers[:2])
    client: Any = servers[0].client()
    with LossyLink(servers[0].url) as link:
        seconds = client.time()[0] + 3600
        answer = b"*2\r\n$%d\r\n%d\r\n$1\r\n0\r\n" % (len(str(seconds)), seconds)
        link.replace_reply(answer, every=1, commands=["TIME"])
        where = ["--region", f"eu={link.url}", "--region", f"us={servers[1].url}"]
        assert client.delete(*client.scan_iter("{rc:*}:c:0:likes")) == 1
        found = told("verify", "--wait", "0", *where, code=0 if gone == "expired" else 1)
        assert [gap["why"] for gap in found["differences"]] == ([] if gone == "expired" else ["missing"])
        pairs = told("regions", "list", *where)["pairs"]
        assert [round(pair["clock_skew"] / 60) for pair in pairs] == [-60, 60]


# -- verify


def test_verify_says_that_nothing_differs(servers: list[RealServer]) -> None:
    for server in servers:
        add(server, "likes", 4)
    exchange(servers)
    done = run(None, "verify", *arguments(servers))
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        b"compared 1 shard in eu, us, ap: nothing differs\n",
        b"",
    )


def differences(*words: str) -> list[tuple[str, str, str, int, str]]:
    found = told("verify", "--wait", "0", *words, code=1)
    return [(d["name"], d["region"], d["owner"], d["lacks"], d["why"]) for d in found["differences"]]


def test_verify_says_what_differs_and_why(servers: list[RealServer]) -> None:
    """Not pulled yet; a key deleted by hand."""
    for name in ("likes", "views"):
        add(servers[0], name, 4)
    exchange(servers)
    add(servers[0], "likes", 3)
    (key,) = servers[1].client().keys("{*}:c:0:views")
    servers[1].client().delete(key)
    assert sorted(differences(*arguments(servers))) == [
        ("likes", "ap", "eu", 3, "not_pulled"),
        ("likes", "us", "eu", 3, "not_pulled"),
        ("views", "us", "eu", 4, "missing"),
    ]
    plain = run(None, "verify", "--wait", "0", *arguments(servers))
    assert plain.returncode == 1
    assert plain.stdout.startswith(b"counter\tshard\tregion")
    assert b"key missing: deleted by hand, or evicted" in plain.stdout
    assert b"compared 2 shards in eu, us, ap: 2 counters differ" in plain.stdout
    exchange(servers)
    assert run(None, "verify", *arguments(servers)).returncode == 0


def test_verify_waits_for_what_is_on_its_way(servers: list[RealServer]) -> None:
    exchange(servers[:2])
    add(servers[0], "likes", 3)
    reset_stats(servers[1])
    verifying = start(servers[0], "verify", "--wait", "60", *arguments(servers[:2]))
    until(lambda: "evalsha" in commandstats(servers[1]), "it has looked")
    exchange(servers[:2])
    out, err = verifying.communicate(timeout=TIMEOUT)
    assert (verifying.returncode, err) == (0, b"")
    assert b"nothing differs" in out


@pytest.mark.parametrize("name", ["main", "eu"])
def test_verify_says_who_has_not_joined(servers: list[RealServer], name: str) -> None:
    add(servers[0], "likes", 3)
    done = run(None, "verify", "--wait", "0", *arguments(servers[:2], name, "us"))
    assert done.returncode == 1
    assert f"{name} has not joined".encode() in done.stdout
    assert b"us has not joined" in done.stdout


def test_verify_finds_what_no_index_has(servers: list[RealServer]) -> None:
    add(servers[0], "likes", 3)
    exchange(servers[:2])
    servers[0].client().delete(*servers[0].client().keys("{*}:x"))
    found = told("verify", "--wait", "0", *arguments(servers[:2]), code=1)
    assert found["in_no_index"] == [{"name": "likes", "shard": 0, "region": "eu"}]
    assert found["equal"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.slow("six commands")
def test_what_is_only_noted_is_seen(servers: list[RealServer], known: bool) -> None:
    """Of large flushes: as behind, and as not pulled yet; new counters, and such as were pulled before."""
    names = [f"name:{n}" for n in range(2_000)]
    exchange(servers[:2])
    with Counters.from_url(servers[0].url, flush_interval=60) as counters:
        if known:
            for name in names:
                counters.incr(name)
            counters.flush()
            exchange(servers[:2])
        for name in names:
            counters.incr(name)
    found = told("regions", "list", *arguments(servers[:2]))
    assert [pair["behind"] for pair in found["pairs"]] == [0, 2_000]
    assert [pair["entries_per_second"] for pair in found["pairs"]] == [0, 0]
    assert sorted(differences(*arguments(servers[:2]))) == [(n, "us", "eu", 1, "not_pulled") for n in sorted(names)]
    assert told("verify", "--wait", "0", *arguments(servers[:2]), code=1)["in_no_index"] == []
    exchange(servers[:2])
    assert told("verify", *arguments(servers[:2]))["shards"] == 2_000


def test_what_has_yet_to_get_another_dot_is_not_pulled(servers: list[RealServer]) -> None:
    """Counters that were lost, and made again by a large flush; their names were entered, and no exchange runs.

    They will take as much on their way as before.
    """
    names, keys = [f"name:{n}" for n in range(2_000)], KeySpace(b"rc", 16)
    exchange(servers[:2])
    with transports({"eu": servers[0].url}) as by_region:
        eu, sizes = by_region["eu"], list[object]()
        for amount in (1, 3):
            servers[0].client().delete(*(keys.shard_key(name.encode(), 0)[1] for name in names))
            with Counters.from_url(servers[0].url, flush_interval=60) as counters:
                for name in names:
                    counters.add(name, amount)
            if amount == 1:
                exchange(servers[:2])
            else:
                eu.ask([Command(Script.NOTES_ENTER, (keys.registries[b], keys.index(b)), (9_999,)) for b in range(16)])
            sizes.append(traffic(keys, eu, "eu", [0] * 16, 1.0).bytes)
    assert sizes[0] == sizes[1] is not None
    assert sorted(differences(*arguments(servers[:2]))) == [(n, "us", "eu", 2, "not_pulled") for n in sorted(names)]


def test_what_is_noted_again_and_again_is_behind_once(servers: list[RealServer]) -> None:
    """Some of it stands in the index by name too, counted there before or after."""
    names = [f"name:{n}" for n in range(2_000)]
    exchange(servers[:2])
    with Counters.from_url(servers[0].url, flush_interval=3600) as counters:
        for some in (names[:3], names[:1_900], names[100:], names[::-1], names[-3:]):
            for name in some:
                counters.incr(name)
            counters.flush()
    found = told("regions", "list", *arguments(servers[:2]))
    assert [pair["behind"] for pair in found["pairs"]] == [0, 2_000]


def test_what_differs_is_asked_for_by_pages(servers: list[RealServer]) -> None:
    """Not one by one, with all that is noted each time."""
    exchange(servers[:2])
    with Counters.from_url(servers[0].url) as counters:
        for n in range(2_000):
            counters.incr(f"name:{n}")
    reset_stats(servers[0])
    assert len(differences(*arguments(servers[:2]))) == 2_000
    asked = commandstats(servers[0])
    assert asked["zrangebyscore"] < 5 * 16  # buckets, of one page each
    assert asked.get("zscore", 0) == 0


@pytest.mark.parametrize("entered", [True, False])
@pytest.mark.slow("five commands")
def test_what_has_changed_counts_as_such_though_it_is_only_noted(servers: list[RealServer], entered: bool) -> None:
    """And once, however often it was noted; not what was noted before."""
    exchange(servers[:2])
    keys, names = KeySpace(b"rc", 16), [f"name:{n}" for n in range(2_000)]
    with (
        transports({"eu": servers[0].url}) as by_region,
        Counters.from_url(servers[0].url, flush_interval=3600) as counters,
    ):

        def count(some: list[str]) -> None:
            for name in some:
                counters.incr(name)
            counters.flush()

        count([f"earlier:{n}" for n in range(2_000)])
        before = versions(keys, by_region["eu"])
        count(names)
        count(names[::-1])
        if entered:
            exchange(servers[:2])
        assert traffic(keys, by_region["eu"], "eu", before, 2.0).per_second == 1_000


@pytest.mark.slow("thousands of counters")
def test_verify_compares_many_counters_by_pages(servers: list[RealServer]) -> None:
    with Counters.from_url(servers[0].url) as counters:
        for number in range(10_000):
            counters.incr(f"name:{number}", number + 1)
    exchange(servers[:2])
    assert told("verify", *arguments(servers[:2]))["shards"] == 10_000


@pytest.mark.parametrize(("skew", "shown"), [(-0.001, "+0.0 s"), (0.0, "+0.0 s"), (-0.06, "-0.1 s"), (None, "?")])
def test_no_clock_is_ahead_by_minus_0(skew: float | None, shown: str) -> None:
    """What is rounded to nothing has no sign of its own."""
    row = Pair("eu", "us", "member", 0.0, 0, None, "", skew, None, None)
    assert _cells(row)[6] == shown
