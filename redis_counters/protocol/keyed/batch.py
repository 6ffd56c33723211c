"""Keyed calls on their way to Redis: which scripts they share, and what the answers mean.

Sans-I/O: `KeyedBatches.apply` yields lists of commands and is given the lists of their answers. It may be driven again
and again with the same calls, after whatever failure: what was counted is not counted twice. Not thread-safe: drivers
lock.

Which slice of time it is, the server says. The client guesses it, by what it has learned of the server's clock, only
because keys must be named before a script runs; a wrong guess is answered with the time, and sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from redis_counters.errors import CounterError, Unavailable, UsageError, quoted
from redis_counters.protocol.keyed.bounded import BRIEF_TTL_MS, KEYED_TTL_MS, BoundedCall, Change, Look
from redis_counters.protocol.keyed.calls import Call, Has, Like, Once, Plain, Seed
from redis_counters.protocol.keyed.key_shards import MAX_ATTEMPTS, MAX_ITEMS, KeyShards, Steps, asked, refused
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.commands import Argument, Command, ErrorReply, NoAnswer, Script, hgetall, pieces
from redis_counters.protocol.wire.replies import BadReply

MIN_SLICE_MS = 10_000  # milliseconds: shorter ones would be over before a command with their names arrives
SCRIPTS: dict[type[Call], Script] = {
    Once: Script.ONCE_APPLY,
    Like: Script.LIKES_APPLY,
    Seed: Script.SLOTS_SEED,
    Change: Script.BOUNDED_APPLY,
}
WITH_RECORDS = (Script.ONCE_APPLY, Script.BOUNDED_APPLY)


class KeyedRequest(NamedTuple):
    """A command and the calls that it carries, in the order of their answers."""

    command: Command
    bucket: int
    calls: Sequence[Call]


class KeyedBatches:
    """Sends calls by key, and keeps what that takes: key shards, and how far servers' clocks are ahead of ours."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.key_shards = KeyShards(reads)
        self.ahead: dict[int, float] = {}  # milliseconds of a bucket's server before our clock

    def apply(self, calls: Iterable[Call]) -> Steps[None]:
        """Every call has its answer or its error. Raises what concerns them all; then some may still be open.

        Cost: one script per bucket, kind of call and `MAX_ITEMS`, all on their way at once; a round trip before that
        for names that were not used lately.
        """
        calls = list(calls)
        expire = self.reads.writer.router.expiries.known
        for call in calls if expire else ():
            if call.name in expire and isinstance(call, (Once, Like, Seed)):
                call.error = UsageError(
                    f"counter {quoted(call.name)} has expire_at, which goes with incr, decr and add only"
                )
        waiting: Sequence[Call] = calls
        confirmed: set[bytes] = set()
        yield from self.key_shards.settle(calls)
        for _ in range(MAX_ATTEMPTS):
            yield from self.key_shards.find(waiting, confirmed)
            requests = list(self._requests([call for call in waiting if call.open]))
            if requests:
                answers = yield from asked([request.command for request in requests])
                for request, raw in zip(requests, answers, strict=True):
                    self._take(request, raw)
            if self.key_shards.doubtful:
                self.key_shards.known.clear()
                yield from self.key_shards.reopen_namespace()
            waiting = [call for call in waiting if call.open]
            if not waiting:
                break
        for call in waiting:
            call.error = Unavailable("the server's clock, or its registry, changes faster than it can be told of")
        # A shard that was new though its counter was known: others may be gone too, and with shard 0 what it says.
        renewed = {call.name for call in calls if isinstance(call, (Once, Like)) and call.answer == b"2"} - confirmed
        yield from self.key_shards.open(renewed)

    # -- what is sent

    def _requests(self, calls: Iterable[Call]) -> Iterator[KeyedRequest]:
        """Yield as few commands as carry these calls."""
        keys = self.key_shards.keys
        groups: dict[tuple[type[Call], int, object], list[Call]] = {}
        places: dict[Call, tuple[bytes, bytes]] = {}  # keys of the shard, and of its users
        shards: dict[tuple[bytes, int], tuple[int, bytes]] = {}  # that were looked up: of many calls they are the same
        for call in calls:
            if isinstance(call, Plain):
                yield KeyedRequest(Command(None, (call.key,), call.args, call.verb), -1, [call])
                continue
            if isinstance(call, BoundedCall):
                bucket, key = keys.bounded_key(call.name)
                places[call] = key, b""
                apart: object = key if isinstance(call, Look) else None
                groups.setdefault((type(call), bucket, apart), []).append(call)
                continue
            known = self.key_shards.known.get(call.name)
            if known is None and not isinstance(call, Seed):
                continue  # forgotten since: the next attempt looks for it
            shard = 0 if known is None or isinstance(call, Seed) else call.hash % known.shards
            if (found := shards.get((call.name, shard))) is None:
                found = shards[call.name, shard] = keys.shard_key(call.name, shard)
            bucket, key = found
            users = keys.users_key(call.name, shard) if isinstance(call, (Like, Has)) else b""
            places[call] = key, users
            apart = call.ttl if isinstance(call, Once) else users if isinstance(call, Has) else None
            groups.setdefault((type(call), bucket, apart), []).append(call)
        for (kind, bucket, apart), group in groups.items():
            for part in pieces(group, MAX_ITEMS):
                if kind is Has:
                    members = [call.user for call in part if isinstance(call, Has)]
                    assert isinstance(apart, bytes)
                    yield KeyedRequest(Command(None, (apart,), members, b"SMISMEMBER"), bucket, part)
                elif isinstance(apart, bytes):
                    yield KeyedRequest(hgetall(apart), bucket, part)
                else:
                    yield KeyedRequest(self._script(kind, bucket, part, places), bucket, part)

    def _script(
        self, kind: type[Call], bucket: int, calls: Sequence[Call], places: dict[Call, tuple[bytes, bytes]]
    ) -> Command:
        space = self.key_shards.keys
        keys: list[bytes] = [space.registries[bucket], space.index(bucket)]
        args: list[Argument] = [self.key_shards.generation(bucket)]
        first = calls[0]
        ttls = [first.ttl] if isinstance(first, Once) else [KEYED_TTL_MS, BRIEF_TTL_MS] if kind is Change else []
        for ttl in ttls:
            length = max(-(-ttl // 2), MIN_SLICE_MS)
            number = int(self._server_now(bucket) // length)
            keys += (space.slice_key(bucket, ttl, number + n) for n in (1, 0, -1, -2))
            args += (length, number, ttl)
        chance = self.reads.writer.router.mint().encode() if kind is Change else b""
        for call in calls:
            shard, users = places[call]
            keys.append(shard)
            if isinstance(call, Once):
                args += (call.digest, call.amount)
            elif isinstance(call, Like):
                keys.append(users)
                args += (call.sign, call.user)
            elif isinstance(call, Seed):
                args += (call.slot, call.total)
            elif isinstance(call, Change):
                args += call.arguments(b"%b%d" % (chance, len(args)))
        return Command(SCRIPTS[kind], keys, args)

    def _server_now(self, bucket: int) -> float:
        """Return what the time of a bucket's server most likely is, in milliseconds."""
        ahead = self.ahead.get(bucket)
        return 1000 * self.reads.wall() if ahead is None else 1000 * self.reads.clock() + ahead

    # -- what is answered

    def _take(self, request: KeyedRequest, raw: object) -> None:
        """Every call of the request has its outcome, but for those that have to be sent again."""
        script, calls = request.command.script, request.calls
        try:
            if script is None:
                self._take_plain(calls, raw, request.command.keys[0])
                return
            reply = self.key_shards.reply(raw, script, request.bucket)
            if reply is None:
                return
            first = 0
            if script in WITH_RECORDS:
                self.ahead[request.bucket] = reply.number(0) - 1000 * self.reads.clock()
                if reply.word == "SLICE":
                    return
                first = 1
            if len(reply.values) != first + len(calls):
                raise BadReply(f"expected {len(calls)} answers, got {len(reply.values) - first}")
            for name in {call.name for call in calls if not isinstance(call, Change)}:
                self.reads.cache.forget(name)
            for i, call in enumerate(calls, first):
                answer = reply.text(i)
                if answer.startswith(b"!") and isinstance(call, Change):
                    call.refuse(answer[1:], self.key_shards.keys.bounded_key(call.name)[1], script)
                elif answer.startswith(b"!"):
                    call.error = refused(call.name, ErrorReply(answer[1:].decode("utf-8", "replace")), script)
                else:
                    call.answer = answer
        except CounterError as error:
            for call in calls:
                if call.open:
                    call.error = error

    def _take_plain(self, calls: Sequence[Call], raw: object, key: bytes) -> None:
        if isinstance(calls[0], Look):
            for call in calls:
                assert isinstance(call, Look)
                call.take(raw, key)
        elif isinstance(raw, ErrorReply):
            for call in calls:
                call.error = refused(call.name, raw, None, "key" if isinstance(call, Plain) else "counter")
        elif isinstance(raw, NoAnswer):
            for call in calls:
                call.error = raw.error
        elif isinstance(calls[0], Plain):
            calls[0].answer = (raw,)
        elif isinstance(raw, list) and len(raw) == len(calls):
            for call, member in zip(calls, raw, strict=True):
                call.answer = member
        else:
            raise BadReply(f"expected {len(calls)} answers, got {type(raw).__name__}")
