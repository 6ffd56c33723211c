"""The end of the interpreter: what was counted until the last hook is delivered, and no thread is needed for it."""

from __future__ import annotations

from typing import Any

import pytest

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process import atexit_hooks
from tests.faces.either import truth
from tests.lifecycle.children import program
from tests.servers import RealServer

# At exit, Python 3.12 and later start no thread; with this, nor do earlier ones.
NO_NEW_THREADS = """
import threading
def refuse(*args, **kwargs):
    raise RuntimeError("can't start new thread at interpreter shutdown")
def no_more_threads():
    threading._start_new_thread = threading._start_joinable_thread = refuse
threading._register_atexit(no_more_threads)
"""

BEGIN = (
    NO_NEW_THREADS
    + """
import asyncio, atexit, os, signal, sys, threading, time
import redis, redis_counters, redis_counters.asyncio
url = sys.argv[1]
client = redis.Redis.from_url(url)
"""
)

ENDS = {
    "nothing was counted before": """
counters = redis_counters.Counters(client, flush_interval=60)
atexit.register(lambda: counters.incr("x", 10))
""",
    "hooks count, of before and after the client": """
atexit.register(lambda: counters.incr("x", 4))
counters = redis_counters.Counters(client, flush_interval=60)
atexit.register(lambda: counters.incr("x", 2))
counters.incr("x", 1)
atexit.register(lambda: counters.incr("x", 3))
""",
    "a hook counts and flushes and reads": """
def late():
    counters.incr("x", 4)
    counters.flush()
    assert counters.get("x", max_age=0) == 10
atexit.register(late)
counters = redis_counters.Counters(client, flush_interval=60)
counters.incr("x", 6)
""",
    "a client that is made in a hook": """
def late():
    counters = redis_counters.Counters(client, flush_interval=60)
    counters.incr("x", 10)
    counters.close()
atexit.register(late)
""",
    "sys.exit in a thread": """
counters = redis_counters.Counters(client, flush_interval=60)
def work():
    counters.incr("x", 10)
    sys.exit(1)
threading.Thread(target=work).start()
""",
    "a thread that outlives the main one": """
counters = redis_counters.Counters(client, flush_interval=60)
def work():
    for _ in range(10):
        time.sleep(0.02)
        counters.incr("x")
threading.Thread(target=work).start()
""",
    "Ctrl-C": """
counters = redis_counters.Counters(client, flush_interval=60)
counters.incr("x", 10)
sys.excepthook = lambda *_: None
os.kill(os.getpid(), signal.SIGINT)
time.sleep(10)
""",
    "an asyncio client that was not closed": """
counters = redis_counters.asyncio.Counters(redis.asyncio.Redis.from_url(url), flush_interval=60)
async def main():
    counters.incr("x", 4)
    await counters.flush()
    counters.incr("x", 5)
asyncio.run(main())
counters.incr("x", 1)
""",
    "an asyncio client that was never in a loop": """
counters = redis_counters.asyncio.Counters(redis.asyncio.Redis.from_url(url.replace("127.0.0.1", "localhost")))
counters.incr("x", 10)
""",
    "an asyncio client whose loop runs in a daemon thread": """
counters = redis_counters.asyncio.Counters(redis.asyncio.Redis.from_url(url), flush_interval=60)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
async def main():
    counters.incr("x", 4)
    await counters.flush()
    counters.incr("x", 6)
asyncio.run_coroutine_threadsafe(main(), loop).result()
""",
}


@pytest.mark.every(3, "a process each")
@pytest.mark.parametrize("end", ENDS)
def test_what_was_counted_until_the_end_is_delivered(any_server: RealServer, end: str) -> None:
    """Ten were counted, by hooks, threads, before an interruption, in either face: ten are there, folded."""
    done = program(BEGIN + ENDS[end], any_server.url)
    assert done.stderr == "", done.stderr
    assert truth(any_server, ["x"]) == {b"x": 10}
    fields: set[bytes] = set()
    client: Any = any_server.client()
    for key in client.keys("*:c:*"):
        fields |= set(client.hgetall(key))
    assert fields <= {b"+", b"-", b"d", b"k"}


def test_daemon_threads_that_count_to_the_last(any_server: RealServer) -> None:
    """They go on while the process ends: what they counted is there, or their call raised; the end is not held up."""
    done = program(
        BEGIN
        + """
counters = redis_counters.Counters(client, flush_interval=0.01)
counted = [0] * 4
def count(n):
    while True:
        try:
            counters.incr("x")
        except redis_counters.UsageError:
            return
        counted[n] += 1
threads = [threading.Thread(target=count, args=(n,), daemon=True) for n in range(4)]
for thread in threads:
    thread.start()
while min(counted) < 1000:
    time.sleep(0.001)
def last():
    for thread in threads:
        thread.join(10)
    print(sum(counted))
"""
        + """
import redis_counters.drivers.process.atexit_hooks as exits
exits.stop_at_exit("the test", last)
""",
        any_server.url,
        timeout=60,
    )
    assert done.stderr == ""
    assert truth(any_server, ["x"]) == {b"x": int(done.stdout)}


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_the_end_with_redis_away_is_in_time_and_told(face: str) -> None:
    """The exit code is the program's own; each counter's loss is told once."""
    text = {
        "blocking": "counters = redis_counters.Counters(redis.Redis(port=1))\n",
        "asyncio": "counters = redis_counters.asyncio.Counters(redis.asyncio.Redis(port=1))\n",
    }[face]
    done = program(
        BEGIN + text + "counters.incr('x', 5)\ncounters.decr('y')\nsys.exit(4)\n", "redis://127.0.0.1:1", timeout=40
    )
    assert done.returncode == 4
    assert done.stderr.count("'x': 5 not known to be in Redis") == 1
    assert done.stderr.count("'y': -1 not known to be in Redis") == 1
    assert "Traceback" not in done.stderr


def test_a_server_that_a_hook_ends_before_us(any_server: RealServer) -> None:
    """What was registered after the client ends first: so a hook of before may end what the client needs."""
    done = program(
        BEGIN
        + """
begun = time.monotonic()
import redis_counters.testing
link = redis_counters.testing.LossyLink(url)
atexit.register(lambda: (link.stop(), print("stopped")))
counters = redis_counters.Counters(redis.Redis.from_url(link.url), flush_interval=60)
counters.incr("x", 10)
""",
        any_server.url,
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")
    assert truth(any_server, ["x"]) == {b"x": 10}


def test_each_client_has_a_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long those before it took, while Redis was away."""
    monkeypatch.setattr(atexit_hooks, "_deadline", monotonic() - 60)
    assert atexit_hooks.rest() > 0
