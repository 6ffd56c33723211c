"""`reset` and `delete`: what was counted is gone, what is counted at the same time is not, whatever arrives when."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_counters import (
    Counters,
    Durability,
    Event,
    EventKind,
    NotPermitted,
    Outcome,
    Refused,
    Unavailable,
    Unconfirmed,
    UsageError,
    WrongType,
)
from redis_counters.drivers import deadline
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.testing import LossyLink
from tests.cluster.support import lose_one
from tests.drivers.test_durability import follower_of
from tests.faces.either import FACES, Either, client_of, closed, truth
from tests.servers import NOWHERE, RealServer
from tests.topologies.clusters import Cluster

WAYS = ("reset", "delete")

both = pytest.mark.parametrize("way", WAYS)
faces = pytest.mark.parametrize("face", FACES)


def keys_of(server: RealServer, name: str) -> list[bytes]:
    client: Any = server.client()
    return sorted(key for key in client.keys("*") if b"}:x" not in key and key.endswith(b":" + name.encode()))


@faces
@both
def test_the_counter_is_0_and_counts_again(server: RealServer, face: str, way: str) -> None:
    """With what is buffered, whoever reads; several shards, a base, both signs; another counter is left alone."""

    async def main() -> None:
        async with Either.on(face, server) as gone:
            gone.add("x", 100)
            gone.counter("wide", shards=4).incr(5)
        async with Either.on(face, server, flush_interval=60, max_age=60) as ours, Either.on(face, server) as theirs:
            theirs.add("x", -30)
            theirs.incr("wide", 2)
            theirs.incr("other", 9)
            await theirs.flush()
            ours.incr("x", 3)
            ours.incr("wide", 3)
            take = getattr(ours, way)
            assert await ours.get_many(["x", "wide", "never counted"]) == {"x": 73, "wide": 10, "never counted": 0}
            assert await take("x") == 73
            assert await take("wide") == 10
            assert await take("never counted") == 0
            assert await ours.get_many(["x", "wide", "never counted"]) == {"x": 0, "wide": 0, "never counted": 0}
            for counters in (ours, theirs):
                assert await counters.get_many(["x", "wide", "other"], max_age=0) == {"x": 0, "wide": 0, "other": 9}
            assert await ours.get("x") == 0
            ours.incr("x")
            theirs.incr("x", 10)
            theirs.incr("wide")
            assert await ours.get("x") == 1
            await theirs.flush()
            await ours.flush()
            for counters in (ours, theirs):
                assert await counters.get_many(["x", "wide"], max_age=0) == {"x": 11, "wide": 1}
            assert await take("x") == 11
            assert await take("x") == 0
        assert truth(server, ["x", "wide", "other"]) == {b"x": 0, b"wide": 1, b"other": 9}

    asyncio.run(main())


@faces
def test_a_deleted_counter_leaves_nothing(any_server: RealServer, face: str) -> None:
    """But for a number of shards; and its own process is not startled."""
    events: list[Event] = []

    async def main() -> None:
        for _ in range(8):  # each in a shard of its own choice; who chooses another one than 0 tells of them
            async with Either.on(face, any_server) as counters:
                counters.counter("wide", shards=4).incr()
        async with Either.on(face, any_server, observer=events.append) as counters:
            counters.incr("x", 5)
            counters.incr("wide", 5)
            await counters.flush()
            counters.incr("x", 5)
            assert await counters.delete("x") == 10
            assert await counters.delete("wide") == 13
            assert keys_of(any_server, "x") == []
            (left,) = keys_of(any_server, "wide")
            assert set(any_server.client().hgetall(left)) == {b"k", b"d"}
            counters.incr("x")
            counters.decr("wide", 2)
            await counters.flush()
            assert await counters.get_many(["x", "wide"], max_age=0) == {"x": 1, "wide": -2}
            assert (await counters.inspect("wide")).shards == 4
        assert EventKind.SHARD_MISSING not in {event.kind for event in events}
        assert truth(any_server, ["x", "wide"]) == {b"x": 1, b"wide": -2}

    asyncio.run(main())


@both
def test_handles_do_it_too(any_server: RealServer, way: str) -> None:
    with Counters(any_server.client()) as counters:
        counter = counters.counter("x")
        counter.incr(7)
        assert getattr(counter, way)() == 7
        assert counter.value() == 0

    async def main() -> None:
        async with Either.on("asyncio", any_server) as theirs:
            counter = theirs.counter("x")
            counter.incr(7)
            assert await getattr(counter, way)() == 7
            assert await counter.value() == 0

    asyncio.run(main())


@both
def test_likes_keys_and_seeds(any_server: RealServer, way: str) -> None:
    """Nobody likes; a key that has counted does not count again; a seed counts what is above what was seen of it."""
    with Counters(any_server.client(), shards={"": 1, "wide": 4}) as counters:
        for name in ("likes", "wide likes"):
            likes = counters.likes(name)
            assert all(likes.like(user) for user in ("ann", "bob", "cy"))
            assert getattr(counters, way)(name) == 3
            assert likes.value() == 0
            assert not likes.has("ann")
            assert not likes.unlike("bob")
            assert likes.like("ann")
            assert likes.value(max_age=0) == 1
        for name in ("once", "wide once"):
            assert counters.incr_once(name, "key", 5)
            assert getattr(counters, way)(name) == 5
            assert not counters.incr_once(name, "key", 5)
            assert counters.incr_once(name, "another")
            assert counters.get(name, max_age=0) == 1
        counters.seed("seed", 100, "token")
        assert getattr(counters, way)("seed") == 100
        counters.seed("seed", 100, "token")
        assert counters.get("seed", max_age=0) == (0 if way == "reset" else 100)
        counters.seed("seed", 103, "token")
        assert counters.get("seed", max_age=0) == (3 if way == "reset" else 103)


@both
def test_a_counter_that_expires(any_server: RealServer, way: str) -> None:
    """It goes on to expire when it would have."""
    with Counters(any_server.client()) as counters:
        counter = counters.counter("x", expire_at=time.time() + 100)
        counter.incr(5)
        assert getattr(counter, way)() == 5
        counter.incr(2)
        counters.flush()
        assert counter.value(max_age=0) == 2
        client: Any = any_server.client()
        (key,) = keys_of(any_server, "x")
        assert 0 < client.ttl(key) <= 100


@both
def test_what_is_counted_meanwhile_is_neither_lost_nor_counted_twice(any_server: RealServer, way: str) -> None:
    """What all calls took away, and what is left, is what was counted; by two at the same time, in many shards."""
    over, counted = threading.Event(), [0, 0]
    taken: list[int] = []

    def count(number: int) -> None:
        with Counters(any_server.client(), flush_interval=0.002) as counters:
            counter = counters.counter("x", shards=3)
            while not over.is_set():
                counter.incr(1 + number)
                counted[number] += 1 + number
                if counted[number] % 64 < 2:
                    time.sleep(0.001)

    def take() -> None:
        with Counters(any_server.client()) as counters:
            taken.extend(getattr(counters, way)("x") for _ in range(40))

    counting = [threading.Thread(target=count, args=(number,)) for number in range(2)]
    taking = [threading.Thread(target=take) for _ in range(2)]
    for thread in (*counting, *taking):
        thread.start()
    for thread in taking:
        thread.join()
    over.set()
    for thread in counting:
        thread.join()
    left = truth(any_server, ["x"])[b"x"]
    assert len(taken) == 80
    if way == "reset":
        assert sum(taken) + left == sum(counted)
    else:  # of a flush that was not answered yet, something may stay; it is not lost
        assert sum(counted) <= sum(taken) + left
    with Counters(any_server.client()) as counters:
        assert getattr(counters, way)("x") == left
        assert counters.get("x", max_age=0) == 0


@faces
@both
def test_a_lost_reply(any_server: RealServer, face: str, way: str) -> None:
    """It is done again, by the client or by the caller, and takes away no more than there was."""

    async def main() -> None:
        with LossyLink(any_server.url) as link:
            async with Either.url(face, link.url) as counters:
                counters.incr("x", 5)
                await counters.flush()
                link.drop_reply(every=1, commands=["EVALSHA", "EVAL"], times=1)
                for _ in range(3):
                    try:
                        taken = await getattr(counters, way)("x")
                        break
                    except Unavailable:
                        continue
                assert link.dropped == 1
                assert taken in (0, 5)
                counters.incr("x", 2)
                await counters.flush()
                assert await counters.get("x", max_age=0) == 2
        assert truth(any_server, ["x"]) == {b"x": 2}

    asyncio.run(main())


@pytest.mark.every(3, "a second each")
@faces
@both
def test_it_is_answered_when_it_is_durable(private_server: RealServer, face: str, way: str) -> None:
    """Else Unconfirmed: it is done, as the primary has it, and may be repeated."""

    async def main() -> None:
        durability = Durability(replicas=1, timeout=4.5)
        with follower_of(private_server) as follower:
            async with Either.on(face, private_server, durability=durability) as counters:
                for total in range(1, 10):
                    counters.incr("x", total)
                    private_server.client().script_flush()  # then the text follows, and must be confirmed too
                    assert await getattr(counters, way)("x") == total
                    assert truth(follower, ["x"]) == {b"x": 0}
        async with Either.on(face, private_server, durability=Durability(replicas=1, timeout=0.05)) as counters:
            with pytest.raises(Unconfirmed, match=rf"'x' was {way if way == 'reset' else 'deleted'}.*applied"):
                await getattr(counters, way)("x")
        async with Either.on(face, private_server) as counters:
            counters.incr("x", 3)
            await counters.flush()
        async with Either.on(face, private_server, durability=Durability(replicas=1, timeout=0.05)) as counters:
            with pytest.raises(Unconfirmed):
                await getattr(counters, way)("x")
            assert truth(private_server, ["x"]) == {b"x": 0}

    asyncio.run(main())


@faces
@both
def test_in_a_cluster(cluster: Cluster, face: str, way: str) -> None:
    """Shards on several servers."""

    async def main() -> None:
        async with Either.url(face, cluster.url, shards=8) as counters, Either.url(face, cluster.url) as other:
            for name in ("x", "y"):
                counters.incr(name, 7)
                other.decr(name, 2)
            await other.flush()
            assert await getattr(counters, way)("x") == 5
            assert await other.get_many(["x", "y"], max_age=0) == {"x": 0, "y": 5}
            other.incr("x", 4)
            await other.flush()
            assert await counters.get("x", max_age=0) == 4
            assert await getattr(other, way)("y") == 5

    asyncio.run(main())


@faces
@both
def test_each_server_of_a_cluster_confirms(private_cluster: Cluster, face: str, way: str) -> None:
    async def main() -> None:
        patient, quick = (Durability(replicas=1, timeout=seconds) for seconds in (4.5, 0.05))
        async with Either.url(face, private_cluster.url, shards=16, durability=patient) as counters:
            counters.incr("x", 5)
            await counters.flush()
            private_cluster.reset_stats()
            assert await getattr(counters, way)("x") == 5
            waits = {node.port: stats.get("wait", 0) for node, stats in private_cluster.commandstats().items()}
            assert all(waits[node.port] for node in private_cluster.primaries()), waits
        for follower in private_cluster.followers_of(private_cluster.primaries()[1]):
            follower.kill()
        async with Either.url(face, private_cluster.url, shards=16, durability=quick) as counters:
            with pytest.raises(Unconfirmed, match=r"'x' was"):
                await getattr(counters, way)("x")

    asyncio.run(main())


@faces
@both
def test_redis_is_away(monkeypatch: pytest.MonkeyPatch, face: str, way: str) -> None:
    """The error says whether it may be done: not, where what is flushed first had no answer. The counter is named."""
    monkeypatch.setattr(deadline, "CALL_TIMEOUT_S", 0.3)
    was = "reset" if way == "reset" else "deleted"

    async def main() -> None:
        counters = Either.url(face, f"redis://localhost:{NOWHERE}", flush_interval=0.01)
        with pytest.raises(
            Unavailable, match=r"^counter 'x': .*; it may have been applied, and may be repeated$"
        ) as may:
            await getattr(counters, way)("x")
        counters.incr("x", 3)
        with pytest.raises(
            Unavailable, match=f"^counter 'x' was not {was}, as the flush before it failed: .*; kept, "
        ) as did:
            await getattr(counters, way)("x")
        assert (may.value.outcome, did.value.outcome) == (Outcome.UNKNOWN, Outcome.NOT_APPLIED)
        assert did.value.pending == {"x": 3}
        assert did.value.__cause__ is not None
        with pytest.raises(Unavailable):
            await counters.close(0.1)

    asyncio.run(main())


@faces
@both
def test_what_is_refused(server: RealServer, face: str, way: str) -> None:
    """A key that holds something else: WrongType, and nothing is changed; of other counters it says nothing."""
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server) as counters:
            counters.incr("x")
            counters.incr("y", 4)
            await counters.flush()
            (key,) = keys_of(server, "x")
            client.delete(key)
            client.set(key, "something else")
            counters.incr("x")
            take = getattr(counters, way)
            assert await take("y") == 4
            with pytest.raises(WrongType, match="x"):
                await take("x")
            assert client.get(key) == b"something else"
            client.delete(key)
            await counters.flush()
            with pytest.raises(TypeError):
                await take(5)
        with pytest.raises(UsageError, match="closed"):
            await take("x")

    asyncio.run(main())


def none(face: str) -> Any:
    """Return a policy to try nothing again."""
    return Retry(NoBackoff(), 0) if face == "blocking" else AsyncioRetry(NoBackoff(), 0)


def filled(server: RealServer, name: str) -> list[bytes]:
    """Return the keys of 4 shards, in which 10, 20, 30 and 40 were counted."""
    keys = [KeySpace(b"rc", 16).shard_key(name.encode(), n)[1] for n in range(4)]
    client: Any = server.client()
    for n, key in enumerate(keys):
        client.hset(key, mapping={"d": f"gen.{n}", "+": 10 + 10 * n} | ({} if n else {"k": 4}))
    return keys


@faces
@both
@pytest.mark.parametrize("spoilt", [0, 2])
def test_what_was_taken_away_is_told_though_a_shard_fails(
    any_server: RealServer, face: str, way: str, spoilt: int
) -> None:
    """A field of somebody else's stands in one of 4 shards; the others are done, and the error says how much."""
    client: Any = any_server.client()
    shard = filled(any_server, "x")[spoilt]
    client.hset(shard, "somebody's+", "else")
    left = 10 + 10 * spoilt

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            told = rf"'x': .*taken away all the same, in 3 shards: {100 - left}$" if spoilt else "'x'"
            with pytest.raises(Refused, match=told) as raised:
                await getattr(counters, way)("x")
            # In shard 0 it is seen before anything is done.
            assert (raised.value.taken, raised.value.counter) == (100 - left if spoilt else 0, b"x")
            client.hdel(shard, "somebody's+")
            assert await getattr(counters, way)("x") == (100 if spoilt == 0 else left)
            assert await counters.get("x", max_age=0) == 0

    asyncio.run(main())


