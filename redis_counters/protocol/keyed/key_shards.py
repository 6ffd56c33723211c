"""Key shards: among how many shards a counter's keys are spread, settled once per counter.

A key must always meet its record, so that number never changes. It is kept in shard 0, and asked for again now and
then: if shard 0 was deleted, it has to be written anew, as well as how many shards readers have to read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

from redis_counters.errors import CounterError, NotPermitted, Overflow, Refused, Unavailable, WrongType, quoted
from redis_counters.protocol.keyed.calls import Call, Has, Like, Once, Plain
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.acl import denied_of, lacks_name, named, trials
from redis_counters.protocol.wire.commands import CONTRACTS, Command, ErrorReply, NoAnswer, Script, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.namespace import look_up_namespace, open_namespace, opened_keys
from redis_counters.protocol.wire.refusals import IN_A_CLUSTER, error_for
from redis_counters.protocol.wire.replies import Reply
from redis_counters.protocol.wire.shard_counts import MAX_SHARDS

T = TypeVar("T")
Steps = Generator[list[Command], list[object], T]

MAX_ITEMS = 500  # calls, or names, that one script takes
MAX_ATTEMPTS = 5  # to guess the slice, or to find a registry
MAX_KNOWN = 10_000  # names whose key shards are remembered; the oldest go first
KNOWN_FOR_S = 60.0  # seconds until they are asked for again


class KeyShard(NamedTuple):
    """Among how many shards a counter's keys are spread, and until when that is taken as known."""

    shards: int
    until: float


