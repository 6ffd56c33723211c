"""gevent and eventlet, patched before the library is imported or after: greenlets count, or are told why not.

gunicorn's worker of gevent is in test_web_servers.py, Celery's pools are in tests/contrib/test_celery.py.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.faces.either import truth
from tests.lifecycle.children import forks, program
from tests.needs import needs_package
from tests.servers import RealServer

LIBRARIES = ("gevent", "eventlet")
BEGIN = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
url, library = sys.argv[1:3]

if library == "gevent":
    from gevent import monkey
    patch = monkey.patch_all
else:
    import eventlet
    patch = eventlet.monkey_patch

def spawn(work):
    import eventlet, gevent
    return gevent.spawn(work) if library == "gevent" else eventlet.spawn(work)

def wait(greenlets):
    for each in greenlets:
        each.join() if library == "gevent" else each.wait()

def count_in_greenlets(counters):
    ticks = []

    def tick():
        while True:
            ticks.append(1)
            time.sleep(0.001)

    def work():
        for number in range(20):
            counters.incr("x")
            time.sleep(0.001)
            counters.get("x", max_age=0)
            counters.incr_once("once", key=os.urandom(8))
        counters.flush(20)

    spawn(tick)
    wait([spawn(work) for _ in range(20)])
    assert len(ticks) > 20, ticks
    counters.close(20)
"""

FIRST = """
patch()
from redis_counters import Counters

counters = Counters.from_url(url, flush_interval=0.02)
counters.incr("x")
count_in_greenlets(counters)
"""

LATE = """
from redis_counters import Counters

when = sys.argv[3]
if when == "imported":
    patch()
counters = Counters.from_url(url, flush_interval=0.02)
handle = counters.counter("x")
if when == "made":
    patch()
handle.incr()
if when == "used":
    patch()
if when == "forked":
    if os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    patch()
    counters.incr("x")
count_in_greenlets(counters)
"""


def run(text: str, server: RealServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return program(BEGIN + text, server.url, *arguments)


@pytest.mark.every(2, "processes each")
@pytest.mark.parametrize("library", LIBRARIES)
def test_patched_first(any_server: RealServer, library: str) -> None:
    """Greenlets count, read, flush and call by key, while others go on."""
    needs_package(library)
    done = run(FIRST, any_server, library)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert truth(any_server, ["x", "once"]) == {b"x": 401, b"once": 400}


@forks
@pytest.mark.parametrize("when", ["imported", "made", "forked"])
@pytest.mark.slow("a process each")
def test_gevent_patches_late(any_server: RealServer, when: str) -> None:
    """After the import, after the client is made, in a child whose parent has used it: all counts are there."""
    needs_package("gevent")
    done = run(LATE, any_server, "gevent", when)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert truth(any_server, ["x", "once"]) == {b"x": 402 if when == "forked" else 401, b"once": 400}


LOOK = """
patch()
from redis_counters import Counters
from redis_counters.drivers.redis_py import at_hand

counters = Counters.from_url(url)
counters.get("x")
ran = []
other = spawn(lambda: ran.append(1))
assert at_hand.begin_taking(counters._runner.transport.client.connection_pool)
assert not ran
wait([other])
counters.close()
"""


@pytest.mark.parametrize("library", LIBRARIES)
def test_who_looks_for_a_connection_does_not_give_way(any_server: RealServer, library: str) -> None:
    """Another would take what it looks at; or it would be killed there, and its connection lost to the pool."""
    needs_package(library)
    done = run(LOOK, any_server, library)
    assert done.returncode == 0, done.stderr


MADE_OF = """
from redis_counters import Counters
from redis_counters.drivers.redis_py import watching

def made_of():
    return type(watching._of_this_process().wake)

counters = Counters.from_url(url)
counters.get("x")
before = made_of()
patch()
counters.get("x", max_age=0)
import threading
assert made_of() is type(threading.Lock()) is not before, made_of()
counters.close()
"""


def test_the_watch_holds_up_no_greenlets(any_server: RealServer) -> None:
    """What looks after deadlines waits as `threading` does now: else all greenlets would stand still for a second."""
    needs_package("gevent")
    done = run(MADE_OF, any_server, "gevent")
    assert done.returncode == 0, done.stderr


def test_gevent_patches_what_is_in_use(any_server: RealServer) -> None:
    """Threads of before end, of which gevent makes an error that Python prints; all counts are there."""
    needs_package("gevent")
    done = run(LATE, any_server, "gevent", "used")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Traceback") == done.stderr.count("KeyError"), done.stderr
    assert truth(any_server, ["x", "once"]) == {b"x": 401, b"once": 400}


@pytest.mark.parametrize("when", ["imported", "made", "used"])
@pytest.mark.slow("a process each")
def test_eventlet_patches_late(any_server: RealServer, when: str) -> None:
    """It takes away what redis-py uses; so the first call says what to do, in place of waiting for ever."""
    needs_package("eventlet")
    done = run(LATE, any_server, "eventlet", when)
    assert done.returncode == 1
    assert "UsageError: eventlet.monkey_patch() was called after" in done.stderr, done.stderr


KILLED = """
patch()
import random
import gevent
from redis_counters import Counters

events, counted = [], 0
counters = Counters.from_url(url, flush_interval=0.02, observer=events.append)

def work():
    global counted
    while True:
        counters.incr("x")
        counted += 1
        chance = random.random()
        if chance < 0.3:
            counters.get("x", max_age=0)
        elif chance < 0.5:
            counters.flush()
        elif chance < 0.8:
            counters.incr_once("once", key=os.urandom(8))
        else:
            time.sleep(0.001)

for _ in range(200):
    greenlets = [gevent.spawn(work) for _ in range(8)]
    time.sleep(random.random() * 0.02)
    for each in greenlets:
        each.kill()
counters.flush()
pool = counters._runner.transport.client.connection_pool
for _ in range(100):
    if pool._in_use_connections:  # somebody who was killed was connecting
        time.sleep(0.1)
assert len(pool._in_use_connections) == 0, pool._in_use_connections
assert not events, events[:5]
print(counted)
counters.close()
"""


@pytest.mark.slow("killed at every point")
def test_greenlets_are_killed_in_the_middle_of_calls(any_server: RealServer) -> None:
    """Nothing is told of; each kill may hit one increment; no connection is lost to the pool."""
    needs_package("gevent")
    done = run(KILLED, any_server, "gevent")
    assert done.returncode == 0, done.stderr
    counted = int(done.stdout)
    assert counted <= truth(any_server, ["x"])[b"x"] <= counted + 200 * 8