@faces
@both
def test_what_was_taken_away_is_told_though_shard_0_is_not_reached(any_server: RealServer, face: str, way: str) -> None:
    """It comes last, and the connection breaks: of it nothing is known, of the others it is."""
    filled(any_server, "x")

    async def main() -> None:
        with LossyLink(any_server.url) as link:
            client = client_of(face, any_server, port=int(link.url.rsplit(":")[-1].split("/")[0]), retry=none(face))
            async with Either(face, client) as counters:
                assert await getattr(counters, way)("other") == 0  # the script is known there from now on
                assert await counters.get("x") == 100
                for n in (4, 5):  # an ask is made a second time
                    link.cut_before(every=n, commands=["EVALSHA", "EVAL"], times=1)
                with pytest.raises(Unavailable, match=r"in 3 shards: 90$") as raised:
                    await getattr(counters, way)("x")
                assert raised.value.taken == 90
                assert await getattr(counters, way)("x") == 10
            await closed(client)

    asyncio.run(main())


@faces
@both
def test_what_was_taken_away_is_told_though_it_is_not_confirmed(any_server: RealServer, face: str, way: str) -> None:
    filled(any_server, "x")

    async def main() -> None:
        async with Either.on(face, any_server, durability=Durability(replicas=1, timeout=0.05)) as counters:
            with pytest.raises(Unconfirmed, match=r"taken away all the same, in 4 shards: 100$") as raised:
                await getattr(counters, way)("x")
            assert raised.value.taken == 100

    asyncio.run(main())


