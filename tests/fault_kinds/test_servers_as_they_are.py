"""Whatever server it is: keys as a cluster wants them, no version compared, no clock of ours believed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

import redis_counters
from redis_counters import Counters
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.faces.either import FACES, Either, truth
from tests.lua.calls import Bucket
from tests.lua.scenarios import SCENARIOS
from tests.servers import RealServer

PRIMARIES = 3
HASH_SLOTS = 16_384
KEYLESS = {"TIME", "INFO"}
ALL_ARGUMENTS = {"EXISTS"}  # are keys; of the others the first one
OF_REDIS_PY = {"HELLO", "CLIENT", "AUTH", "SELECT", "PING"}
OF_TESTS = {"ECHO", "MONITOR", "FLUSHALL", "CONFIG", "ACL", "KEYS", "DEL", "TYPE", "DUMP", "HLEN", "SET", "RPUSH"}


class Line:
    """A command that the server ran; ``inside``: by a script."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.words: list[str] = line["command"].split(" ")
        self.name = self.words[0].upper()
        self.inside: bool = line["client_type"] == "lua"


class Overheard:
    """All that a server runs between entering and leaving."""

    def __init__(self, server: RealServer) -> None:
        self.client = server.client()
        self.lines: list[Line] = []

    def __enter__(self) -> Overheard:
        make: Any = self.client.monitor
        self.monitor: Any = make()
        self.monitor.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        echo: Any = self.client.echo
        echo("the-end")
        while True:
            line = Line(self.monitor.next_command())
            if line.words == ["ECHO", "the-end"]:
                break
            self.lines.append(line)
        self.monitor.__exit__(None, None, None)

    def scripts(self) -> Iterator[tuple[str, list[str], list[Line]]]:
        """Yield each call's hash, its declared keys, and what ran inside."""
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            at += 1
            assert line.name != "EVAL", "a script was not loaded before"
            if line.name == "EVALSHA":
                inside = []
                while at < len(self.lines) and self.lines[at].inside:
                    inside.append(self.lines[at])
                    at += 1
                count = int(line.words[2])
                yield line.words[1], line.words[3 : 3 + count], inside


async def a_life(counters: Either, client: Any) -> None:
    """Counting up and down in one shard and in sixteen, reading one and many, deleted keys, closing and folding."""
    for _ in range(2):
        counters.incr("x", 10)
        counters.decr("down", 4)
        for i in range(20):
            counters.counter(f"wide{i}", shards=16).incr()
        await counters.flush()
        await counters.get("x", max_age=0)
        await counters.get_many(["x", "down", "wide0", "unknown"], max_age=0)
        await counters.inspect("wide1")
        client.delete(*client.keys("*:c:*:x"), *client.keys("*:c:*:wide3"))


@pytest.mark.parametrize("face", FACES)
def test_no_script_touches_a_key_that_is_not_declared(any_server: RealServer, face: str) -> None:
    """Every command inside of a script has its key among the script's; and where it writes these share a hash slot."""
    client: Any = any_server.client()
    for script in Script:
        client.script_load(scripts.text(script))
    seen = 0

    async def main() -> None:
        for _ in range(3):
            async with Either.on(face, any_server, flush_interval=0.01) as counters:
                await a_life(counters, client)

    with Overheard(any_server) as overheard:
        asyncio.run(main())
    for sha, keys, inside in overheard.scripts():
        if sha != scripts.digest(Script.SLOTS_READ).decode():  # on one server a page is one call
            assert len({key_slot(key.encode()) for key in keys}) == 1, keys
        for line in inside:
            if line.name not in KEYLESS:
                touched = line.words[1:] if line.name in ALL_ARGUMENTS else line.words[1:2]
                assert set(touched) <= set(keys), line.words
                seen += 1
    assert seen > 500


