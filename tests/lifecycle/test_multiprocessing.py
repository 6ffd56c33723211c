"""Children of multiprocessing and concurrent.futures deliver what they counted when they end, without a close()."""

from __future__ import annotations

import pytest

from tests.faces.either import truth
from tests.lifecycle.children import FORKS, program
from tests.servers import RealServer

pytestmark = FORKS
METHODS = ["fork", "spawn", "forkserver"]

SCRIPT = """
import concurrent.futures, multiprocessing, os, sys
method, what, os.environ["REDIS_COUNTERS_URL"] = sys.argv[1:]
from tests.lifecycle import mp_work
url = os.environ["REDIS_COUNTERS_URL"]

if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    mp_work.count(7)
    if what == "processes":
        children = [context.Process(target=mp_work.count) for _ in range(3)]
        children += [context.Process(target=mp_work.count_with_own_client, args=(url,))]
        children += [context.Process(target=mp_work.count_in_asyncio, args=(url,))]
        children += [context.Process(target=mp_work.count_and_fail)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        codes = [child.exitcode for child in children]
        assert codes == [0] * 5 + [3], codes
    elif what == "pool":
        pool = context.Pool(3, maxtasksperchild=2)
        assert len(pool.map(mp_work.count, [100] * 6, chunksize=1)) == 6
        pool.close()
        pool.join()
    else:
        with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as executor:
            assert len(list(executor.map(mp_work.count, [100] * 6))) == 6
    print("fine")
"""


@pytest.mark.every(4, "processes each")
@pytest.mark.parametrize("what", ["processes", "pool", "executor"])
@pytest.mark.parametrize("method", METHODS)
def test_children_deliver_at_their_end(any_server: RealServer, method: str, what: str) -> None:
    """Whatever the start method, the totals are exact, and so are the parent's; nothing is said on stderr."""
    done = program(SCRIPT, method, what, any_server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", ""), done.stderr
    assert truth(any_server, ["x"]) == {b"x": 607}


def test_os_exit_loses_only_what_was_not_flushed(any_server: RealServer) -> None:
    """A child that ends by os._exit has delivered its flushes, once, and nothing after the last one."""
    done = program(
        """
import os, sys
from redis_counters import Counters
counters = Counters.from_url(sys.argv[1], flush_interval=60)
counters.incr("x")
counters.flush()
for _ in range(5):
    if not os.fork():
        counters.incr("x", 10)
        counters.flush()
        counters.incr("x", 1000)
        os._exit(0)
    os.wait()
counters.incr("x", 100)
""",
        any_server.url,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert truth(any_server, ["x"]) == {b"x": 151}


def test_multiprocessing_is_not_imported_for_it() -> None:
    """A program that does not use multiprocessing does not pay for it."""
    done = program(
        """
import sys
import redis, redis_counters, redis_counters.asyncio
counters = redis_counters.Counters(redis.Redis(port=1))
counters.incr("x")
print("multiprocessing" in sys.modules)
try:
    counters.close(0.1)
except redis_counters.Unavailable:
    pass
"""
    )
    assert done.stdout == "False\n", done.stderr