@faces
@both
def test_what_was_taken_away_is_told_though_a_server_of_a_cluster_is_gone(
    private_cluster: Cluster, face: str, way: str
) -> None:
    """The shards of the others are done; what it was of them is told."""

    async def main() -> None:
        keys, client = KeySpace(b"rc", 64), private_cluster.client()
        async with Either.url(face, private_cluster.url) as counters:
            counters.incr("y")
            await counters.flush()
            names = [f"x{n}" for n in range(6)]
            for name in names:
                for n in range(16):
                    key = keys.shard_key(name.encode(), n)[1]
                    client.hset(key, mapping={"d": f"gen.{n}", "+": 10} | ({} if n else {"k": 16}))
            _gone, (name, *_others) = lose_one(private_cluster, names)
            with pytest.raises(Unavailable, match="taken away all the same") as raised:
                await getattr(counters, way)(name)
            assert 0 < raised.value.taken < 160
            assert raised.value.taken % 10 == 0

    asyncio.run(main())


@both
def test_a_counter_that_was_given_fewer_shards(any_server: RealServer, way: str) -> None:
    """What was moved to shard 0, and what lies sealed, is gone too, and does not come back with more shards."""
    keys = KeySpace(b"rc", 16)
    client: Any = any_server.client()
    with Counters(client, shards={"x": 4}) as counters:
        counters.incr("x", 6)
    free = next(key for s in range(1, 4) if not client.exists(key := keys.shard_key(b"x", s)[1]))
    client.hset(free, mapping={"d": "gen.9", "+": 10})

    def call(script: Script, all_keys: list[bytes], *args: Any) -> Any:
        return client.eval(scripts.text(script).decode(), len(all_keys), *all_keys, *args)

    bucket0, key0 = keys.shard_key(b"x", 0)
    registry0 = keys.registries[bucket0]
    call(Script.SHARDS_WIDEN, [registry0, keys.index(bucket0), key0], "gen00", 4)  # whichever shard it counted in
    id = call(Script.NARROW_OPEN, [registry0, key0], 1)[1]
    copies: list[Any] = []
    for s in range(1, 4):
        word, _now, _since, dot, plus, minus = call(Script.SHARD_SEAL, [keys.shard_key(b"x", s)[1]], id)
        assert word == b"OK"
        if plus != b"0":
            copies += [b"s.%d.%b" % (s, dot), plus, minus]
    assert call(Script.NARROW_APPLY, [registry0, key0], id, 1, *copies) == [b"OK"]
    with Counters(client) as counters:
        assert counters.get("x") == 16
        assert getattr(counters, way)("x") == 16
        assert counters.get("x", max_age=0) == 0
        counters.counter("x", shards=4).incr(3)
        counters.flush()
        assert counters.get("x", max_age=0) == 3
    with Counters(client) as counters:
        for _ in range(8):  # of which one or another writes to each shard
            with Counters(client, shards=4) as more:
                more.incr("x")
        assert counters.get("x", max_age=0) == 11