@pytest.mark.slow("every command")
def test_none_does_whatever_it_answers(any_server: RealServer) -> None:
    """As above, for every answer of every script."""
    seen = set()
    for (script, word), scenario in SCENARIOS.items():
        client: Any = any_server.client()
        client.flushall()
        for each in Script:
            client.script_load(scripts.text(each))
        with Overheard(any_server) as overheard:
            scenario(Bucket(any_server.client()))
        for sha, keys, inside in overheard.scripts():
            for line in inside:
                if line.name not in KEYLESS:
                    touched = line.words[1:] if line.name in ALL_ARGUMENTS else line.words[1:2]
                    assert set(touched) <= set(keys), (script, word, line.words)
            seen.add(sha)
    digests = {scripts.digest(script).decode() for script in Script if any(s is script for s, _ in SCENARIOS)}
    assert digests <= seen


@pytest.mark.parametrize("shards", [16, 64])
@pytest.mark.slow("pairs of servers")
def test_shards_lie_on_all_primaries(any_server: RealServer, shards: int) -> None:
    """Were it a cluster of three: every counter with sixteen shards has some on each, and no more than its share."""
    with any_server.client() as client, Counters(client, shards=shards) as counters:
        for i in range(50):
            keys = [part.key for part in counters.inspect(f"n{i}").parts]
            assert len(keys) == shards
            by_primary = [0] * PRIMARIES
            for key in keys:
                by_primary[key_slot(key) * PRIMARIES // HASH_SLOTS] += 1
            assert min(by_primary) >= shards // 8
            assert max(by_primary) <= shards // 2


@pytest.mark.parametrize("face", FACES)
def test_no_version_is_asked(server: RealServer, face: str) -> None:
    """Valkey calls itself Redis 7.2.4 for ever: what a server can do is tried, and its version not even looked at."""
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server, flush_interval=0.01) as counters:
            await a_life(counters, client)

    with Overheard(server) as overheard:
        asyncio.run(main())
    asked = {line.name for line in overheard.lines if not line.inside} - OF_REDIS_PY - OF_TESTS
    assert asked <= {"EVALSHA", "EVAL", "HGETALL", "HMGET", "HSCAN", "SCAN", "TIME", "INFO"}
    assert {tuple(line.words[1:]) for line in overheard.lines if line.name == "INFO"} <= {("memory",)}
    package = Path(redis_counters.__file__).parent
    for file in package.rglob("*.py"):
        if package / "cli" not in file.parents:  # which shows it to people
            assert "redis_version" not in file.read_text(), file


@pytest.mark.parametrize("face", FACES)
def test_clocks_of_clients_do_not_matter(any_server: RealServer, monkeypatch: pytest.MonkeyPatch, face: str) -> None:
    """One client an hour ahead, one an hour behind, and both jump: every count, and every time in Redis, is right."""
    real = time.time
    off = [3600.0, -3600.0]
    client: Any = any_server.client()

    def server_time() -> int:
        seconds: int = client.time()[0]
        return seconds

    async def main() -> None:
        both = []
        for who in range(2):
            monkeypatch.setattr(time, "time", lambda who=who: real() + off[who])
            options: dict[str, Any] = {"rotate_slots": 2, "reassert_window": 0.01, "flush_interval": 0.005}
            both.append(Either.on(face, any_server, buckets=2, **options))
        begun = server_time()
        for n in range(1, 41):
            off[0], off[1] = -off[0], -off[1]
            for counters in both:
                counters.incr("x")
                counters.incr(f"n{n}")
            await both[n % 2].flush()
            assert n <= await both[n % 2].get("x", max_age=0) <= 2 * n
        for counters in both:
            await counters.flush()
        value = await both[0].get("x", max_age=0)
        assert value == 80
        assert abs(abs(value.as_of - real()) - 3600) < 60  # when it was, by the client's own clock
        seen = [
            int(record.split(b" ")[2])
            for registry in client.keys("*}:a")
            for field, record in client.hgetall(registry).items()
            if field.count(b".") == 2
        ]
        assert seen
        assert all(begun <= when <= server_time() for when in seen)
        for counters in both:
            async with counters:
                pass

    asyncio.run(main())
    names = [f"n{n}" for n in range(1, 41)]
    assert truth(any_server, ["x", *names]) == {b"x": 80, **{name.encode(): 2 for name in names}}
