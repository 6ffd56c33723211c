"""Keyed calls on their way to Redis: which scripts they share, and what the answers mean.

Sans-I/O: `Keyed.apply` yields lists of commands and is given the lists of their answers. It may be driven again and
again with the same calls, after whatever failure: what was counted is not counted twice. Not thread-safe: drivers lock.

Which slice of time it is, the server says. The client guesses it, by what it has learned of the server's clock, only
because keys must be named before a script runs; a wrong guess is answered with the time, and sent again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from redis_counters.errors import CounterError, Overflow, Refused, Unavailable, WrongType
from redis_counters.protocol.commands import CONTRACTS, Argument, Command, ErrorReply, Script
from redis_counters.protocol.keyed_calls import Call, Has, Like, Once, Plain, Seed
from redis_counters.protocol.keys import KeySpace
from redis_counters.protocol.namespace import look_up_namespace, open_namespace, opened_keys
from redis_counters.protocol.reads import Reads
from redis_counters.protocol.refusals import error_for
from redis_counters.protocol.replies import BadReply, Reply
from redis_counters.protocol.values import name_shown

T = TypeVar("T")
Steps = Generator[list[Command], list[object], T]

MOST_ITEMS = 500  # calls that one script takes
MOST_ATTEMPTS = 5  # to guess the slice, or to find a registry
MOST_HOMES = 10_000  # names whose key shards are remembered; the oldest go first
HOME_AGE = 60.0  # seconds until they are asked for again: shard 0 may have been deleted, and then must tell them anew
LEAST_SLICE = 10_000  # milliseconds: shorter ones would be over before a command with their names arrives
SCRIPTS: dict[type[Call], Script] = {
    Once: Script.ONCE_APPLY,
    Like: Script.LIKES_APPLY,
    Seed: Script.SLOTS_SEED,
}


class Home(NamedTuple):
    """Among how many shards a counter's keys are spread, and until when that is taken as known."""

    shards: int
    until: float


class Request(NamedTuple):
    """A command and the calls that it carries, in the order of their answers."""

    command: Command
    bucket: int
    calls: Sequence[Call]


