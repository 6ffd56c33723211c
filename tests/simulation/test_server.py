"""The server of the simulation answers as Redis does, and holds the same afterwards; and so does fakeredis."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import fakeredis
import pytest
import redis

from redis_counters.drivers.redis_py.errors import error_reply
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Argument, Command, ErrorReply, Script
from redis_counters.protocol.wire.keys import index_of
from tests.servers import RealServer
from tests.simulation import world
from tests.simulation.hashes import Value
from tests.simulation.plan import make_plan
from tests.simulation.server import LuaServer
from tests.simulation.steps import run

TIME = 1_700_000_000
KEYS = [b"{t:0}:a", b"{t:0}:c:0:x", b"{t:0}:c:1:y"]
FIELDS = [b"+", b"-", b"g.1.o+", b"~g.1.o+", b"n"]
NUMBERS = [b"0", b"1", b"-1", b"9", b"10", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"]
VALUES = [*NUMBERS, b"", b"01", b"+1", b" 1", b"text", b"1.0"]


def at_time(script: Script, now: int) -> bytes:
    """Return the script with the time written into it: a server of its own would tell another."""
    text = scripts.text(script)
    for call in (b"redis.call('TIME')", b"call('TIME')"):
        text = text.replace(call, b"({'%d', '0'})" % now)
    assert b"TIME" not in text.split(b"]]", 1)[1]
    return text


def answer(client: Any, *words: bytes | int) -> object:
    """Return a server's answer, undecoded."""
    try:
        found = client.execute_command(*words, NEVER_DECODE=True)
    except redis.ResponseError as error:
        return error_reply(error)
    if isinstance(found, dict):
        return [part for pair in found.items() for part in pair]
    return found


def script_answer(client: Any, command: Command, now: int) -> object:
    assert command.script is not None
    return answer(client, b"EVAL", at_time(command.script, now), len(command.keys), *command.keys, *command.args)


def same(found: object, expected: object, *, words: bool = True) -> bool:
    """True if two answers are the same; of errors their code, and (``words``) of those in a list the whole text."""
    if isinstance(found, ErrorReply) or isinstance(expected, ErrorReply):
        return isinstance(found, ErrorReply) and isinstance(expected, ErrorReply) and code(found) == code(expected)
    if words or not isinstance(found, list) or not isinstance(expected, list):
        return found == expected
    return len(found) == len(expected)


def code(reply: ErrorReply) -> str:
    """Return an error's code; redis-py cuts off the most common one."""
    return reply.code if reply.code.isupper() else "ERR"


def content(client: Any) -> dict[bytes, Value]:
    """Return what a server holds, as the simulation's keeps it: no index, which stays empty in one deployment."""
    keys = [key for key in client.execute_command("KEYS", "*") if client.type(key) != b"zset"]
    return {key: client.hgetall(key) if client.type(key) == b"hash" else client.get(key) for key in keys}


def fill(client: Any, keys: dict[bytes, Value]) -> None:
    """The server holds that, and nothing else."""
    client.flushdb()
    for key, value in keys.items():
        if isinstance(value, dict):
            client.execute_command("HSET", key, *(part for pair in value.items() for part in pair))
        else:
            client.set(key, value)


def random_command(rng: random.Random) -> tuple[bytes, ...]:
    key, fields = rng.choice(KEYS), rng.sample(FIELDS, rng.randint(1, 3))
    pairs = [part for field in fields for part in (field, rng.choice(VALUES))]
    commands: Sequence[tuple[bytes, ...]] = [
        (b"HGET", key, fields[0]),
        (b"HMGET", key, *fields),
        (b"HGETALL", key),
        (b"HSET", key, *pairs),
        (b"HSET", key, *pairs),
        (b"HSETNX", key, *pairs[:2]),
        (b"HDEL", key, *fields),
        (b"HINCRBY", key, fields[0], rng.choice(VALUES)),
        (b"HINCRBY", key, fields[0], rng.choice(NUMBERS)),
        (b"EXISTS", *rng.choices(KEYS, k=rng.randint(1, 3))),
        (b"HEXISTS", key, fields[0]),
        (b"HLEN", key),
        (b"DEL", key),
    ]
    return rng.choice(commands)


def ours(server: LuaServer, words: tuple[bytes, ...]) -> object:
    name, *rest = words
    return server.run(Command(None, (), tuple(rest), name))


def test_commands_answer_as_redis_does(any_server: RealServer) -> None:
    """Thousands of random commands, on hashes, on keys of another type and on none."""
    client: Any = any_server.client()
    rng = random.Random(1)
    server = LuaServer(lambda: float(TIME))
    for _ in range(60):
        server.database.restore({})
        client.flushdb()
        if rng.random() < 0.3:
            server.database.keys[KEYS[0]] = b"text"
            client.set(KEYS[0], b"text")
        for _ in range(60):
            words = random_command(rng)
            found, expected = ours(server, words), answer(client, *words)
            expected = int(expected) if isinstance(expected, bool) else expected
            assert same(found, expected), (words, found, expected)
        assert server.database.keys == content(client)


