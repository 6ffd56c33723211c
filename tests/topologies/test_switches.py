"""A switch changes the server behind connections that stay open."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from tests.servers import Kind, RealServer
from tests.topologies import Switch


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_command_goes_where_it_leads_now(any_server: RealServer, any_kind: Kind, protocol: int) -> None:
    """Also in a pipeline, and without a new connection; the other server speaks the protocol that was agreed on."""
    other = RealServer.start(any_kind)
    before = threading.active_count()
    try:
        with Switch(any_server.url) as switch:
            client: Any = redis.Redis.from_url(switch.url, protocol=protocol)
            for server, name in ((any_server, "x"), (other, "y"), (any_server, "x")):
                switch.lead_to(server.url)
                with client.pipeline(transaction=False) as pipeline:
                    for _ in range(100):
                        pipeline.incr(name)
                    assert len(pipeline.execute()) == 100
                client.hset("h", mapping={"a": 1})
                assert client.hgetall("h") == {b"a": b"1"}
            assert switch.accepted == 1
            client.close()
        assert (any_server.client().get("x"), other.client().get("y")) == (b"200", b"100")
        assert (any_server.client().get("y"), other.client().get("x")) == (None, None)
    finally:
        other.stop()
    assert threading.active_count() <= before + 1


def test_a_server_that_is_gone(private_server: RealServer) -> None:
    """Its clients' connections are closed."""
    with Switch(private_server.url) as switch:
        client: Any = redis.Redis.from_url(switch.url, single_connection_client=True, retry=None)
        assert client.ping()
        private_server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        client.close()