class Keyed:
    """What a client knows of the homes of keys, and of the servers' clocks."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.writer = reads.writer
        self.homes: dict[bytes, Home] = {}
        self.ahead: dict[int, float] = {}  # milliseconds of a bucket's server before our clock
        self.lost: set[int] = set()  # buckets without a registry
        self.doubtful = False  # one was lost just now: the namespace's record may be lost with it

    def apply(self, calls: Iterable[Call]) -> Steps[None]:
        """Every call has its answer or its error. Raises what concerns them all; then some may still be open.

        Cost: one script per bucket, kind of call and `MOST_ITEMS`, all on their way at once; a round trip before that
        for names that were not used lately.
        """
        calls = list(calls)
        waiting: Sequence[Call] = calls
        confirmed: set[bytes] = set()
        yield from self._settle(calls)
        for _ in range(MOST_ATTEMPTS):
            yield from self._find_homes(waiting, confirmed)
            requests = list(self._requests([call for call in waiting if call.open]))
            if requests:
                answers = yield [request.command for request in requests]
                for request, raw in zip(requests, answers, strict=True):
                    self._take(request, raw)
            if self.doubtful:
                self.homes.clear()
                yield from self._reopen_namespace()
            waiting = [call for call in waiting if call.open]
            if not waiting:
                break
        for call in waiting:
            call.error = Unavailable("the server's clock, or its registry, changes faster than it can be told of")
        # A shard that was new though its counter was known: others may be gone too, and with shard 0 what it tells.
        renewed = {call.name for call in calls if isinstance(call, (Once, Like)) and call.answer == b"2"} - confirmed
        yield from self._open(renewed)

    # -- where things are

    @property
    def _keys(self) -> KeySpace:
        settings = self.writer.settings
        return self.writer.keys or KeySpace(settings.namespace, settings.buckets)

    def _settle(self, calls: Iterable[Call]) -> Steps[None]:
        """The buckets are known. Who only reads makes no record of the namespace, and goes by his own options."""
        writer = self.writer
        if writer.keys is not None:
            return
        if any(not isinstance(call, (Has, Plain)) for call in calls):
            yield from self._reopen_namespace()
        elif any(isinstance(call, Has) for call in calls):
            (raw,) = yield [look_up_namespace(writer.settings)]
            self.reads.settle(raw)

    def _reopen_namespace(self) -> Steps[None]:
        """The namespace has its record."""
        writer = self.writer
        self.doubtful = False
        (raw,) = yield [open_namespace(writer.settings, self._keys.buckets)]
        writer.settle(opened_keys(raw, writer.settings), self.reads.clock())

    def _find_homes(self, calls: Iterable[Call], confirmed: set[bytes]) -> Steps[None]:
        """The key shards of all names are known; calls of names for which they cannot be have their outcome."""
        now = self.reads.clock()
        missing: dict[bytes, bool] = {}  # and whether something is to be written
        for call in calls:
            if call.open and isinstance(call, (Once, Like, Has)):
                home = self.homes.get(call.name)
                if home is None or home.until <= now:
                    missing[call.name] = missing.get(call.name, False) or not isinstance(call, Has)
        if not missing:
            return
        opening = [name for name, written in missing.items() if written]
        errors = yield from self._open(opening)
        confirmed.update(opening)
        absent = yield from self._look_up([name for name, written in missing.items() if not written], errors)
        for call in calls:
            if call.open and isinstance(call, (Once, Like, Has)):
                call.error = errors.get(call.name)
                if call.name in absent:
                    call.answer = 0  # nobody has used a key of this counter

    def _open(self, names: Iterable[bytes]) -> Steps[dict[bytes, CounterError]]:
        """The key shards of these counters are settled; return what went wrong, by name."""
        errors: dict[bytes, CounterError] = {}
        waiting, of = list(names), self.writer.shards.of
        for _ in range(MOST_ATTEMPTS):
            if not waiting:
                break
            by_bucket: dict[int, list[bytes]] = {}
            for name in waiting:
                by_bucket.setdefault(self._keys.bucket(name, 0), []).append(name)
            parts = [(bucket, part) for bucket, some in by_bucket.items() for part in _pieces(some)]
            commands = []
            for bucket, part in parts:
                keys = [self._keys.registries[bucket], *(self._keys.shard_key(name, 0)[1] for name in part)]
                commands.append(Command(Script.KEYED_OPEN, keys, [self._generation(bucket), *map(of, part)]))
            answers = yield commands
            waiting = []
            for (bucket, part), raw in zip(parts, answers, strict=True):
                try:
                    reply = self._reply(raw, Script.KEYED_OPEN, bucket)
                    if reply is None:
                        waiting += part
                        continue
                    for i, name in enumerate(part):
                        self._learn(name, reply.text(i), errors)
                except CounterError as error:
                    errors.update(dict.fromkeys(part, error))
            if self.doubtful:
                yield from self._reopen_namespace()
        errors.update((name, Unavailable("the registry is lost again and again")) for name in waiting)
        return errors

    def _look_up(self, names: list[bytes], errors: dict[bytes, CounterError]) -> Steps[set[bytes]]:
        """As `_open`, without making anything; return the names of which no key has been used."""
        absent: set[bytes] = set()
        if not names:
            return absent
        answers = yield [Command(None, (self._keys.shard_key(n, 0)[1],), (b"o",), b"HGET") for n in names]
        for name, raw in zip(names, answers, strict=True):
            if raw is None:
                absent.add(name)
                self.homes.pop(name, None)
            elif isinstance(raw, ErrorReply):
                errors[name] = _refused(name, raw, None)
            else:
                self._learn(name, raw if isinstance(raw, bytes) else str(raw).encode(), errors)
        return absent

    def _learn(self, name: bytes, told: bytes, errors: dict[bytes, CounterError]) -> None:
        self.homes.pop(name, None)
        if told.startswith(b"!"):
            errors[name] = _refused(name, ErrorReply(told[1:].decode("utf-8", "replace")), Script.KEYED_OPEN)
        elif not told.isdigit() or told == b"0":
            errors[name] = WrongType(f"counter {name_shown(name)!r}: {told[:40]!r} key shards", counter=name)
        else:
            self.homes[name] = Home(int(told), self.reads.clock() + HOME_AGE)
            self.writer.shards.learn(name, int(told))
            for oldest in list(islice(self.homes, max(0, len(self.homes) - MOST_HOMES))):
                del self.homes[oldest]

    def _generation(self, bucket: int) -> bytes:
        """Return the generation of a registry that is to be made; none, as long as there is one."""
        return self.writer.mint()[:5].encode() if bucket in self.lost else b""

    # -- what is sent

    def _requests(self, calls: Iterable[Call]) -> Iterator[Request]:
        """Yield as few commands as carry these calls."""
        keys = self._keys
        groups: dict[tuple[type[Call], int, object], list[Call]] = {}
        places: dict[Call, tuple[bytes, bytes]] = {}  # keys of the shard, and of its users
        for call in calls:
            if isinstance(call, Plain):
                yield Request(Command(None, (call.key,), call.args, call.verb), -1, [call])
                continue
            home = self.homes.get(call.name)
            if home is None and not isinstance(call, Seed):
                continue  # forgotten since: the next attempt looks for it
            shard = 0 if home is None or isinstance(call, Seed) else call.hash % home.shards
            bucket, key = keys.shard_key(call.name, shard)
            users = keys.users_key(call.name, shard) if isinstance(call, (Like, Has)) else b""
            places[call] = key, users
            apart: object = call.ttl if isinstance(call, Once) else users if isinstance(call, Has) else None
            groups.setdefault((type(call), bucket, apart), []).append(call)
        for (kind, bucket, apart), group in groups.items():
            for part in _pieces(group):
                if kind is Has:
                    told = [call.user for call in part if isinstance(call, Has)]
                    assert isinstance(apart, bytes)
                    yield Request(Command(None, (apart,), told, b"SMISMEMBER"), bucket, part)
                else:
                    yield Request(self._script(kind, bucket, part, places), bucket, part)

    def _script(
        self, kind: type[Call], bucket: int, calls: Sequence[Call], places: dict[Call, tuple[bytes, bytes]]
    ) -> Command:
        keys: list[bytes] = [self._keys.registries[bucket]]
        args: list[Argument] = [self._generation(bucket)]
        first = calls[0]
        if isinstance(first, Once):
            length = max(-(-first.ttl // 2), LEAST_SLICE)
            number = int(self._server_now(bucket) // length)
            keys += (self._keys.slice_key(bucket, first.ttl, number + n) for n in (1, 0, -1, -2))
            args += (length, number, first.ttl)
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
        return Command(SCRIPTS[kind], keys, args)

    def _server_now(self, bucket: int) -> float:
        """Return what the time of a bucket's server most likely is, in milliseconds."""
        ahead = self.ahead.get(bucket)
        return 1000 * self.reads.wall() if ahead is None else 1000 * self.reads.clock() + ahead

    # -- what is answered

    def _reply(self, raw: object, script: Script, bucket: int) -> Reply | None:
        """Return the reply; None if the bucket has no registry, so nothing was written. Raises what is refused."""
        if isinstance(raw, ErrorReply):
            raise error_for(raw, script)
        reply = Reply(raw, CONTRACTS[script].replies)
        if reply.word == "UNKNOWN":
            self.lost.add(bucket)
            self.doubtful = True
            return None
        self.lost.discard(bucket)
        return reply

    def _take(self, request: Request, raw: object) -> None:
        """Every call of the request has its outcome, but for those that have to be sent again."""
        script, calls = request.command.script, request.calls
        try:
            if script is None:
                self._take_plain(calls, raw)
                return
            reply = self._reply(raw, script, request.bucket)
            if reply is None:
                return
            first = 0
            if script is Script.ONCE_APPLY:
                self.ahead[request.bucket] = reply.number(0) - 1000 * self.reads.clock()
                if reply.word == "SLICE":
                    return
                first = 1
            if len(reply.values) != first + len(calls):
                raise BadReply(f"expected {len(calls)} answers, got {len(reply.values) - first}")
            for i, call in enumerate(calls, first):
                answer = reply.text(i)
                if answer.startswith(b"!"):
                    call.error = _refused(call.name, ErrorReply(answer[1:].decode("utf-8", "replace")), script)
                else:
                    call.answer = answer
                    self.reads.forget(call.name)
        except CounterError as error:
            for call in calls:
                if call.open:
                    call.error = error

    def _take_plain(self, calls: Sequence[Call], raw: object) -> None:
        if isinstance(raw, ErrorReply):
            for call in calls:
                call.error = _refused(call.name, raw, None)
        elif isinstance(calls[0], Plain):
            calls[0].answer = (raw,)
        elif isinstance(raw, list) and len(raw) == len(calls):
            for call, member in zip(calls, raw, strict=True):
                call.answer = member
        else:
            raise BadReply(f"expected {len(calls)} answers, got {type(raw).__name__}")


def _refused(name: bytes, reply: ErrorReply, script: Script | None) -> CounterError:
    """Return the error for one counter, or one key, that Redis refuses alone."""
    found = error_for(reply, script)
    if type(found) is not Refused:
        return found
    kind = WrongType if reply.code == "WRONGTYPE" else Overflow if "overflow" in reply.text else Refused
    return kind(f"counter {name_shown(name)!r}: {reply.text}", counter=name)


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), MOST_ITEMS):
        yield items[start : start + MOST_ITEMS]
