"""The parts of the exchange, without servers: what travels, how often, who may, and in which order things go out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters import Exchange, Refused, SchemaMismatch, Unavailable, UsageError
from redis_counters.errors import CounterError
from redis_counters.protocol.exchange import shard_text
from redis_counters.protocol.exchange.asks import (
    DESTINATION,
    MAX_IN_FLIGHT,
    SOURCE,
    Ask,
    Job,
    Meter,
    Receive,
    Send,
    together,
)
from redis_counters.protocol.exchange.change_index import is_note, names_in, noted_in
from redis_counters.protocol.exchange.compare import CYCLE_S, MAX_ENTERINGS, Comparison, Schedule
from redis_counters.protocol.exchange.joining import walk_over
from redis_counters.protocol.exchange.members import EVICTED, MEMBER, Member, Region, agree, spread
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.exchange.pull import _merge_refused, pull
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import NEW_REGION_TIMEOUT_S, BucketSync, Common, Options, Pace
from redis_counters.protocol.wire import marks
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.region_names import check_links
from redis_counters.protocol.wire.replies import BadReply

ENTRY = st.tuples(*[st.integers(0, 3)] * 4)
SHARDS = st.dictionaries(st.sampled_from([b"eu/0", b"eu/a.1", b"us/0"]), ENTRY, max_size=3)


def written(shards: int, entries: dict[bytes, tuple[int, ...]]) -> bytes:
    """As entries_read does."""
    parts = []
    for place, entry in sorted(entries.items()):
        if any(entry):
            counts = list(entry)
            while counts[-1] == 0:
                counts.pop()
            parts.append(place + b"".join(b",%d" % count for count in counts))
    return b" ".join([b"%d" % shards, b"0", *parts])


def merged(one: bytes, other: bytes) -> dict[bytes, tuple[int, ...]]:
    """What a region has after it was told: the larger of each."""
    ours, theirs = shard_text.shard_of_text(one).entries, shard_text.shard_of_text(other).entries
    return {place: tuple(map(max, ours.get(place, [0] * 4), theirs.get(place, [0] * 4))) for place in {*ours, *theirs}}


def counting(entries: dict[bytes, tuple[int, ...]]) -> dict[bytes, tuple[int, ...]]:
    """Without what may be dropped at any time."""
    return {place: entry for place, entry in entries.items() if entry[0] > entry[2] or entry[1] > entry[3]}


@given(SHARDS, SHARDS)
def test_a_repair_is_what_is_lacking_and_nothing_else(here: Any, there: Any) -> None:
    """After it the region has all that the other one had, but what counts for nothing; told again it lacks nothing."""
    ours, theirs = written(0, here), written(0, there)
    lacking = shard_text.lacking(ours, theirs)
    after = merged(ours, lacking)
    assert counting(after) == counting(merged(ours, theirs))
    assert not shard_text.lacking(written(0, after), theirs)
    assert not shard_text.lacking(ours, ours)
    for place in shard_text.shard_of_text(lacking).entries:
        assert shard_text.shard_of_text(lacking).entries[place] == shard_text.shard_of_text(theirs).entries[place]


def test_what_was_dropped_does_not_come_back() -> None:
    """An entry that counts for nothing is not told to who does not have it."""
    assert shard_text.lacking(b"0 0 us/0,1", b"0 0 eu/0,5,0,5 us/0,1") == b""
    assert shard_text.lacking(b"0 0 eu/0,5", b"0 0 eu/0,5,0,5") == b"0 0 eu/0,5,0,5"
    assert shard_text.lacking(b"", b"4 0 eu/0,5") == b"4 0 eu/0,5"
    assert shard_text.lacking(b"2 0 eu/0,5", b"4 99 eu/0,5") == b"4 99"
    assert shard_text.with_floor([b"0 0 eu/0,5", b"0 0 eu/0,5,0,5", b"0 0 eu/0,6,0,5", b""]) == [1]
    for odd in (b"x", b"0 0 eu/0", b"0 0 eu/0,1,2,3,4,5", b"0 0 eu/0,x"):
        with pytest.raises(BadReply):
            shard_text.shard_of_text(odd)


def test_marks() -> None:
    """A mark of another incarnation, or none, means that all is fetched."""
    assert marks.mark_of(b"g1 5 3") == marks.Mark(b"g1", 5, 3)
    assert marks.mark_of(b"g1 5 3 2") == marks.Mark(b"g1", 5, 3)
    assert marks.mark_of(marks.NONE) is None
    assert marks.is_other(marks.NONE, b"g1 5 5")
    assert marks.is_other(b"g0 5 5", b"g1 5 5")
    assert not marks.is_other(b"g1 3 5", b"g1 5 5")
    assert marks.is_full(b"g1 3 5", b"g1 5 5")
    assert not marks.is_full(b"g1 5 5", b"g1 6 5")
    assert marks.is_other(marks.anew(b"token"), b"g1 5 5")
    assert marks.anew(b"one") != marks.anew(b"other")


def test_pace() -> None:
    """Where nothing changes it is looked less and less often, until something does."""
    pace = Pace(0.2, now=100.0, quiet=5.0)
    waits = []
    now = 100.0
    for _ in range(7):
        pace.same(now)
        waits.append(round(pace.next - now, 3))
        now = pace.next
    assert waits == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert pace.slow
    pace.changed(now)
    assert (round(pace.next - now, 3), pace.slow) == (0.2, False)
    for _ in range(20):
        pace.failed(now, 1.0)
    assert pace.next - now <= 2.0


def test_names_and_links() -> None:
    """Names are such that they can stand in keys and entries; links are between those that there are."""
    assert check_links(None, ["a", "b"]) == [("a", "b"), ("b", "a")]
    assert check_links([("a", "b"), ("a", "b")], ["a", "b"]) == [("a", "b")]
    for links in ([("a", "c")], [("a", "a")]):
        with pytest.raises(UsageError):
            check_links(links, ["a", "b"])
    with pytest.raises(TypeError):
        check_links(["ab"], ["a", "b"])  # type: ignore[list-item]
    for name in ("", "a b", "a/b", "a,b", "ä", "x" * 65):
        with pytest.raises(UsageError, match="name"):
            Exchange({name: "redis://localhost:1"})
    for options in ({"interval": 0.0}, {"namespace": "{x}"}):
        with pytest.raises(UsageError):
            Exchange({"a": "redis://localhost:1"}, **options)
    with pytest.raises(UsageError, match="region a"):
        Exchange({"a": "http://localhost:1"})


def region(name: bytes, members: dict[bytes, Member], *, id: bytes = b"", buckets: int = 16) -> Region:
    return Region(name, KeySpace(b"rc", buckets), id or b"id-" + name, members)


def test_membership() -> None:
    """Two regions go together only with the same number of buckets, each under a name of its own, and not evicted."""
    eu, us = region(b"eu", {}), region(b"us", {})
    told = agree(eu, us)
    assert told[b"eu"] == told[b"us"] == {b"eu": Member(b"id-eu", MEMBER), b"us": Member(b"id-us", MEMBER)}
    assert agree(region(b"eu", told[b"eu"]), region(b"us", told[b"us"])) == {b"eu": {}, b"us": {}}
    with pytest.raises(SchemaMismatch, match="buckets"):
        agree(eu, region(b"us", {}, buckets=64))
    with pytest.raises(SchemaMismatch, match="another deployment"):
        agree(region(b"eu", {b"us": Member(b"other", MEMBER)}), us)
    with pytest.raises(SchemaMismatch, match="one and the same"):
        agree(eu, region(b"us", {}, id=b"id-eu"))
    with pytest.raises(Refused, match=r"evicted.*leave it out.*regions add"):
        agree(region(b"eu", {b"us": Member(b"id-us", EVICTED)}), us)
    with pytest.raises(Refused, match="evicted"):
        agree(eu, region(b"us", {b"us": Member(b"id-us", EVICTED)}))


def test_evicted_spreads() -> None:
    """Where one says evicted and another member, evicted holds, whoever is asked first."""
    member, gone = {b"ap": Member(b"1", MEMBER)}, {b"ap": Member(b"1", EVICTED)}
    assert spread(member, gone) == spread(gone, member) == gone
    assert spread({}, member) == spread(member, {}) == member


def test_the_number_of_buckets_of_a_new_region() -> None:
    """It is that of the others, so these are looked at first; the default only if nobody has any."""
    now = [0.0]
    common = Common(Options(b"rc", 0.2, None, 16, lambda: now[0], lambda: 0.0, str))
    common.expect([b"eu", b"us"])
    assert common.buckets_of_new() is None
    now[0] = NEW_REGION_TIMEOUT_S
    assert common.buckets_of_new() == 16
    now[0] = 0.0
    common.saw(b"eu", Region(b"eu", None, None, {}))
    assert common.buckets_of_new() is None
    common.saw(b"us", None)
    assert common.buckets_of_new() == 16
    common.saw(b"us", region(b"us", {}, buckets=64))
    assert common.buckets_of_new() == 64


def command(n: int, script: Script | None = None) -> Command:
    return Command(script, (b"k%d" % n,), (), b"" if script else b"GET")


def job(asks: Any, failed: Any = None) -> Job:
    return Job(asks, failed or unexpected, Meter())


def unexpected(error: CounterError, side: int) -> None:
    raise AssertionError(error)


def wire(part: object) -> bytes:
    """As Redis sends it."""
    if isinstance(part, bytes):
        return b"$%d\r\n%b\r\n" % (len(part), part)
    if isinstance(part, dict):
        return b"%%%d\r\n" % len(part) + b"".join(map(wire, (each for pair in part.items() for each in pair)))
    if isinstance(part, list):
        return b"*%d\r\n" % len(part) + b"".join(map(wire, part))
    return b":%d\r\n" % part if isinstance(part, int) else b"$-1\r\n"


@pytest.mark.parametrize("many", [1, 30])
def test_bytes_are_counted(many: int) -> None:
    """About as they go over the wire, whatever is in an answer, and however much."""
    for answer in (
        b"0 0 eu/abcde.123,7",
        [b"OK", b"abcde.123 45 45", 0, b"0:some name"],
        {b"schema": b"1", b"region": b"eu", b"m:us": b"abcdefghij member"},
        None,
        [b"0", [b"0:first member", b"1", b"0:second member", b"2"]],
    ):
        meter, answers = Meter(), [answer] * many
        meter.received(answers)
        assert meter.bytes == pytest.approx(sum(len(wire(each)) for each in answers), rel=0.1, abs=3)


def test_answers_are_read_in_the_order_of_the_questions() -> None:
    """Several pieces are under way at once; on each of the two connections answers come as they were asked for."""
    got: dict[int, list[object]] = {}

    def piece(n: int) -> Generator[Ask, list[object], None]:
        first = yield Ask(SOURCE, [command(n), command(n + 10)])
        second = yield Ask(DESTINATION, [command(n + 20)])
        got[n] = [*first, *second]

    lanes: list[list[bytes]] = [[], []]
    most = 0
    steps = together(iter([job(piece(n)) for n in range(5)]), window=3)
    answer: object = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            break
        if isinstance(step, Send):
            lanes[step.side].append(step.command.keys[0])
            answer = None
            most = max(most, *map(len, lanes))
        else:
            answer = lanes[step.side].pop(0)
    assert got == {n: [b"k%d" % n, b"k%d" % (n + 10), b"k%d" % (n + 20)] for n in range(5)}
    assert lanes == [[], []]
    assert most > 2


def test_a_script_that_is_unknown_is_sent_with_its_text_and_what_follows_again() -> None:
    """What follows may rely on it, as a confirmation does; what stands before is not sent twice."""
    got: list[object] = []

    def piece() -> Generator[Ask, list[object], None]:
        got.extend((yield Ask(SOURCE, [command(0), command(1, Script.ENTRIES_READ), command(2)])))

    steps = together(iter([job(piece())]))
    sent: list[tuple[bytes, bool]] = []
    answers = iter([b"zero", ErrorReply("NOSCRIPT x"), b"too early", b"one", b"two"])
    answer: object = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            break
        if isinstance(step, Send):
            sent.append((step.command.keys[0], step.text))
            answer = None
        else:
            assert isinstance(step, Receive)
            answer = next(answers)
    assert got == [b"zero", b"one", b"two"]
    assert sent == [(b"k0", False), (b"k1", False), (b"k2", False), (b"k1", True), (b"k2", False)]


def test_one_that_fails_ends_alone() -> None:
    """The others go on; all are closed if the connection is gone."""
    errors: list[CounterError] = []
    closed: list[int] = []

    def piece(n: int) -> Generator[Ask, list[object], None]:
        try:
            yield Ask(SOURCE, [command(n)])
            if n == 1:
                raise Refused("no")
            yield Ask(SOURCE, [command(n)])
        finally:
            closed.append(n)

    steps = together(iter([job(piece(n), lambda error, side: errors.append(error)) for n in range(3)]))
    answer: object = None
    for _ in range(7):
        step = steps.send(answer)
        answer = b"ok" if isinstance(step, Receive) else None
    assert [str(error) for error in errors] == ["no"]
    assert closed == [1]
    steps.close()
    assert sorted(closed) == [0, 1, 2]


def test_what_an_unsealed_shard_missed_is_found_at_once() -> None:
    """Its repair is void if another exchange has moved the mark meanwhile: then both sides are compared."""
    route = Route(b"eu", b"us", KeySpace(b"rc", 16), ((), ()), None)
    bucket, metrics = BucketSync(0, Pace(0.2, 0.0)), SyncMetrics()
    asked = _merge_refused(route, bucket, b"i 1 1", b"{rc:0}:c:1:a", b"0 0 eu/0,1", "WRONGTYPE x", metrics)
    sealed = b"sealed id 1 - 0 0"
    next(asked)
    for answer in (sealed, [b"OK"], [b"OK"]):
        asked.send([answer])
    with pytest.raises(StopIteration):
        asked.send([[b"OTHER", b"i 2 2"]])
    assert bucket.suspect


def settling() -> Generator[Ask, list[object], bool]:
    """Return a pull that knows all, and is told of one that is to get another dot; it has asked for that."""
    route = Route(b"eu", b"us", KeySpace(b"rc", 16), ((), ()), None)
    bucket = BucketSync(0, Pace(0.2, 0.0))
    bucket.mark = b"i 5 5"
    pulling = pull(route, bucket, SyncMetrics(), 0.0)
    assert next(pulling).commands[0].script is Script.CHANGES_LIST
    settle = pulling.send([[b"OK", b"i 5 5", b"1", b"1", b"0:a"]])
    assert (settle.side, settle.commands[0].script) == (SOURCE, Script.DOTS_SETTLE)
    return pulling


def test_what_gets_another_dot_comes_with_the_same_pull() -> None:
    """Though nothing else has changed, and what is asked with is the receipt for that."""
    pulling = settling()
    assert pulling.send([[b"OK"]]).side == DESTINATION
    again = pulling.send([[b"OK", b"1", 0]])
    assert (again.side, again.commands[0].script) == (SOURCE, Script.CHANGES_LIST)


@pytest.mark.parametrize("answer", [ErrorReply("NOPERM x"), [b"what"]])
def test_where_another_dot_is_refused_the_pull_ends(answer: object) -> None:
    """Else it would be told of it again, without end."""
    with pytest.raises(CounterError):
        settling().send([answer])


def test_what_is_noted_is_read_as_the_scripts_write_it() -> None:
    """Names by kind of note; one that holds what is between names stands alone."""
    notes = [b"\nc\n0:a\n1:b", b"\nm7\n0:c", b"\nM7\n0:d\n0:e", b"\nC\n0:f\n"]
    assert [names_in(note) for note in notes] == [[b"0:a", b"1:b"], [b"0:c"], [b"0:d\n0:e"], [b"0:f\n"]]
    assert noted_in(notes) == {b"0:a", b"1:b", b"0:c", b"0:d\n0:e", b"0:f\n"}
    assert all(map(is_note, [*notes, b"\nr\n0:a"]))
    assert names_in(b"\nr\n0:a\nb") == [b"0:a\nb"]
    assert not is_note(b"0:a")


@pytest.mark.parametrize("more", [0, 2, sys.maxsize])
def test_what_is_noted_is_entered_before_it_is_compared(more: int) -> None:
    """As far as it was noted then: who goes on noting as fast as it is entered is waited for no longer."""
    route = Route(b"eu", b"us", KeySpace(b"rc", 16), ((), ()), None)
    listing, asked = Comparison(route, 0, both=True)._list(), Counter[object]()
    pages = {SOURCE: [b"0:a", b"1", b"\n0:c\n0:d", b"-2"], DESTINATION: [b"0:b", b"1"]}
    ask, found = next(listing), None
    while found is None:
        entering = ask.commands[0].script is Script.NOTES_ENTER
        asked[ask.side, entering] += 1
        enough = asked[ask.side, entering] > more
        answers: list[object] = [[b"0", pages[ask.side]]] * len(ask.commands)
        try:
            ask = listing.send([[b"OK", b"0" if enough else b"1"]] if entering else answers)
        except StopIteration as stop:
            found = stop.value
    assert found == [b"0:a", b"0:b"]  # a note is no shard
    assert asked == {(side, True): min(more + 1, MAX_ENTERINGS) for side in pages} | {
        (side, False): 1 for side in pages
    }


@pytest.mark.parametrize("marked", [(), (SOURCE,), (DESTINATION,), (SOURCE, DESTINATION)])
def test_a_side_without_a_mark_gets_no_repair(marked: tuple[int, ...]) -> None:
    """Nothing would look there into the index of what it merges: its first pull brings all there is."""
    comparison = Comparison(Route(b"eu", b"us", KeySpace(b"rc", 16), ((), ()), None), 0, both=True)
    texts, repaired = {SOURCE: b"0 0 eu/0,1", DESTINATION: b"0 0 us/0,1"}, []

    def answer(side: int, command: Command) -> object:
        if command.script is Script.ENTRIES_MERGE:
            repaired.append(side)
            return [b"OK", b"1", 1]
        return [texts[side]] if command.script is Script.ENTRIES_READ else b"i 1 1" if side in marked else None

    repairing = comparison._repair([b"{rc:0}:c:0:a"], SyncMetrics())
    ask = next(repairing)
    with suppress(StopIteration):
        while True:
            ask = repairing.send([answer(ask.side, each) for each in ask.commands])
    assert sorted(repaired) == list(marked)


@pytest.mark.parametrize("steps", [Pair.round, lambda pair: pair.pull_all(set())], ids=["round", "run_once"])
def test_each_bucket_has_its_turn_where_connections_break_all_the_time(steps: Any) -> None:
    """Those that have waited longest are asked first, so few get through before each break."""
    now, keys, asked = 0.0, KeySpace(b"rc", 16), Counter[int]()
    pair = Pair(b"eu", b"us", Common(Options(b"rc", 0.2, None, 16, lambda: now, lambda: 0.0, str)))
    pair.route = Route(b"eu", b"us", keys, ((), ()), None)
    pair.buckets = [BucketSync(n, Pace(0.2, now)) for n in range(16)]
    places = {keys.marks(bucket.number): bucket for bucket in pair.buckets}
    for _ in range(16):
        going = steps(pair)
        sent = next(going)
        while isinstance(sent, Send):
            now += 1.0
            bucket = places[sent.command.keys[0]]
            asked[bucket.number] += 1
            bucket.caught_up = now
            sent = next(going)
        going.close()
        pair.failed(Unavailable("the connection broke"))
    assert set(asked.values()) == {MAX_IN_FLIGHT}


def test_few_buckets_are_compared_at_once() -> None:
    """Each that is begun holds the names of all its counters; one that is done makes room for the next."""
    common = Common(Options(b"rc", 0.2, None, 64, lambda: 0.0, lambda: 0.0, str))
    pair = Pair(b"eu", b"us", common)
    pair.route = Route(b"eu", b"us", KeySpace(b"rc", 64), ((), ()), None)
    common.suspects |= {(pair.key, bucket) for bucket in range(64)}
    begun = list(pair._comparisons()) and set(pair.schedule.at_once)
    assert len(begun) == MAX_IN_FLIGHT
    assert list(pair._comparisons())
    assert set(pair.schedule.at_once) == begun
    done = begun.pop()
    del pair.schedule.at_once[done]
    common.suspects.discard((pair.key, done))
    assert list(pair._comparisons())
    assert begun < set(pair.schedule.at_once)
    assert len(pair.schedule.at_once) == MAX_IN_FLIGHT


def test_comparing_is_paced() -> None:
    """A range that took bytes is followed by a pause; a cycle takes five minutes at least."""

    class Done:
        done = True

    schedule = Schedule(0.0, 0.0)
    schedule.begin(Done(), 0.0)  # type: ignore[arg-type]
    schedule.stepped(1500, 2, 0.0)
    assert schedule.next == pytest.approx(1500 / (2 * 140) * 60)  # 140 bytes a minute and bucket
    assert schedule.bucket == 1
    schedule.begin(Done(), 300.0)  # type: ignore[arg-type]
    schedule.stepped(10, 2, 300.0)
    assert schedule.bucket == 0
    assert schedule.next == pytest.approx(300.0 + 10 / (2 * 140) * 60)
    schedule.begin(Done(), 302.0)  # type: ignore[arg-type]
    schedule.stepped(10, 1, 302.0)
    assert schedule.next == pytest.approx(302.0 + CYCLE_S)


def walked(runs: Iterator[bytes]) -> list[bytes]:
    """Walk over the keys of a server, which says who it is before and after each walk; return what was visited."""
    visited: list[bytes] = []

    def visit(found: dict[int, list[bytes]]) -> Generator[list[Command], list[object], None]:
        visited.extend(key for some in found.values() for key in some)
        yield from ()

    steps = walk_over(KeySpace(b"rc", 1), [0], visit)
    answers: Any = None
    with suppress(StopIteration):
        while True:
            (asked,) = steps.send(answers)
            page = [b"0", [b"{rc:0}:c:0:likes", b"another"]]
            answers = [b"# Server\r\nrun_id:%b\r\n" % next(runs) if asked.plain == b"INFO" else page]
    return visited


def test_a_walk_over_all_keys_begins_anew_after_a_fail_over() -> None:
    """Another server goes through its keys in another order: some may not have been seen."""
    key = b"{rc:0}:c:0:likes"
    assert walked(iter([b"one", b"one"])) == [key]
    assert walked(iter([b"one", b"other", b"other", b"other"])) == [key, key]
    with pytest.raises(Unavailable, match="to be repeated"):
        walked(b"run%d" % n for n in count())
