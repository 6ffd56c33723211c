"""The write side of a client: which bucket sends what next, and what the answers mean.

Sans-I/O: it is given the time and the answers, and is asked for requests. Not thread-safe: drivers lock.
"""

from __future__ import annotations

from collections.abc import Callable

from redis_counters.errors import CounterError, NotRecorded
from redis_counters.events import Event, EventKind
from redis_counters.protocol.wire.commands import CONTRACTS, ErrorReply, Script
from redis_counters.protocol.wire.durability import Confirmation, evicting_policy
from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.wire.refusals import error_for, raise_refused, refusal, surely_not_applied
from redis_counters.protocol.wire.replies import Reply
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.write import taken_over
from redis_counters.protocol.write.accumulator import Accumulator
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.actor_events import of_answer, of_doubt, of_missing, of_takeover
from redis_counters.protocol.write.actor_set import Request
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.flushes import Chunk
from redis_counters.protocol.write.frequent import Frequent
from redis_counters.protocol.write.looks import Looks, holds
from redis_counters.protocol.write.outstanding import Outstanding
from redis_counters.protocol.write.router import Router
from redis_counters.protocol.write.sealed import Sealed
from redis_counters.protocol.write.shard_publication import ShardPublication
from redis_counters.protocol.write.slot_totals import ALL, SlotKind
from redis_counters.protocol.write.states import ActorEvent, Phase