@faces
@both
def test_the_rights_that_it_needs(any_server: RealServer, face: str, way: str) -> None:
    """Those of counting, TYPE and PEXPIREAT; without one of them nothing is changed, and the error names it."""
    counting = "+evalsha +eval +time +exists +hget +hmget +hgetall +hset +hsetnx +hincrby +hdel"
    client: Any = any_server.client()

    async def main(rights: str) -> int:
        client.execute_command("ACL", "SETUSER", "some", "reset", "on", ">secret", "~*", *rights.split())
        async with Either.url(face, f"redis://some:secret@{any_server.host}:{any_server.port}") as counters:
            counters.incr("x", 5)
            await counters.flush()
            taken: int = await getattr(counters, way)("x")
            return taken

    try:
        assert asyncio.run(main(counting + " +type +pexpireat")) == 5
        assert truth(any_server, ["x"]) == {b"x": 0}
        with pytest.raises(NotPermitted, match=r"(?i)pexpireat"):
            asyncio.run(main(counting + " +type"))
        with pytest.raises(NotPermitted, match=r"(?i)type"):
            asyncio.run(main(counting + " +pexpireat"))
        assert truth(any_server, ["x"]) == {b"x": 10}
    finally:
        client.execute_command("ACL", "DELUSER", "some")


