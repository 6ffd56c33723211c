"""A process that counts as it is told: ``python -m tests.faults.client SIDE ADDRESS OPTIONS``, orders on stdin.

An order is a line of JSON, ``[name, argument]``; the answer is a line with what was issued so far. After ``go`` it
counts until the next order comes. It ends with its parent: stdin ends then.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import select
import sys
import time

from tests.faults.sides import SIDES, Incr

REST = 0.002  # seconds between batches while going: the fault needs the processor too


def main(side: Incr) -> None:
    going = looking = False
    while True:
        while going and not select.select([sys.stdin], [], [], 0)[0]:
            side.batch()
            if looking:
                side.look()
            time.sleep(REST)
        line = sys.stdin.readline()
        if not line:
            return
        order, argument = json.loads(line)
        error, child = "", None
        if order == "count":
            for _ in range(argument):
                side.batch()
        elif order in ("go", "pause"):
            going = order == "go"
        elif order == "turn to":
            side.name = argument
        elif order == "look":
            side.look()
            looking = argument
        elif order == "half":
            side.half()
        elif order == "flush":
            side.flush()
        elif order == "fork":
            child = fork(side, argument)
        elif order == "cancel":
            asyncio.run(side.cancelled(argument, random.Random(argument), 0.02))
        elif order == "close":
            going = False
            error = side.close()
        told = {"issued": side.issued, "raised": side.raised, "short": side.short}
        print(json.dumps({**told, "error": error, "child": child}), flush=True)


def fork(side: Incr, batches: int) -> dict[str, int]:
    """Fork in the middle of a batch; parent and child count on at the same time. Returns what the child issued."""
    side.batch()
    side.half()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        side.forked()
        for _ in range(batches):
            side.batch()
        side.close()
        os.write(writing, json.dumps({"issued": side.issued, "raised": side.raised}).encode())
        os._exit(0)
    os.close(writing)
    for _ in range(batches):
        side.batch()
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    found: dict[str, int] = json.loads(told)
    return found


if __name__ == "__main__":
    logging.getLogger("redis_counters").setLevel(logging.CRITICAL)  # what goes wrong here goes wrong on purpose
    main(SIDES[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3])))
