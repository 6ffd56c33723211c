"""Each rule of the client and each guard of the scripts, broken on purpose: one place, and what stands there instead.

Breaks are data. A place is a script, or a method of the protocol as ``module:Class.method``; ``old`` stands there exactly once.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from redis_counters.protocol.wire.commands import Script
from tests.simulation.server import script_texts


@dataclass(frozen=True, slots=True)
class Break:
    """``fault``: in schedules without it, the rule does not matter. ``crashes``: errors of Python that it ends in."""

    name: str
    where: str
    old: str
    new: str = ""
    fault: str = ""
    crashes: tuple[type[Exception], ...] = ()


@contextmanager
def broken(what: Break) -> Iterator[Mapping[Script, bytes] | None]:
    """The rule is broken for as long; give what it yields to `run` as the scripts' texts."""
    if ":" not in what.where:
        texts = dict(script_texts())
        script = Script(what.where)
        texts[script] = _replaced(texts[script].decode(), what).encode()
        yield texts
        return
    module_name, path = what.where.split(":")
    module = importlib.import_module(f"redis_counters.protocol.{module_name}")
    owner: Any = module
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    original = inspect.getattr_static(owner, name)
    function: Any = original.fget if isinstance(original, property) else original
    source = _replaced(textwrap.dedent(inspect.getsource(function)), what)
    made: dict[str, Any] = {}
    code = compile("from __future__ import annotations\n" + source, what.where, "exec")
    exec(code, module.__dict__, made)  # noqa: S102 - our own source, changed in one place
    setattr(owner, name, made[name])
    try:
        yield None
    finally:
        setattr(owner, name, original)


def _replaced(text: str, what: Break) -> str:
    if text.count(what.old) != 1:
        raise ValueError(f"{what.name}: {what.old!r} stands {text.count(what.old)} times in {what.where}")
    return text.replace(what.old, what.new)


