"""Signals are the program's: nothing here handles one, whatever it does, and wherever it is imported."""

from __future__ import annotations

import ast
import os
import signal
import time

import pytest
import redis

from redis_counters import Counters
from tests.faces.either import FACES, truth
from tests.lifecycle.children import ROOT, forked, program
from tests.servers import RealServer


@pytest.mark.parametrize("face", FACES)
def test_no_handler_is_installed(any_server: RealServer, face: str) -> None:
    """Handlers of all signals are the same before the import, after it, after any use, and after a fork and a close."""
    done = program(
        """
import signal, sys
def handlers():
    return {s: signal.getsignal(s) for s in signal.valid_signals()}
before, wake_up = handlers(), signal.set_wakeup_fd(-1)
import asyncio, os, threading
import redis, redis.asyncio
import redis_counters, redis_counters.asyncio, redis_counters.testing
assert threading.active_count() == 1
assert handlers() == before
url, face = sys.argv[1:]
async def use_asyncio():
    async with redis_counters.asyncio.Counters(redis.asyncio.Redis.from_url(url)) as counters:
        counters.incr("x")
        await counters.flush()
        assert await counters.get("x", max_age=0) >= 1
        assert {s: h for s, h in handlers().items() if s != signal.SIGINT} == \\
            {s: h for s, h in before.items() if s != signal.SIGINT}  # SIGINT is asyncio.run's
if face == "asyncio":
    asyncio.run(use_asyncio())
else:
    counters = redis_counters.Counters(redis.Redis.from_url(url))
    assert threading.active_count() == 1
    counters.incr("x")
    counters.flush()
    assert handlers() == before
    if not os.fork():
        counters.incr("x")
        counters.close()
        os._exit(0 if handlers() == before else 1)
    assert os.wait()[1] == 0
    counters.close()
assert handlers() == before
assert signal.set_wakeup_fd(-1) == wake_up
print("fine")
""",
        any_server.url,
        face,
    )
    assert done.stdout == "fine\n", done.stderr


def test_only_the_command_line_handles_signals() -> None:
    """The command, its demos, and the one for whoever asks: no other module installs a handler, timer or wake-up."""
    forbidden = {"signal", "setitimer", "alarm", "set_wakeup_fd", "siginterrupt", "sigaction", "add_signal_handler"}
    found = []
    for path in (ROOT / "redis_counters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in forbidden:
                    found.append(path.relative_to(ROOT / "redis_counters").parts[0])
    assert set(found) == {"cli", "demo", "signals.py"}


def test_imported_and_used_in_another_thread(any_server: RealServer) -> None:
    """The first import may come from any thread: the main one need not know of it."""
    done = program(
        """
import sys, threading
counted = []
def work():
    import redis, redis_counters, redis_counters.asyncio
    with redis_counters.Counters(redis.Redis.from_url(sys.argv[1])) as counters:
        counters.incr("x")
        counted.append(int(counters.get("x", max_age=0)))
thread = threading.Thread(target=work)
thread.start()
thread.join(30)
print(counted)
""",
        any_server.url,
    )
    assert (done.stdout, done.stderr) == ("[1]\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_nobody_handles_loses_what_was_not_flushed(any_server: RealServer, number: int) -> None:
    """The default action ends the process as ever, at once: what was flushed is there, once, and the rest is not."""
    done = program(
        f"""
import os, sys, redis_counters
counters = redis_counters.Counters.from_url(sys.argv[1], flush_interval=60)
counters.incr("x", 5)
counters.flush()
counters.incr("x", 100)
os.kill(os.getpid(), {int(number)})
import time
time.sleep(20)
""",
        any_server.url,
    )
    assert done.returncode == -number
    assert truth(any_server, ["x"]) == {b"x": 5}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_that_is_frozen_between_calls(any_server: RealServer) -> None:
    """SIGSTOP after each flush, as functions are frozen between calls: nothing was pending, and it goes on exactly."""
    read, write = os.pipe()

    def work() -> None:
        with redis.Redis(port=any_server.port) as client:
            counters = Counters(client, flush_interval=0.01)
            for _ in range(5):
                counters.incr("x", 10)
                counters.flush()
                os.write(write, b"%d" % counters.stats().pending)
                os.kill(os.getpid(), signal.SIGSTOP)
            counters.close()

    child = forked(work, 60)
    seen = b""
    for i in range(1, 6):
        _pid, status = os.waitpid(child, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert truth(any_server, ["x"]) == {b"x": 10 * i}
        seen += os.read(read, 10)
        time.sleep(0.05)
        os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen == b"00000"
    os.close(read)
    os.close(write)
    assert truth(any_server, ["x"]) == {b"x": 50}
