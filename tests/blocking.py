"""Write the blocking modules that follow from those of asyncio: `python -m tests.blocking` (`--check`: only compare).

Each line is taken over as it is, without ``async`` and ``await``, and with the names that RULES give. What differs in
more than that is not written here: it is in a module of either face, behind one name.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]
PACKAGE = TOP / "redis_counters"

# Written for asyncio, and what follows from it.
MODULES = {
    "asyncio/bounded.py": "_blocking/bounded.py",
    "asyncio/counters.py": "_blocking/counters.py",
    "asyncio/keyed.py": "_blocking/keyed.py",
    "asyncio/exchange.py": "_blocking/exchange.py",
    "drivers/exchange/sessions_asyncio.py": "drivers/exchange/sessions.py",
    "drivers/tasks/delivery.py": "drivers/threads/delivery.py",
    "drivers/tasks/flusher.py": "drivers/threads/flusher.py",
    "drivers/tasks/reading.py": "drivers/threads/reading.py",
    "drivers/tasks/recording.py": "drivers/threads/recording.py",
    "drivers/tasks/resetting.py": "drivers/threads/resetting.py",
    "drivers/tasks/rounds.py": "drivers/threads/rounds.py",
    "drivers/redis_py/exchanging_asyncio.py": "drivers/redis_py/exchanging.py",
    "drivers/redis_py/cluster_lane_asyncio.py": "drivers/redis_py/cluster_lane.py",
}

RULES = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\basyncio=True\b", "asyncio=False"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basyncio\.Lock\b", "threading.Lock"),
    (r"\basyncio\.current_task\b", "threading.get_ident"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"^import asyncio$", "import threading\nimport time"),
    # modules
    (r"redis_counters\.drivers\.tasks\b", "redis_counters.drivers.threads"),
    (r"redis_counters\.drivers\.exchange\.tasks\b", "redis_counters.drivers.exchange.threads"),
    (r"(from|import) redis_counters\.asyncio\.", r"\1 redis_counters._blocking."),
    (r"from redis_counters\.asyncio import", "from redis_counters import"),
    (r"\bredis\.asyncio\b", "redis"),
    # names
    (r"\bTask(Runner|Exchange)\b", r"Thread\1"),
    (r"\bNotBlocking\b", "NotAsyncio"),
    (r"\b(transport_of|stop_all)_asyncio\b", r"\1"),
    (r"\bredis_py\.cancelling import AWAITED_BROKEN\b", "redis_py.hash_slots import BROKEN"),
    (r"\b(cluster_lane|cluster|exchanging|sessions)_asyncio\b", r"\1"),
    (r"\b(Cluster(Lane)?)Asyncio\b", r"\1"),
    (r"\bAsyncioLane\b", "BlockingLane"),
    (r"\bA(waited|WAITED_)(ClusterAsking|Exchanging|BROKEN|Sessions|Journaling|Lane|Transport)\b", r"\2"),
    (r"\bAsync(ExitStack|Retrying)\b", r"\1"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\b(push|enter)_async_(exit|context)\b", r"\1_\2"),
    (r"\bpush_exit\b", "push"),
    (r"\baclose\b", "close"),
    # words
    (r", awaited\b", ""),
    (r"The asyncio face\b", "The blocking face"),
    (r"\btasks of one event loop\b", "threads"),
    (r"\bother tasks\b", "other threads"),
    (r"\ba task for each\b", "a thread for each"),
]


def derived(source: str, origin: str) -> str:
    """Return the blocking text of an asyncio module."""
    for pattern, replacement in RULES:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return formatted(f"# Generated from redis_counters/{origin} by `make blocking`: change that.\n{source}")


def formatted(source: str) -> str:
    """Return the text as `make format` would have it: imports in order, lines joined that are short enough now."""
    for command in (["check", "--select=I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename=redis_counters/derived.py", "-"]
        source = subprocess.run(ruff, cwd=TOP, input=source, text=True, capture_output=True, check=True).stdout
    return source


def main(*, check: bool) -> int:
    """Write them all, or say which of them are not as they follow; return the exit code."""
    stale = 0
    for origin, target in MODULES.items():
        path = PACKAGE / target
        before = path.read_text() if path.exists() else ""
        after = derived((PACKAGE / origin).read_text(), origin)
        if after != before:
            stale += 1
            print(f"redis_counters/{target} does not follow from redis_counters/{origin}" if check else path)
            if check:
                sys.stdout.writelines(
                    difflib.unified_diff(before.splitlines(True), after.splitlines(True), "is", "follows")
                )
            else:
                path.write_text(after)
    if check and stale:
        print("`make blocking` writes them anew")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