class Writer:
    """All that a client has counted and not let go of, on its way to Redis."""

    def __init__(self, settings: Settings, buffer: Buffer, mint: Callable[[], str]) -> None:
        self.settings = settings
        self.router = Router(settings, mint)
        self.accumulator = Accumulator(self.router, buffer)
        self.outstanding = Outstanding(self.accumulator)
        self.errors: list[CounterError] = []  # of this round
        self.events: list[Event] = []  # for the driver to publish
        self.drops = 0  # times that own state was let go of: earlier snapshots may lack it
        self.flushed = self.flushes = 0
        self.confirmation = Confirmation(settings.durability)
        self.memory_seen = False  # the server was asked whether it may evict counters
        self.losses = 0  # times that acknowledged flushes were found missing
        self.folds = 0  # fold requests sent
        self.uncertain = 0  # times that it could not be known how far an actor got
        self.grown = 0  # times that a counter got more shards for what it is written to
        self.frequent = Frequent(self.router.shards)
        self.looks = Looks()
        self._accepted_before = 0  # by the beginning of the last round
        self.closing = False
        self.doubtful = False  # a registry was lost: the namespace's record may be lost with it
        self.calls = 0  # the last call that was recorded by itself, and is in the totals
        self.interrupted_round = False  # a round was ended in the middle of something, see `requeue_all`
        self.round_open = False  # the round's batch has not all its places yet
        self.full = False  # as many names wait as are allowed to
        self._turn = 0

    def settle(self, keys: KeySpace, now: float) -> None:
        """The buckets are known: what was counted so far goes there.

        Raises: SchemaMismatch if they are known already, and were others.
        """
        self.doubtful = False
        if self.router.settle(keys, now):
            self.accumulator.route_unrouted()

    def absorb(self) -> None:
        """As `drain`; also sees whether the buffer is full. Cost: also O(buckets)."""
        self.accumulator.drain()
        self.full = self.outstanding.waiting() >= self.settings.max_pending

    @property
    def turns(self) -> tuple[int, int, int]:
        """Grows when own state is let go of, folded or lost: a snapshot read across such a change is void."""
        return self.drops, self.folds, self.losses

    # -- requests go out, answers come in

    def new_round(self, now: float = 0.0) -> None:
        """Begin a round, which sends what was counted until now, and nothing that is counted meanwhile.

        Else a round would not end while counting goes on, and a hot counter would be sent as fast as Redis answers,
        instead of once per interval. Buckets that failed may try again.
        """
        self.errors = []
        if self.router.shards.growing:
            self.frequent.new_round(now)
        for bucket in self.router.buckets:
            bucket.failed = False
        if not self.durable:  # a confirmation speaks of its own connection: that must have written last
            self.probe_all()
        self.accumulator.drain_amounts()
        self.accumulator.take_batch()
        self.round_open = True
        self._stop_at(ALL)
        self.place_some()
        if self.accumulator.accepted != self._accepted_before:
            self._accepted_before, self.looks.used_at = self.accumulator.accepted, now
        actors = self.router.actors_in_use()
        if self.looks.due(actors, now):
            self.looks.begin(actors, now)

    def _stop_at(self, most: int) -> None:
        """Send in this round what is dirty up to that position (0: all that is dirty now); the rest in the next one."""
        for bucket in self.router.buckets:
            for actor in bucket.actors:
                for table in actor.tables:
                    table.stop = most or table.taken + len(table.dirty)

    def requeue_all(self) -> None:
        """After an exception in the middle of a round (out of a signal handler): send again what is not acknowledged.

        Only what Redis refused is not sent. Nothing is in flight any more.
        """
        for bucket in self.router.buckets:
            bucket.busy = False
            for actor in bucket.actors:
                for table in actor.tables:
                    table.send_again()
        if self.router.publication is not None:
            self.router.publication.release_published()
        self.interrupted_round = False

    def place_some(self) -> None:
        """Route one chunk's worth of the round's batch, so that sending need not wait for all of it."""
        if not self.round_open:
            return
        self.accumulator.place(self.settings.max_batch)
        if not self.accumulator.unplaced:
            self.round_open = False
            self._stop_at(0)
            self.full = self.outstanding.waiting() >= self.settings.max_pending

    def next_request(self, now: float) -> Request | None:
        """Return what to send next, of a bucket that waits for no answer; buckets take turns."""
        for bucket in self.router.buckets_in_use(self._turn):
            if bucket.busy or bucket.failed:
                continue
            if self.closing and self.durable:
                bucket.close(now)
            elif not self.closing and bucket.keep_house(now, may_end=self.durable):
                self.drops += 1  # a snapshot from before may have it under the old actor
                self.router.epoch += 1
            for actor in list(bucket.actors):
                if actor.state.phase is Phase.DONE:
                    self._drop(actor)
            request = bucket.next_request(now)
            if request is not None:
                bucket.busy = True
                self.folds += request.command.script is Script.SLOTS_FOLD
                self._turn = (bucket.number + 1) % len(self.router.buckets)
                return request
        return None

    def answered(self, request: Request, raw: object, now: float) -> None:
        """Take in the answer to a request. Raises nothing: what went wrong is in `errors`."""
        actor, bucket = request.actor, self.router.buckets[request.actor.bucket]
        script = request.command.script
        if script is None:
            bucket.busy = False
            self.looks.answered(actor, raw, now)
            return
        if isinstance(raw, ErrorReply):
            if surely_not_applied(raw):
                actor.void()
            self.lost(request, error_for(raw, script, request.command.keys[0]))
            return
        try:
            reply = Reply(raw, CONTRACTS[script].replies)
            if script is Script.SLOTS_FOLD and reply.word == "OK":  # such a slot stays, and counts, but is not folded
                self.errors.extend(refusal(request.command.keys[n], text) for n, text in reply.refused())
            if reply.word in ("FOLDED", "GONE"):
                self._move_on(actor, reply, now)
            else:
                self._answer(actor, reply, script, now)
        except CounterError as error:
            self.lost(request, error)
            return
        bucket.busy = False
        if actor.state.phase is Phase.DONE:
            self._drop(actor)
        self.router.epoch += 1

    def _answer(self, actor: Actor, reply: Reply, script: Script, now: float) -> None:
        chunk, base, healing = actor.unknown, actor.base, actor.state.healing
        self.doubtful = self.doubtful or reply.word == "UNKNOWN"
        if script in (Script.SHARDS_WIDEN, Script.SHARD_UNSEAL):
            raise_refused(reply, actor.sealed.asked)
        actor.answer(reply, now)
        if reply.word in ("UNKNOWN", "REGRESS") or actor.base < base:
            self.losses += 1
            self.probe_all()  # what one actor finds, others should look for: they may have nothing to send
        self.events += of_answer(actor, reply, was_healing=healing)
        if script is Script.SLOTS_MERGE and chunk is not None:
            self._answer_flush(actor, chunk, reply)

    def _answer_flush(self, actor: Actor, chunk: Chunk, reply: Reply) -> None:
        publication = self.router.publication
        assert publication is not None
        if reply.word == "SEALED":
            for number, id in reply.pairs():
                _kind, key = chunk.item(number)
                self._unseal(actor, key, id, publication)
        elif reply.word == "MISSING":
            for number in reply.numbers():
                _kind, key = chunk.item(number)
                self.events.append(of_missing(actor, key))
                if shard_of(key):
                    publication.publish_again(key)
        elif reply.word == "OK":
            self.flushes += 1
            self.flushed += len(chunk)
            self.full = self.full and self.outstanding.waiting() >= self.settings.max_pending
            if self.router.shards.growing:
                self.frequent.flushed(chunk.totals)
            for key0, shards in chunk.totals[SlotKind.SHARDS].items():
                publication.answered(key0, shards, actor.tables[SlotKind.SHARDS].refused.get(key0))
            for key in actor.refused_now:
                self.errors.extend(refusal(key, table.refused[key]) for table in actor.tables if key in table.refused)

    def _unseal(self, actor: Actor, key: bytes, id: bytes, publication: ShardPublication) -> None:
        """The shard takes no counts, for its counter was given fewer: publish it in shard 0, then unseal it."""
        bucket0, key0 = publication.keys.shard_key(name_of(key), 0)
        actor.sealed.shards[key] = Sealed(id, publication.keys.registries[bucket0], key0, shard_of(key) + 1)
        publication.publish_again(key)  # which is sent again after a fail-over, too

    def see_memory(self, raw: object) -> None:
        """Warn if the server may evict counters (INFO memory; without the right to ask, it does not)."""
        policy = evicting_policy(raw)
        if policy is not None:
            what = f"maxmemory-policy is {policy}: counters may be evicted, use noeviction"
            self.events.append(Event(EventKind.EVICTION, what))

    @property
    def durable(self) -> bool:
        """True if all that was acknowledged is confirmed too, as far as that is asked for."""
        return self.settings.durability is None or self.confirmation.covers(self.flushes)

    def answered_confirmation(self, raw: object) -> None:
        """Take in the answer to the command of `confirmation`."""
        known = self.confirmation.shortfall
        error = self.confirmation.answered(self.flushes, raw)
        if error is not None:
            self.errors.append(error)
            if known is None:
                self.events.append(Event(EventKind.NOT_DURABLE, str(error)))

    def probe_all(self) -> None:
        """Let every actor ask whether Redis still has what it acknowledged."""
        for actor in self.router.actors_in_use():
            actor.state.on(ActorEvent.PROBE_WANTED if holds(actor) else ActorEvent.PROBE_OVER)

    def look_all(self) -> None:
        """Let every actor look whether Redis still has its record, and that it is not behind."""
        for actor in self.router.actors_in_use():
            actor.state.on(ActorEvent.LOOK_WANTED if holds(actor) else ActorEvent.LOOK_OVER)

    def unanswered(self, request: Request) -> None:
        """The connection broke or the deadline is over: what was sent may or may not have been applied."""
        bucket = self.router.buckets[request.actor.bucket]
        bucket.busy = False
        bucket.failed = True

    def lost(self, request: Request, error: CounterError) -> None:
        """As `unanswered`, while others are answered: what Redis refuses, and of a cluster, what one server breaks."""
        self.unanswered(request)
        self.errors.append(error)

    def unrecorded(self, request: Request) -> None:
        """It was not sent, because it must be in the journal first."""
        self.unanswered(request)
        if not any(isinstance(error, NotRecorded) for error in self.errors):
            self.errors.append(
                NotRecorded("the journal cannot be written; what must be in it first waits, and is kept")
            )

    def _drop(self, actor: Actor) -> None:
        """Drop an actor at its end: Redis has all of it."""
        if actor.state.outcome_unknown:
            self._doubt(actor, "its registry was lost while it was folded")
        self.router.buckets[actor.bucket].actors.remove(actor)
        self.drops += 1
        self.router.epoch += 1

    def _move_on(self, actor: Actor, reply: Reply, now: float) -> None:
        """Others have folded the actor: the current one sends what it did not get across."""
        rest, uncertain = taken_over.rest_of(actor, reply, self.settings.reassert_window)
        if uncertain is None:
            self.events.append(of_takeover(actor))
        else:
            self._doubt(actor, uncertain)
        self.router.buckets[actor.bucket].move_on(actor, rest, now)
        self.drops += 1

    def _doubt(self, actor: Actor, why: str) -> None:
        self.uncertain += 1
        self.events.append(of_doubt(actor, why))

    # -- looking at it

    @property
    def clean(self) -> bool:
        """True if nothing waits to be sent now."""
        counting = self.accumulator
        waits = self.interrupted_round or counting.buffer or counting.unabsorbed or any(self.router.unrouted)
        return not waits and all(actor.clean for actor in self.router.actors_in_use())

    @property
    def closed(self) -> bool:
        """True if every actor is closed and folded, but for those with refused counts, and none has counted since."""
        return (
            self.clean
            and self.durable
            and all(
                not actor.delivered or (actor is bucket.current and actor.state.phase is Phase.NEW)
                for bucket in self.router.buckets_in_use()
                for actor in bucket.actors
            )
        )

    def house_due(self, now: float) -> bool:
        """True if some actor should be looked at for rotation, may end, or should ask what Redis has."""
        if any(len(bucket.actors) > 1 or bucket.due(now) for bucket in self.router.buckets_in_use()):
            return True
        actors = self.router.actors_in_use()
        asks = any(actor.state.probe_due and actor.state.phase is Phase.ACTIVE for actor in actors)
        return asks or self.looks.due(actors, now)