CLIENT = (  # one line each, to be read as a table
    Break(
        "two chunks of a bucket in flight",
        "write.writer:Writer.next_request",
        "if bucket.busy or bucket.failed",
        "if bucket.failed",
        crashes=(ValueError,),  # the second answer finds its request no longer there
    ),
    Break(
        "a failed bucket goes on in the same round",
        "write.writer:Writer.next_request",
        "bucket.busy or bucket.failed",
        "bucket.busy",
    ),
    Break(
        "what is unanswered does not go along", "write.actor:Actor._flush", "if self.unknown is not None:", "if False:"
    ),
    Break(
        "what is unanswered is forgotten when a flush is refused",
        "write.actor:Actor._answer_flush",
        'self.state.on(ActorEvent.CLOSED_BY_OTHERS if reply.word == "CLOSED" else ActorEvent.RECORD_LOST)',
        "self.state.on(ActorEvent.RECORD_LOST); self.unknown = None; [t.dirty.update(dict.fromkeys(c)) for t, c in zip(self.tables, chunk.totals)]",
    ),
    Break("a new connection is not noticed", "core:Core.new_connection", "writer.look_all()", "pass", "fail-over"),
    Break("nobody looks", "write.looks:Looks.due", "if now - self.at < pause:", "if True:"),
    Break(
        "looks never rotate",
        "write.looks:Looks.begin",
        "key=last_seen",
        "key=lambda actor: actor.bucket",
    ),
    Break("looks become ever more seldom", "write.looks:Looks.due", "IDLE_PAUSE_S)", "1e9)", "emptied"),
    Break("who reads does not use its process", "read.fetch:Reads._begin", "taken = writer.looks.used_at =", "taken ="),
    Break(
        "who counts does not use its process",
        "write.writer:Writer.new_round",
        "self.looks.used_at = self.accumulator.accepted, now",
        "self.looks.at = self.accumulator.accepted, now",
    ),
    Break("a look accepts a record that is behind", "write.looks:has_all", "and record.seq >= actor.base", ""),
    Break(
        "what a look finds is not asked about",
        "write.looks:Looks.answered",
        "actor.state.on(ActorEvent.PROBE_WANTED)",
        "pass",
    ),
    Break(
        "a read takes a lost slot for a deleted one",
        "read.fetch:Reads._ask_registries",
        "elif base > 0 and (",
        "elif False and (",
    ),
    Break("what a read finds lost is not told", "read.fetch:Reads._ask_registries", "writer.probe_all()", "pass"),
    Break("nobody asks by itself whether all is there", "write.writer:Writer.house_due", "return asks or", "return"),
    Break("nothing is told again after a fail-over", "write.actor:Actor._lost", "table.forget()", "pass", "fail-over"),
    Break(
        "what a fail-over took back is not to be sent",
        "write.slot_totals:SlotTotals.forget",
        "self.dirty.update(dict.fromkeys(self.total))",
        "pass",
        "fail-over",
    ),
    Break(
        "the first flush after a fail-over is not exact",
        "write.states:ActorState.on",
        "setattr(self, doubt.name, True)",
        "setattr(self, doubt.name, doubt is not Doubt.requires_exact_base)",
        "fail-over",
    ),
    Break(
        "base stays above what is recorded",
        "write.actor:Actor._lost",
        "self.base = recorded",
        "pass",
        "fail-over",
    ),
    Break(
        "what was applied is forgotten after a fail-over",
        "write.actor:Actor._lost",
        "self.known_applied, exact = self.applied_as_of(recorded)",
        "exact = True",
        "fail-over",
    ),
    Break(
        "each flush rests on the one before it by number",
        "write.history:History.chain",
        "seq = chunk.base",
        "seq -= 1",
        "fail-over",
    ),
    Break(
        "deleted slots are told without floors",
        "write.actor:Actor._answer_flush",
        "self.tables[kind].floored.add(key)",
        "del self.tables[kind].acknowledged[key]",
        "deleted",
    ),
    Break(
        "an actor ends with something not delivered",
        "write.actor:Actor.retire",
        "Phase.ACTIVE and self.delivered",
        "Phase.ACTIVE",
    ),
    Break(
        "actors end before the window is over",
        "write.actor_set:ActorSet.keep_house",
        "now - actor.last_acknowledged < window",
        "False",
        "fail-over",
    ),
    Break(
        "decrements are not folded by their owner",
        "write.actor:Actor.begin_folding",
        "for t in self.tables[:2] for key",
        "for t in self.tables[:1] for key",
    ),
    Break(
        "what a folded actor did not get across is dropped",
        "write.writer:Writer._move_on",
        "self.router.buckets[actor.bucket].move_on(actor, rest, now)",
        "self.router.buckets[actor.bucket].move_on(actor, ({}, {}, {}), now)",
    ),
    Break(
        "all that a folded actor counted is told again",
        "write.taken_over:_lacking",
        "total - done.get(key, 0)",
        "total",
    ),
    Break(
        "what is unknown of a forgotten actor counts as lost",
        "write.taken_over:rest_of",
        "actor.base if actor.unknown is None else actor.seq",
        "actor.base",
        "cleaned",
    ),
    Break(
        "an uncertainty is not reported",
        "write.taken_over:rest_of",
        "if gone and actor.unknown is not None and len(actor.unknown):",
        "if False:",
        "cleaned",
    ),
    Break(
        "a short memory is not reported",
        "write.taken_over:rest_of",
        "if not exact:",
        "if False:",
        "short memory",
    ),
    Break(
        "refused totals count as applied",
        "write.actor:Actor._acknowledge",
        "chunk.refused.update(refused)",
        "pass",
        "other type",
    ),
    Break(
        "what one server of a cluster has not answered was not applied",
        "flush.round:_send_all",
        "writer.lost(request, raw.error)",
        "(request.actor.void(), writer.lost(request, raw.error))",
    ),
    Break(
        "what one server of a cluster has not answered stays on its way",
        "flush.round:_send_all",
        "writer.lost(request, raw.error)",
        "pass",
    ),
    Break(
        "what is on its way when a round is cut stays so", "flush.round:_send_all", "writer.unanswered(request)", "pass"
    ),
    Break("a script that is not known is an error", "flush.round:_receive", "is_unknown_script(raw)", "False"),
    Break(
        "a journal's actors end at once",
        "journal.recovery:Orphan.look",
        "writer.closing = closing",
        "writer.closing = True",
        "killed",
    ),
    Break("a journal's actors do not wait for shards", "journal.recovery:_gate", "if shard:", "if False:", "killed"),
    Break(
        "shards are used before they are published",
        "write.shard_publication:ShardPublication.publish_or_wait",
        "table.gate(key)",
        "pass",
    ),
    Break(
        "what was let through is held back again",
        "write.actor:Actor.let_through",
        "key in table.dirty and key not in table.gated",
        "False",
    ),
    Break(
        "a child of a fork keeps what its parent counted", "core:Core.begin", "self.buffer.clear()", "pass", "forked"
    ),
    Break(
        "own slots in a snapshot are not seen",
        "read.snapshot:Snapshot.take_own",
        "self.own = {**self.own, place: int(slot)}",
        "pass",
    ),
    Break("own counts are not merged", "read.snapshot:Snapshot.lacks", "max(0, total - slot)", "0"),
    Break(
        "an own slot that is absent is added whole",
        "read.snapshot:Snapshot.lacks",
        "slot = self.acknowledged.get((key, owner, table.kind), 0)",
        "slot = 0",
    ),
    Break(
        "a read is not repeated when own state moved",
        "read.fetch:Reads.fetch",
        "changed = seen != writer.turns",
        "changed = False",
    ),
    Break("nobody asks whether an absent slot was folded", "read.fetch:Reads.fetch", "if doubts and ", "if False and "),
    Break(
        "a snapshot from before own state moved is used",
        "read.cache:ReadCache.cached",
        "snapshot.drops != self.writer.drops",
        "False",
    ),
    Break(
        "a flush does not tell when counters expire",
        "write.expiries:Expiries.among",
        "if not known:",
        "if True:",
        "expires",
    ),
    Break(
        "a child does not know when counters expire",
        "core:Core.begin",
        "self.writer.router.expiries = self.expiries",
        "pass",
        "expires",
    ),
    Break(
        "a journal does not tell when counters expire",
        "journal.recorder:Recorder.take",
        "expiries=expiries",
        "expiries=[]",
        "expires",
    ),
    Break(
        "more shards are not read",
        "read.fetch:Reads._take",
        "if not learned.single and learned.of(name) > len(snapshot.places):  # a handle may have asked for more too",
        "if False:",
    ),
    Break(
        "what a copy is of counts beside it",
        "read.sums:added_up",
        "if shard and copies:",
        "if False:",
        "narrowed",
    ),
    Break(
        "fewer shards are followed by who counts in more",
        "write.router:Router.follow",
        "if not own and not any(slots):",
        "if True:",
        "narrowed",
    ),
    Break(
        "a sealed shard is opened before shard 0 tells of it",
        "write.sealed:SealedShards.request",
        "if sealed.widened:",
        "if True:",
        "narrowed",
    ),
    Break(
        "slots in other shards are told like new ones in shard 0",
        "write.flushes:_fresh",
        " and shard_of(key) == 0",
        "",
        "narrowed",
    ),
    Break("seals are not waited for", "upkeep.reshard:narrow", "if wait > 0:", "if False:", "narrowed"),
    Break(
        "what is sealed is not moved",
        "upkeep.reshard:narrow",
        'if (plus, minus) != (b"0", b"0"):',
        "if False:",
        "narrowed",
    ),
    Break(
        "a shard that cannot be sealed is passed over",
        "upkeep.reshard:narrow",
        "if slots or odd:",
        "if False:",
        "narrowed",
    ),
    Break(
        "a number of shards is not told",
        "write.shard_publication:ShardPublication.publish",
        "table0.raise_to(key0, shards)",
        "pass",
    ),
    Break("only shard 0 is reset", "read.reset:take_away", "range(1, width)", "range(1, 1)", "taken away"),
    Break(
        "what was seen of a shard is not told",
        "read.reset:take_away",
        "taken.amount += ",
        "taken.amount = ",
        "taken away",
    ),
    Break("two fetch a name at a time", "read.cache:ReadCache.claim", "if self.fetching and any(", "if False and any("),
    Break(
        "a value at hand is used when more was counted",
        "read.cache:ReadCache.cached_nowait",
        "snapshot.epoch != self.router.epoch or ",
        "",
    ),
    Break(
        "a value at hand is used with a full buffer",
        "read.cache:ReadCache.cached_nowait",
        "if self.amounts:",
        "if False:",
    ),
    Break(
        "a value at hand lacks the increments by one in the buffer",
        "read.cache:ReadCache.cached_nowait",
        "if self.ones:",
        "if False:",
    ),
    Break(
        "increments in the buffer are added to a value from before it was emptied",
        "read.cache:ReadCache._ahead",
        "epoch != self.router.epoch or ",
        "",
    ),
    Break(
        "increments in the buffer that were added are added again",
        "read.cache:ReadCache._ahead",
        "seen : seen + MAX_AHEAD",
        ": MAX_AHEAD",
    ),
)

