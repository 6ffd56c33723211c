"""Giving a counter more shards, or fewer, from outside, while everybody counts.

More is simple: the larger number is published in shard 0. Fewer is not: a process may still know of more, sleep,
and count there. The invariant is: **a shard is published in shard 0, or sealed.**

1. `narrow_open`: shard 0 holds that a narrowing has begun, and its id. Publishing a number of shards makes it
   void.
2. `shard_seal`: each shard that is to go, if no slot is in it, is sealed with that id. It counts as before, but
   takes no counts: a process that tries is refused. It has to publish the shard in shard 0 (which makes the narrowing
   void, or the counter wide again), and may then unseal it with the id that it was refused by.
3. The seals must be older than anything that a fail-over takes back. Then they are looked at again.
4. `narrow_apply`: in one step, and only if the narrowing is not void, shard 0 holds copies of what is sealed, and
   the smaller number. A copy and its shard count once (`crdt/shard_copies.py`): no value changes in any of these steps.

It may be stopped anywhere, and begun again: what is done is found done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from redis_counters.crdt.shard_copies import copy_name
from redis_counters.errors import CounterError, quoted
from redis_counters.protocol.upkeep.folding import JanitorReport, Upkeep
from redis_counters.protocol.upkeep.janitor import repair
from redis_counters.protocol.wire.answers import reply_of
from redis_counters.protocol.wire.commands import Argument, Command, Script, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.refusals import of_counter, refusal

MAX_NAMES = 250  # of one script

Widened = Generator[list[Command], list[object], dict[bytes, int | CounterError]]


class Narrowed(NamedTuple):
    """How far it got: ``shards`` there are now; ``wait``: seconds until it may go on; ``why``: what is in the way."""

    shards: int
    wait: int = 0
    why: str = ""


def widen(keys: KeySpace, names: Iterable[bytes], shards: int, mint: Callable[[], str]) -> Widened:
    """The counters have at least that many shards; return how many, or what was refused, by name."""
    by_bucket: dict[int, list[bytes]] = {}
    for name in dict.fromkeys(names):
        by_bucket.setdefault(keys.bucket(name, 0), []).append(name)
    found: dict[bytes, int | CounterError] = {}
    for bucket, all_of_it in by_bucket.items():
        for some in pieces(all_of_it, MAX_NAMES):
            shards0 = [keys.shard_key(name, 0)[1] for name in some]
            args = (mint()[:5].encode(), shards)
            named = (keys.registries[bucket], keys.index(bucket), *shards0)
            (raw,) = yield [Command(Script.SHARDS_WIDEN, named, args)]
            reply = reply_of(raw, Script.SHARDS_WIDEN)
            for n, (name, key) in enumerate(zip(some, shards0, strict=True)):
                text = reply.text(n)
                if text.startswith(b"!"):
                    found[name] = refusal(key, text[1:].decode("utf-8", "replace"))
                else:
                    found[name] = reply.number(n)
    return found


def narrow(
    keys: KeySpace, name: bytes, wanted: int, upkeep: Upkeep
) -> Generator[list[Command], list[object], Narrowed]:
    """The counter has so many shards, if it may have fewer; else return what is to be waited for, or is in the way.

    To be repeated when the wait is over. Raises: Refused, WrongType.
    """
    bucket0, key0 = keys.shard_key(name, 0)
    registry0 = keys.registries[bucket0]
    (raw,) = yield [Command(Script.NARROW_OPEN, (registry0, key0), (wanted,))]
    opened = reply_of(of_counter(raw, key0), Script.NARROW_OPEN)
    if opened.word == "UNKNOWN":
        return Narrowed(1)
    if opened.word == "FEW":
        return Narrowed(opened.number(0))
    if opened.word == "KEYED":
        return Narrowed(0, why=f"its keys or users are spread over {opened.number(0)} shards, for good")
    if opened.word == "JOINED":
        return Narrowed(0, why="its namespace has joined other regions, and shards are the same in all of them")
    if opened.word == "EXPIRES":
        return Narrowed(0, why="it expires, and takes its shards along then")
    id, shards = opened.text(0), opened.number(1)
    going = [(shard, keys.shard_key(name, shard)[1]) for shard in range(wanted, shards)]
    yield from repair(keys, upkeep, JanitorReport(), [key for _shard, key in going])
    answers = yield [Command(Script.SHARD_SEAL, (key,), (id,)) for _shard, key in going]
    copies: list[Argument] = []
    wait, slots, odd = 0, 0, b""
    for (shard, key), raw in zip(going, answers, strict=True):
        sealed = reply_of(of_counter(raw, key), Script.SHARD_SEAL)
        if sealed.word == "BUSY":
            slots += sealed.number(0)
        elif sealed.word != "OK":
            odd = sealed.text(0) if sealed.word == "ODD" else b"a time to expire"
        else:
            # (Whole seconds, of a clock that may be behind by one: more, not as many.)
            wait = max(wait, upkeep.delay + 1 - (sealed.number(0) - sealed.number(1)))
            dot, plus, minus = (sealed.text(n) for n in (2, 3, 4))
            if (plus, minus) != (b"0", b"0"):
                copies += (copy_name(shard, dot), plus, minus)
    if slots or odd:
        what = f"{slots} slots" if slots else f"the field {quoted(odd)}"
        return Narrowed(shards, why=f"{what} in shards from {wanted} on: processes count there, or have, lately")
    if wait > 0:
        return Narrowed(shards, wait)
    (raw,) = yield [Command(Script.NARROW_APPLY, (registry0, key0), (id, wanted, *copies))]
    if reply_of(of_counter(raw, key0), Script.NARROW_APPLY).word == "VOID":
        return Narrowed(shards, why="meanwhile a process has asked for more shards")
    return Narrowed(wanted)
