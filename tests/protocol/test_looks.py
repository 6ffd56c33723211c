"""Losses that raise no error: they are found by looks at own actors' records, within two looks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.write.looks import BUSY_PAUSE_S, IDLE_PAUSE_S, last_seen
from tests.protocol.by_hand import ByHand
from tests.servers import RealServer

BUCKETS = 8
WINDOW = 50.0


def counted_everywhere(server: RealServer) -> tuple[ByHand, list[bytes], Any]:
    """Return a process that holds a counter in each bucket, all of it acknowledged at time 0 and proved since."""
    client = server.client()
    hand = ByHand(client, buckets=BUCKETS, reassert_window=WINDOW, actor_ttl=100_000.0)
    names: dict[int, bytes] = {}
    number = 0
    while len(names) < BUCKETS:
        name = b"n%d" % number
        names.setdefault(hand.keys.shard_key(name, 0)[0], name)
        number += 1
    for name in names.values():
        hand.count(name, 10)
    now = 0.0
    while now <= 3 * WINDOW:
        hand.round(now)
        now += WINDOW / 2
    return hand, list(names.values()), client


def total(hand: ByHand, client: Any, name: bytes) -> int:
    return int(sum(int(v) for k, v in client.hgetall(hand.keys.shard_key(name, 0)[1]).items() if k.endswith(b"+")))


def roll_back(hand: ByHand, client: Any, name: bytes) -> None:
    """The bucket of a counter is as it was before the first flush: a fail-over to a follower that lacked it."""
    bucket, key = hand.keys.shard_key(name, 0)
    client.delete(key)
    registry = hand.keys.registries[bucket]
    actor = hand.writer.router.buckets[bucket].current
    state, _seq, rest = client.hget(registry, actor.id).split(b" ", 2)
    client.hset(registry, actor.id, b"%s 0 %s" % (state, rest))


@pytest.mark.parametrize("lost", range(BUCKETS))
def test_a_loss_in_any_bucket_is_found_within_two_looks(any_server: RealServer, lost: int) -> None:
    """Nothing is counted any more, no error comes, and only one bucket has lost something."""
    hand, names, client = counted_everywhere(any_server)
    roll_back(hand, client, names[lost])
    now, looks = 5 * WINDOW, 0
    while total(hand, client, names[lost]) != 10:
        assert looks < 2
        assert hand.writer.looks.due(hand.writer.router.actors(), now)
        hand.round(now)
        looks += 1
        now += IDLE_PAUSE_S
    assert all(total(hand, client, name) == 10 for name in names)


@pytest.mark.parametrize("lost", range(BUCKETS))
def test_who_was_seen_just_before_the_loss_is_looked_at_too(any_server: RealServer, lost: int) -> None:
    """The loss comes after all but one were seen, and before the first of the two looks."""
    hand, names, client = counted_everywhere(any_server)
    loss = 5 * WINDOW
    for number, name in enumerate(names):
        actor = hand.writer.router.buckets[hand.keys.shard_key(name, 0)[0]].current
        actor.last_looked = loss - (0.1 if number else 0.6) * BUSY_PAUSE_S
    roll_back(hand, client, names[lost])
    for now in (loss + 0.5 * BUSY_PAUSE_S, loss + 1.5 * BUSY_PAUSE_S):
        hand.writer.looks.used_at = now
        assert hand.writer.looks.due(hand.writer.router.actors(), now)
        hand.round(now)
    assert total(hand, client, names[lost]) == 10


def test_a_look_writes_nothing_and_asks_for_half(any_server: RealServer) -> None:
    """Where nothing is lost a look costs one HMGET for every other actor, and no script runs."""
    hand, _names, client = counted_everywhere(any_server)
    for turn in range(4):
        before = client.info("commandstats")
        sent = hand.sent.total()
        hand.round(5 * WINDOW + turn * IDLE_PAUSE_S)
        after = client.info("commandstats")
        calls = {
            name: stats["calls"] - before.get(name, {"calls": 0})["calls"]
            for name, stats in after.items()
            if stats["calls"] != before.get(name, {"calls": 0})["calls"]
        }
        calls.pop("cmdstat_info", None)
        assert calls == {"cmdstat_hmget": BUCKETS // 2}
        assert hand.sent.total() == sent


def test_looks_take_turns(any_server: RealServer) -> None:
    """Two looks in a row see every actor."""
    hand, _names, _client = counted_everywhere(any_server)
    start = 5 * WINDOW
    hand.round(start)
    hand.round(start + IDLE_PAUSE_S)
    assert all(last_seen(actor) >= start for actor in hand.writer.router.actors())


def test_a_process_that_counts_looks_every_second_and_an_idle_one_ever_more_seldom(any_server: RealServer) -> None:
    """The pause is half of the time since it was used, from one second up to thirty."""
    hand, names, _client = counted_everywhere(any_server)
    now = 5 * WINDOW
    hand.count(names[0], 1)
    hand.round(now)  # counts, and looks
    due: list[float] = []
    end = now + 300
    while now < end:
        now += 0.5
        if hand.writer.looks.due(hand.writer.router.actors(), now):
            due.append(now)
            hand.round(now)
    pauses = [after - before for before, after in pairwise(due)]
    assert pauses[0] <= BUSY_PAUSE_S + 0.5
    assert pauses == sorted(pauses)
    assert max(pauses) == IDLE_PAUSE_S
    hand.count(names[0], 1)
    hand.round(now)
    assert hand.writer.looks.due(hand.writer.router.actors(), now + BUSY_PAUSE_S)


def test_an_actor_that_flushes_is_not_looked_at(any_server: RealServer) -> None:
    """The answer to a flush says the same."""
    hand, names, client = counted_everywhere(any_server)
    for name in names:
        hand.count(name, 1)
    before = client.info("commandstats")["cmdstat_eval"]["calls"], hand.sent[Script.SLOTS_MERGE]
    hand.round(5 * WINDOW)
    assert hand.sent[Script.SLOTS_MERGE] == before[1] + BUCKETS
    assert client.info("commandstats")["cmdstat_eval"]["calls"] == before[0] + BUCKETS
    assert all(actor.last_proved == 5 * WINDOW and not actor.state.look_due for actor in hand.writer.router.actors())


def test_a_process_that_has_just_flushed_all_it_holds_need_not_look(any_server: RealServer) -> None:
    """Not after its first flush either: whoever looked at once sent a round more than was asked for."""
    client = any_server.client()
    hand = ByHand(client, buckets=1)
    hand.count(b"x", 1)
    now = 1000.0
    hand.round(now)
    assert not hand.writer.looks.due(hand.writer.router.actors(), now + BUSY_PAUSE_S / 2)
    assert hand.writer.looks.due(hand.writer.router.actors(), now + BUSY_PAUSE_S)


@pytest.mark.parametrize("record", [b"", b"c 9 NOW owner name", b"o 0 NOW owner name", b"nonsense"])
def test_a_record_that_is_not_as_it_should_be_is_asked_about(any_server: RealServer, record: bytes) -> None:
    """Absent, closed, behind or unreadable: an empty flush follows, and the answer tells what to do."""
    hand, names, client = counted_everywhere(any_server)
    bucket = hand.keys.shard_key(names[0], 0)[0]
    registry, actor = hand.keys.registries[bucket], hand.writer.router.buckets[bucket].current
    if record:
        client.hset(registry, actor.id, record.replace(b"NOW", b"%d" % client.time()[0]))
    else:
        client.hdel(registry, actor.id)
    for turn in range(2):
        hand.round(5 * WINDOW + turn * IDLE_PAUSE_S)
    assert client.hget(registry, actor.id).startswith(b"o ")
    assert actor.seq > 1
    assert total(hand, client, names[0]) == 10


def test_a_new_connection_makes_every_actor_ask(any_server: RealServer) -> None:
    """All records are read in the same round, whenever the last look was, and nothing is written."""
    hand, names, client = counted_everywhere(any_server)
    hand.round(5 * WINDOW)
    roll_back(hand, client, names[0])
    roll_back(hand, client, names[-1])
    for lost, calls in ((True, BUCKETS), (False, 0)):
        before, sent = client.info("commandstats")["cmdstat_hmget"]["calls"], hand.sent[Script.SLOTS_MERGE]
        if lost:
            hand.writer.look_all()
        hand.go_on(5 * WINDOW + 0.1)
        scripts = hand.sent[Script.SLOTS_MERGE] - sent
        assert (scripts > 0) == lost
        assert client.info("commandstats")["cmdstat_hmget"]["calls"] - before == calls + scripts  # each calls it too
    assert all(total(hand, client, name) == 10 for name in names)