class KeyShards:
    """A client's knowledge of key shards, and of registries that were lost."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.writer = reads.writer
        self.known: dict[bytes, KeyShard] = {}
        self.lost: set[int] = set()  # buckets without a registry
        self.doubtful = False  # one was lost just now: the namespace's record may be lost with it

    @property
    def keys(self) -> KeySpace:
        return self.writer.router.presumed_keys

    def settle(self, calls: Iterable[Call]) -> Steps[None]:
        """Find out the buckets. Read-only calls do not create the namespace record; they use this client's options."""
        writer = self.writer
        if writer.router.keys is not None:
            return
        if not all(call.only_reads for call in calls):
            yield from self.reopen_namespace()
        elif not all(isinstance(call, Plain) for call in calls):
            (raw,) = yield [look_up_namespace(writer.settings)]
            self.reads.settle(raw)

    def reopen_namespace(self) -> Steps[None]:
        """The namespace has its record."""
        writer = self.writer
        self.doubtful = False
        (raw,) = yield from asked([open_namespace(writer.settings, self.keys.buckets)])
        writer.settle(opened_keys(raw, writer.settings), self.reads.clock())

    def find(self, calls: Iterable[Call], confirmed: set[bytes]) -> Steps[None]:
        """The key shards of all names are known; calls of names for which they cannot be have their outcome."""
        now = self.reads.clock()
        missing: dict[bytes, bool] = {}  # and whether something is to be written
        for call in calls:
            if call.open and isinstance(call, (Once, Like, Has)):
                known = self.known.get(call.name)
                if known is None or known.until <= now:
                    missing[call.name] = missing.get(call.name, False) or not isinstance(call, Has)
        if not missing:
            return
        opening = [name for name, written in missing.items() if written]
        errors = yield from self.open(opening)
        confirmed.update(opening)
        absent = yield from self._look_up([name for name, written in missing.items() if not written], errors)
        for call in calls:
            if call.open and isinstance(call, (Once, Like, Has)):
                call.error = errors.get(call.name)
                if call.name in absent:
                    call.answer = 0  # no key of this counter was used

    def open(self, names: Iterable[bytes]) -> Steps[dict[bytes, CounterError]]:
        """The key shards of these counters are settled; return what went wrong, by name."""
        errors: dict[bytes, CounterError] = {}
        waiting, of = list(names), self.writer.router.shards.of
        for _ in range(MAX_ATTEMPTS):
            if not waiting:
                break
            by_bucket: dict[int, list[bytes]] = {}
            for name in waiting:
                by_bucket.setdefault(self.keys.bucket(name, 0), []).append(name)
            parts = [(bucket, part) for bucket, some in by_bucket.items() for part in pieces(some, MAX_ITEMS)]
            commands = []
            for bucket, part in parts:
                shards0 = (self.keys.shard_key(name, 0)[1] for name in part)
                keys = [self.keys.registries[bucket], self.keys.index(bucket), *shards0]
                commands.append(Command(Script.KEYED_OPEN, keys, [self.generation(bucket), *map(of, part)]))
            answers = yield from asked(commands)
            waiting = []
            for (bucket, part), raw in zip(parts, answers, strict=True):
                try:
                    reply = self.reply(raw, Script.KEYED_OPEN, bucket)
                    if reply is None:
                        waiting += part
                        continue
                    for i, name in enumerate(part):
                        self._learn(name, reply.text(i), errors)
                except CounterError as error:
                    errors.update(dict.fromkeys(part, error))
            if self.doubtful:
                try:
                    yield from self.reopen_namespace()
                except (NotPermitted, Unavailable) as error:  # its server's trouble: other buckets have their registry
                    errors.update(dict.fromkeys(waiting, error))
                    waiting = []
        errors.update((name, Unavailable("the registry is lost again and again")) for name in waiting)
        return errors

    def _look_up(self, names: list[bytes], errors: dict[bytes, CounterError]) -> Steps[set[bytes]]:
        """As `open`, without making anything; return the names of which no key has been used."""
        absent: set[bytes] = set()
        if not names:
            return absent
        answers = yield [Command(None, (self.keys.shard_key(n, 0)[1],), (b"o",), b"HGET") for n in names]
        for name, raw in zip(names, answers, strict=True):
            if raw is None:
                absent.add(name)
                self.known.pop(name, None)
            elif isinstance(raw, ErrorReply):
                errors[name] = refused(name, raw, None)
            elif isinstance(raw, NoAnswer):
                errors[name] = raw.error
            else:
                self._learn(name, raw if isinstance(raw, bytes) else str(raw).encode(), errors)
        return absent

    def _learn(self, name: bytes, answer: bytes, errors: dict[bytes, CounterError]) -> None:
        self.known.pop(name, None)
        if answer.startswith(b"!"):
            errors[name] = refused(name, ErrorReply(answer[1:].decode("utf-8", "replace")), Script.KEYED_OPEN)
        elif not answer.isdigit() or not 1 <= int(answer) <= MAX_SHARDS:
            errors[name] = WrongType(f"counter {quoted(name)}: {quoted(answer[:40])} key shards", counter=name)
        else:
            self.known[name] = KeyShard(int(answer), self.reads.clock() + KNOWN_FOR_S)
            for oldest in list(islice(self.known, max(0, len(self.known) - MAX_KNOWN))):
                del self.known[oldest]

    def generation(self, bucket: int) -> bytes:
        """Return the generation of a registry that is to be made; none, as long as there is one."""
        return self.writer.router.mint()[:5].encode() if bucket in self.lost else b""

    def reply(self, raw: object, script: Script, bucket: int) -> Reply | None:
        """Return the reply; None if the bucket has no registry, so nothing was written. Raises what is refused."""
        if isinstance(raw, ErrorReply):
            raise error_for(raw, script, self.keys.registries[bucket])
        if isinstance(raw, NoAnswer):
            raise raw.error
        reply = Reply(raw, CONTRACTS[script].replies)
        if reply.word == "UNKNOWN":
            self.lost.add(bucket)
            self.doubtful = True
            return None
        self.lost.discard(bucket)
        return reply


def asked(commands: list[Command]) -> Steps[list[object]]:
    """Return the answers; where one says that the user may not run some command, it says which."""
    answers = yield commands
    lacking = [command for command, raw in zip(commands, answers, strict=True) if command.script and lacks_name(raw)]
    if not lacking:
        return answers
    tried = trials(lacking)
    denied = denied_of(tried, (yield tried))
    # SADD cannot be tried without adding something: it is what is left.
    return [named(raw, denied or ["SADD"]) for raw in answers]


def refused(name: bytes, reply: ErrorReply, script: Script | None, what: str = "counter") -> CounterError:
    """Return the error for one counter, or (``what``) one key, that Redis refuses alone."""
    found = error_for(reply, script)
    if type(found) is not Refused or reply.text == IN_A_CLUSTER:
        return found
    kind = WrongType if reply.code == "WRONGTYPE" else Overflow if "overflow" in reply.text else Refused
    return kind(f"{what} {quoted(name)}: {reply.text}", counter=name)