@both
def test_a_narrowing_that_has_begun_is_void(any_server: RealServer, way: str) -> None:
    """What it had read of a shard does not come back, and is told of once."""
    keys = KeySpace(b"rc", 16)
    client: Any = any_server.client()

    def call(script: Script, all_keys: list[bytes], *args: Any) -> Any:
        return client.eval(scripts.text(script).decode(), len(all_keys), *all_keys, *args)

    registry0, (key0, key1) = keys.registries[keys.bucket(b"x", 0)], (keys.shard_key(b"x", n)[1] for n in (0, 1))
    with Counters(client) as counters:
        counters.incr("x", 6)
    call(Script.SHARDS_WIDEN, [registry0, keys.index(keys.bucket(b"x", 0)), key0], "gen00", 2)
    client.hset(key1, mapping={"d": "gen.9", "+": 10})
    id = call(Script.NARROW_OPEN, [registry0, key0], 1)[1]
    dot, plus, minus = call(Script.SHARD_SEAL, [key1], id)[3:]
    with Counters(client) as counters:
        assert getattr(counters, way)("x") == 16
        assert call(Script.NARROW_APPLY, [registry0, key0], id, 1, b"s.1." + dot, plus, minus) == [b"VOID"]
        assert counters.get("x", max_age=0) == 0
        assert counters.inspect("x").shards == 2
    with Counters(client) as counters:
        for _ in range(8):
            with Counters(client) as more:
                more.counter("x", shards=2).incr()
        assert counters.get("x", max_age=0) == 8
