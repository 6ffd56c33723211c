"""A connection that is taken in the caller's thread is connected: making one may take any time."""

from __future__ import annotations

import select

import redis

from redis_counters.drivers.redis_py import compat
from redis_counters.drivers.redis_py.at_hand import begin_taking, end_taking
from tests.servers import RealServer


def test_one_that_the_server_has_closed_is_not_at_hand(any_server: RealServer) -> None:
    with redis.Redis(host=any_server.host, port=any_server.port) as client:
        client.ping()
        pool = client.connection_pool
        assert begin_taking(pool)
        end_taking(pool)
        any_server.client().client_kill_filter(_type="normal", skipme=True)
        [connection] = compat.idle_connections(pool) or []
        assert select.select([compat.socket_of(connection)], [], [], 10)[0]
        assert not begin_taking(pool)
        end_taking(pool)