def random_call(rng: random.Random, actors: list[bytes]) -> Command:
    """Return a call of a script with more or less sensible arguments."""
    registry, shards = KEYS[0], tuple(rng.choices(KEYS[1:], k=rng.randint(1, 3)))
    actor = rng.choice([*actors, b"gen00.9.none"])
    number: Argument = rng.choice([b"0", b"1", b"2", b"3", b"7", b"x"])
    kind = rng.choice([*Script])
    if kind is Script.NAMESPACE_OPEN:
        return Command(kind, (b"t:meta",), (1, 2, b"main"))
    if kind is Script.ACTOR_OPEN:
        owner = b"owner%08d" % rng.randrange(6)
        return Command(
            kind,
            (registry, index_of(registry)),
            (
                owner,
                rng.choice([b"", b"", actor]),
                b"gen0%d" % rng.randrange(2),
                b"a b",
                rng.choice([b"0", b"9", b"x"]),
            ),
        )
    if kind is Script.ACTOR_CLOSE:
        return Command(kind, (registry,), (actor, number))
    if kind is Script.ACTORS_REAP:
        return Command(kind, (registry,), (number, actor))
    if kind is Script.ACTORS_CLEAN:
        return Command(kind, (registry,), (rng.choice([0, TIME + 1]), 0, actor))
    if kind is Script.JANITOR_LEASE:
        return Command(kind, (b"t:meta",), (number,))
    if kind is Script.SLOTS_FOLD:
        return Command(kind, (registry, *shards), (actor, 0))
    if kind is Script.SLOTS_READ:
        return Command(kind, shards)
    counts = [0] * 8
    totals: list[bytes | int] = []
    kinds = sorted(rng.randrange(7) for _ in shards)
    for which in kinds:
        counts[which] += 1
        total = rng.choice([1, 9, 10, 10**18, 2**63 - 1])
        totals += [total, rng.choice([1, total])] if which in (4, 5) else [total]
    if rng.random() < 0.3:  # what expires does so in the past of every clock, or in a far future
        counts[7] = 1
        totals += [rng.choice([0, 1, 1, 2, len(shards)]), rng.choice([1, 1000 * TIME, 2**52, 2**52 + 1])]
    seq, base = rng.choice([b"1", b"2", b"3", b"9", b"50", b"no"]), rng.choice([0, 0, 1, 2])
    return Command(
        Script.SLOTS_MERGE,
        (registry, index_of(registry), *shards),
        (actor, seq, base, rng.choice([0, 1]), *counts, *totals),
    )


def actors_in(server: LuaServer) -> list[bytes]:
    return [field for field in server.database.fields(KEYS[0]) if field.count(b".") == 2 and field[:1] != b"@"]


@pytest.mark.parametrize("other", ["redis", "fakeredis"])
def test_scripts_answer_as_on_redis(any_server: RealServer, other: str) -> None:
    """Random calls, up to int64 and with arguments that make no sense; fakeredis words some errors in its own way."""
    client: Any = any_server.client() if other == "redis" else fakeredis.FakeRedis()
    rng = random.Random(2)
    server = LuaServer(lambda: float(TIME))
    for turn in range(40 if other == "redis" else 8):
        server.database.restore({})
        client.flushdb()
        if turn % 4 == 0 and other == "redis":  # fakeredis lets pcall fail on a key of another type
            server.database.keys[KEYS[2]] = b"text"
            client.set(KEYS[2], b"text")
        for _ in range(50):
            command = random_call(rng, actors_in(server))
            found, expected = server.run(command, text=True), script_answer(client, command, TIME)
            assert same(found, expected, words=other == "redis"), (command, found, expected)
        assert server.database.keys == content(client)


class Recorder(LuaServer):
    """Remembers the calls of scripts with their answers, and what the state was where something else has changed it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.before: dict[bytes, Value] = {}
        self.calls: list[tuple[Command, int, object]] = []
        self.states: dict[int, dict[bytes, Value]] = {}
        recorders.append(self)

    def run(self, command: Command, *, text: bool = False) -> object:
        if self.database.keys != self.before:
            self.states[len(self.calls)] = self.copied()
        found = super().run(command, text=text)
        if command.script is not None and not (isinstance(found, ErrorReply) and found.code == "NOSCRIPT"):
            self.calls.append((command, int(self.database.clock()), found))
        self.before = self.copied()
        return found

    def copied(self) -> dict[bytes, Value]:
        return {key: dict(v) if isinstance(v, dict) else v for key, v in self.database.keys.items()}


recorders: list[Recorder] = []


@contextmanager
def recorded() -> Iterator[list[Recorder]]:
    recorders.clear()
    with mock.patch.object(world, "LuaServer", Recorder):
        yield recorders


@pytest.mark.parametrize("seed", range(12))
def test_a_schedule_ends_in_the_same_state_on_redis(any_server: RealServer, seed: int) -> None:
    """Every script of a simulated run gets the same answer from Redis, and in the end the same is there."""
    with recorded() as found:
        plan = make_plan(seed)  # (the time of a schedule is long over for Redis)
        run(replace(plan, faults=plan.faults - {"expires"}))
    (recorder,) = found
    client: Any = any_server.client()
    for n, (command, now, expected) in enumerate(recorder.calls):
        if n in recorder.states:
            fill(client, recorder.states[n])
        assert same(script_answer(client, command, now), expected), command
    assert content(client) == recorder.before
    assert len(recorder.calls) > 20
