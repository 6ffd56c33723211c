"""What a recorder says has changed: all of it, once, and again if nobody knows whether it was kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from redis_counters.drivers.journal.file import JournalFile
from redis_counters.errors import NotRecorded
from redis_counters.protocol.flush.round import RecordStep, SendStep, run_flush
from redis_counters.protocol.journal.changes import Stored
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.journal.recovery import revive
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.slot_totals import SlotKind
from redis_counters.protocol.write.writer import Writer

KEYS = KeySpace(b"rc", 1)


def mint() -> str:
    mint.count += 1  # type: ignore[attr-defined]
    return f"{mint.count:012x}"  # type: ignore[attr-defined]


mint.count = 0  # type: ignore[attr-defined]


def made(**options: object) -> tuple[Writer, Recorder, Stored]:
    settings = make_settings(**{"journal": "memory", "buckets": 1, **options})  # type: ignore[arg-type]
    writer = Writer(settings, Buffer(), mint)
    return writer, Recorder(writer, strict=settings.journal_always), Stored(b"rc", b"main", always=False)


def count(writer: Writer, name: bytes, amount: int) -> None:
    writer.accumulator.buffer.amounts.append((name, amount))
    writer.accumulator.drain()


def keep(recorder: Recorder, stored: Stored) -> bool:
    changes = recorder.take()
    if changes is None:
        return False
    stored.apply(changes)
    recorder.kept()
    return True


def opened(writer: Writer) -> None:
    """The namespace is known, and the first actor has its id."""
    if writer.router.keys is None:
        writer.settle(KEYS, 0.0)
    writer.new_round()
    request = writer.next_request(0.0)
    assert request is not None
    assert request.command.script is Script.ACTOR_OPEN
    writer.answered(request, [b"OPEN", b"G.1.abcd", 0], 0.0)


def test_nothing_counted_nothing_kept() -> None:
    """A client that counts nothing has nothing to record, before and after it knows its buckets."""
    writer, recorder, _stored = made()
    assert recorder.take() is None
    writer.settle(KEYS, 0.0)
    assert recorder.take() is None


def test_before_the_buckets_are_known() -> None:
    """By name; then, in one step, in their places and not by name any more."""
    writer, recorder, stored = made()
    count(writer, b"x", 3)
    count(writer, b"x", -2)
    assert keep(recorder, stored)
    assert stored.early == {(SlotKind.PLUS, b"x"): 3, (SlotKind.MINUS, b"x"): 2}
    writer.settle(KEYS, 0.0)
    changes = recorder.take()
    assert changes is not None
    assert changes.vital
    assert recorder.holds(writer.router.buckets[0].current), "not to be sent before that is kept"
    stored.apply(changes)
    recorder.kept()
    assert stored.early == {}
    [actor] = stored.actors.values()
    assert {kind: slot.total for (kind, _key), slot in actor.slots.items()} == {SlotKind.PLUS: 3, SlotKind.MINUS: 2}
    assert not keep(recorder, stored), "once"


def test_what_nobody_knows_to_be_kept_is_kept_once() -> None:
    """Applied, though the recorder was told that nobody knows: again the same actor, not a second one."""
    writer, recorder, stored = made()
    writer.settle(KEYS, 0.0)
    count(writer, b"x", 3)
    changes = recorder.take()
    assert changes is not None
    stored.apply(changes)
    recorder.put_back(unknown=True)
    count(writer, b"x", 4)
    assert keep(recorder, stored)
    assert len(stored.actors) == 1
    [slot] = next(iter(stored.actors.values())).slots.values()
    assert slot.total == 7


def test_an_actor_known_without_its_id_is_held() -> None:
    """Its owner token might get a second actor, if the first is closed before the journal knows its id."""
    writer, recorder, stored = made()
    writer.settle(KEYS, 0.0)
    count(writer, b"x", 3)
    assert keep(recorder, stored)
    opened(writer)
    actor = writer.router.buckets[0].current
    assert recorder.holds(actor)
    changes = recorder.take()
    assert changes is not None
    assert changes.vital
    recorder.put_back()
    assert recorder.holds(actor)
    assert keep(recorder, stored)
    assert not recorder.holds(actor)


def test_what_is_held_is_not_sent() -> None:
    """A round goes on without it, while it cannot be recorded; the error says so."""
    writer, recorder, stored = made()
    writer.settle(KEYS, 0.0)
    writer.memory_seen = True
    count(writer, b"x", 3)
    assert keep(recorder, stored)
    opened(writer)
    for works in (False, True):
        steps, answer, sent = run_flush(writer, lambda: 0.0, recorder), None, list[object]()
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                break
            if isinstance(step, SendStep):
                sent.append(step.command.script)
            answer = works and keep(recorder, stored) if isinstance(step, RecordStep) else [b"OK", 2]
        assert sent == [Script.SLOTS_MERGE] * works
        assert [type(error) for error in writer.errors] == [NotRecorded] * (not works)


def test_what_the_journal_never_knew_is_not_held() -> None:
    """A journal that never worked keeps nothing back."""
    writer, recorder, _stored = made()
    count(writer, b"x", 3)
    for _ in range(3):
        assert recorder.take() is not None
        recorder.put_back()
    opened(writer)
    assert not recorder.holds(writer.router.buckets[0].current)


def test_the_unanswered_goes_along_after_a_restart() -> None:
    """A flush without an answer, of several names: all of them are in the first flush of the next process."""
    writer, recorder, stored = made()
    for name in (b"x", b"y", b"z"):
        count(writer, name, 1)
    opened(writer)
    request = writer.next_request(0.0)
    assert request is not None
    assert request.command.script is Script.SLOTS_MERGE
    assert keep(recorder, stored)
    count(writer, b"w", 1)
    assert keep(recorder, stored)
    again = revive(stored, make_settings(journal="memory", buckets=1, max_batch=1), KEYS, mint, 100.0).writer
    opened(again)
    again.new_round()
    flush = again.next_request(100.0)
    assert flush is not None
    assert set(flush.command.keys[2:]) == {KEYS.shard_key(name, 0)[1] for name in (b"x", b"y", b"z")}
    assert flush.command.args[1] == 2


def test_what_may_have_been_refused_is_not_taken_for_applied() -> None:
    """A journal does not keep what Redis refused. After a fail-over somebody folds the actor: a loss is reported."""
    writer, recorder, stored = made()
    count(writer, b"x", 3)
    for seq in (1, 2):
        count(writer, b"y", 1)
        writer.outstanding.retry_refused()
        opened(writer) if seq == 1 else writer.new_round()
        flush = writer.next_request(0.0)
        assert flush is not None
        x = flush.command.keys[2:].index(KEYS.shard_key(b"x", 0)[1]) + 1
        writer.answered(flush, [b"OK", seq, x, b"WRONGTYPE"], 0.0)
    assert keep(recorder, stored)
    again = revive(stored, make_settings(journal="memory", buckets=1), KEYS, mint, 100.0).writer
    for answer in ([b"OPEN", b"G.1.abcd", 1], [b"CLOSED", 1], [b"FOLDED", 1]):
        again.new_round()
        request = again.next_request(100.0)
        assert request is not None
        again.answered(request, answer, 100.0)
    assert again.outstanding.pending() == {"y": 1}
    assert again.uncertain == 1


def test_what_a_stale_journal_lacks_is_not_sent_twice() -> None:
    """Redis has flushes that the journal does not know of, and others fold the actor: a loss is reported."""
    for recorded, left in ((1, {"y": 1}), (3, {})):
        writer, recorder, stored = made()
        count(writer, b"x", 3)
        opened(writer)
        flush = writer.next_request(0.0)
        assert flush is not None
        writer.answered(flush, [b"OK", 1], 0.0)
        count(writer, b"x", 4)
        count(writer, b"y", 1)
        assert keep(recorder, stored)
        again = revive(stored, make_settings(journal="memory", buckets=1, max_batch=1), KEYS, mint, 100.0).writer
        stale = [[b"STALE", recorded]] if recorded > 1 else []
        seq = recorded + 1
        for answer in ([b"OPEN", b"G.1.abcd", recorded], *stale, [b"OK", seq], [b"CLOSED", seq], [b"FOLDED", seq]):
            again.new_round()
            request = again.next_request(100.0)
            assert request is not None
            again.answered(request, answer, 100.0)
        assert again.outstanding.pending() == left
        assert again.uncertain == (not left)


def test_what_is_vital_is_on_the_disk(tmp_path: Path) -> None:
    """Before anything more is sent, not only with the operating system; all else waits for no disk."""
    writer, recorder, stored = made()
    count(writer, b"x", 3)
    changes = recorder.take()
    assert changes is not None
    file = JournalFile.make(tmp_path, stored, mint)
    assert file.connection is not None
    for vital in (False, True, False):
        done: list[str] = []
        file.connection.set_trace_callback(done.append)
        file.write(replace(changes, vital=vital))
        assert ("PRAGMA synchronous = FULL" in done[: done.index("COMMIT")]) is vital
    file.remove()


def test_lost_and_begun_anew() -> None:
    """All of it is recorded once more, to a journal that has nothing."""
    writer, recorder, stored = made()
    count(writer, b"x", 3)
    opened(writer)
    assert keep(recorder, stored)
    recorder.start_over()
    fresh = Stored(b"rc", b"main", always=False)
    assert keep(recorder, fresh)
    assert list(fresh.actors.values()) == list(stored.actors.values())


def test_what_moved_is_said_to_have_moved() -> None:
    """Once: in the changes that have it at its new place, and in no later ones."""
    writer, recorder, stored = made()
    writer.settle(KEYS, 0.0)
    count(writer, b"x", 3)
    changes = recorder.take()
    assert changes is not None
    assert not changes.moved
    stored.apply(changes)
    recorder.kept()
    writer.router.mark_moved()
    changes = recorder.take()
    assert changes is not None
    assert changes.moved
    recorder.put_back()
    changes = recorder.take()
    assert changes is not None
    assert changes.moved, "again, for it was not kept"
    stored.apply(changes)
    recorder.kept()
    count(writer, b"x", 3)
    changes = recorder.take()
    assert changes is not None
    assert not changes.moved
