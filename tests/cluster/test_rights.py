"""A user who may not do something on one server of a cluster: the others go on, and with the right all is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from redis_counters import NotPermitted
from redis_counters.protocol.keyed.calls import Call, Once
from redis_counters.protocol.wire.keys import meta_key
from tests.cluster.support import KEYS, keyed_of
from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.topologies.clusters import Cluster

NAMES = [f"n{n}" for n in range(60)]
USER = "poor"
ALL = ("on", ">word", "resetkeys", "~*", "resetchannels", "&*", "+@all")
RIGHTS = {
    "a command of the script": ("-hset",),
    "scripts": ("-evalsha", "-eval"),
    "commands": ("-@all",),
    "keys": ("resetkeys",),
    "the password": ("resetpass", ">other"),
    "to log in": ("off",),
}


@pytest.fixture
def users(any_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that knows the user, everywhere with all rights."""
    for node in any_cluster.nodes:
        node.ask("ACL", "SETUSER", USER, "reset", *ALL)
    yield any_cluster
    for node in any_cluster.nodes:
        node.ask("ACL", "DELUSER", USER)


def url(cluster: Cluster) -> str:
    return cluster.url.replace("://", f"://{USER}:word@")


@pytest.mark.parametrize("begun", [False, True], ids=["first use", "used before"])
@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("face", FACES)
def test_a_right_that_is_missing_on_one_server(users: Cluster, face: str, right: str, begun: bool) -> None:
    """Flushes, reads and keyed calls: what lies on the other servers is done, and the rest is refused in words."""

    async def main() -> None:
        record = users.node_of(meta_key(b"rc"))
        # Not the first, which redis-py asks for the commands that there are: without them, it makes no client.
        node = next(node for node in users.nodes[1:] if node is not record)
        here = [name for name in NAMES if users.node_of(KEYS.shard_key(name.encode(), 0)[1]) is not node]
        async with (
            Either.url(face, users.url) as somebody,
            Either.url(face, url(users), flush_interval=0.01) as counters,
        ):
            for name in NAMES:
                (counters if begun else somebody).incr(name)
                await done((counters if begun else somebody).counters.incr_once(name, "0", 1_000))
            await (counters if begun else somebody).flush()
            node.ask("ACL", "SETUSER", USER, *RIGHTS[right])
            node.ask("CLIENT", "KILL", "USER", USER)

            for name in NAMES:
                counters.incr(name, 10)
            with pytest.raises(NotPermitted):
                await counters.flush(5)
            calls: list[Call] = [Once(name, "1", 100, 60) for name in NAMES]
            await done(keyed_of(counters).do(calls))
            assert all(isinstance(call.error, NotPermitted) for call in calls if call.error is not None)
            assert [call.name.decode() for call in calls if call.error is None] == here
            assert await counters.get_many(here, max_age=0) == dict.fromkeys(here, 1_111)

            node.ask("ACL", "SETUSER", USER, "reset", *ALL)
            node.ask("CLIENT", "KILL", "USER", USER)
            await counters.flush(10)
            for name in NAMES:
                assert await done(counters.counters.incr_once(name, "1", 100, ttl=60)) is (name not in here)
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 1_111)

    asyncio.run(main())