SCRIPTS = (
    Break("late copies are applied", "slots_merge", "if seq <= recorded then return {'STALE', recorded} end"),
    Break("closed actors may tell", "slots_merge", "if state ~= 'o' then return {'CLOSED', recorded} end"),
    Break("a base that is missing does not matter", "slots_merge", "recorded < base or ", "", "fail-over"),
    Break("exact does not matter", "slots_merge", " or (exact == '1' and recorded ~= base)", "", "fail-over"),
    Break("an unknown actor may tell", "slots_merge", "if not state then return {'UNKNOWN'} end", "if not state then state, recorded, rest = 'o', 0, 'x y' end", "fail-over"),
    Break("a new key gets no time to expire", "slots_merge", "  call('PEXPIREAT', KEYS[i + 2], at)\n", "", "expires"),
    Break("a missing slot is 0", "slots_merge", "      missing = missing or {'MISSING'}\n      missing[#missing + 1] = i", "    olds[i] = '0'", "deleted"),
    Break("counts are compared as texts", "slots_merge", "#a < #b or (#a == #b and a < b)", "a < b"),
    Break("counts are compared as numbers", "slots_merge", "#a < #b or (#a == #b and a < b)", "tonumber(a) < tonumber(b)"),
    Break("no floor is written", "slots_merge", "    if ARGV[v + 1] ~= '0' then call('HSET', key, '~' .. field, ARGV[v + 1]) end\n", "", "deleted"),
    Break("the flush is not recorded", "slots_merge", "string.format('%.0f', seq) .. ' ' .. now", "string.format('%.0f', recorded) .. ' ' .. now"),
    Break("a number of shards is overwritten", "slots_merge", "if less(told, shards) then told = shards end", "told = shards"),
    Break("a sealed shard is an error", "slots_merge", "if missing or sealed then", "if missing then", "narrowed"),
    Break("what a slot is told where it may be new is not looked at", "slots_merge", "  if type(there) == 'table' then look(i, there.err) end\n", "", "narrowed"),
    Break("a shard with slots is sealed", "shard_seal", "if slots > 0 then return {'BUSY', slots} end", "", "narrowed"),
    Break("a seal forgets what the shard held", "shard_seal", "held['+'] or '0'", "'0'", "narrowed"),
    Break("an absent shard is not sealed", "shard_seal", "if kind == 'none' then return seal('-', '0', '0') end", "if kind == 'none' then return {'OK', now, '0', '-', '0', '0'} end", "narrowed"),
    Break("an unsealed shard is empty", "shard_unseal", "if dot ~= '-' then call('HSET', key, 'd', dot, '+', plus, '-', minus) end", "", "narrowed"),
    Break("an unsealed shard is a new thing", "shard_unseal", "'d', dot, '+', plus", "'+', plus", "narrowed"),
    Break("sealed shards are not read", "slots_read", "texts[i] = id and", "texts[i] = false and", "narrowed"),
    Break("open actors are folded", "slots_fold", "if state == 'o' then return {'OPEN'} end"),
    Break("actors are folded as soon as they are closed", "slots_fold", "delay > 0 and tonumber(now) - tonumber(seen) <= delay", "false", "fail-over"),
    Break("folding is not recorded", "slots_fold", "if state ~= 'f' then call('HSET', registry, actor, 'f ' .. seq .. ' ' .. now .. ' ' .. rest) end"),
    Break("a folded slot stays", "slots_fold", "    call('HDEL', key, field, '~' .. field)\n"),
    Break("floors do not count in folding", "slots_fold", "  if floor == '0' then floor = nil end", "  floor = nil", "deleted"),
    Break("decrements are folded into increments", "slots_fold", "fold(i, key, '-', minus,", "fold(i, key, '+', minus,"),
    Break("folded actors are opened again", "actor_open", "if state == 'c' then", "if state ~= 'o' then"),
    Break("forgotten actors are put back", "actor_open", "if number <= tonumber(cleaned) then return {'GONE'} end", "", "cleaned"),
    Break("actors are opened again however long they were closed", "actor_open", "if tonumber(now) - seen > delay then return {'FOLDED', seq} end", "", "fail-over"),
    Break("closed actors are not opened again", "actor_open", "if state == 'c' then", "if false then"),
    Break("lost actors are not put back", "actor_open", "  return register(want)\n", "  return {'GONE'}\n", "fail-over"),
    Break("an actor is closed though something of it is missing", "actor_close", "if seq < base then return {'REGRESS', seq} end", "", "fail-over"),
    Break("closing is not recorded", "actor_close", "if state == 'o' then", "if false then"),
    Break("folded actors are closed again by a janitor", "actors_reap", "state == 'o' and", "state and"),
    Break("open actors are forgotten", "actors_clean", "if state == 'f' and", "if state and", "cleaned"),
    Break("actors are forgotten before their slots are folded", "actors_clean", "folded < last_walk and ", "", "cleaned"),
    Break("it is not recorded who was forgotten", "actors_clean", "call('HSET', registry, 'c', string.format('%.0f', highest))", "", "cleaned"),
    Break("a reset writes no floors", "shard_reset", "      write('~@' .. places[i] .. SIGNS[n], entry[n])\n", "", "taken away"),
    Break("a floor is never raised", "shard_reset", "if less(entry[n + 2], entry[n]) then", "if entry[n + 2] == '0' and entry[n] ~= '0' then", "taken away"),
    Break("a reset forgets the floors of slots", "shard_reset", "string.sub(field, 1, 1) == '~' and -1 or 1", "string.sub(field, 1, 1) == '~' and 0 or 1", "taken away"),
    Break("a deleted shard 0 does not tell of the others", "shard_reset", "gone = not less('1', other['k'] or '1') and", "gone =", "taken away"),
    Break("floors of resets are folded", "slots_fold", "    call('HDEL', key, field, '~' .. field)\n", "    call('HDEL', key, field, '~' .. field)\n    call('HDEL', key, '~@/' .. (call('HGET', key, 'd') or '') .. sign)\n", "taken away"),
)  # fmt: skip

BREAKS = CLIENT + SCRIPTS

BEGIN = {
    "what is unanswered is forgotten when a flush is refused": 158,
    "a look accepts a record that is behind": 70,
    "the first flush after a fail-over is not exact": 121,
    "each flush rests on the one before it by number": 121,
    "deleted slots are told without floors": 84,
    "what was let through is held back again": 157,
    "fewer shards are followed by who counts in more": 155,
    "exact does not matter": 121,
    "a missing slot is 0": 84,
    "no floor is written": 84,
    "a floor is never raised": 143,
    "folding is not recorded": 148,
    "closed actors are not opened again": 173,
}
"""The seed to begin with, by name: where few schedules notice, one that did when this was written.

Where fewer do, one that does is kept in `noticed.jsonl`.
"""
