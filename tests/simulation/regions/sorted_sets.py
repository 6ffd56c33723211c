"""Sorted sets, beside the hashes of the simulated server: those commands that the scripts and the exchange use."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.hashes import Database, Failure

RUN = 40  # hexadecimal digits of a run of a server


class SortedSet(bytes):
    """Members and scores; never changed, so that a snapshot of the database may hold it."""

    scores: dict[bytes, int]

    @classmethod
    def of(cls, scores: dict[bytes, int]) -> SortedSet:
        made = cls(b"sorted set")
        made.scores = scores
        return made


class RegionalDatabase(Database):
    """A database of a region. To the commands on hashes a sorted set is a key of another type."""

    def __init__(self, clock: Callable[[], float], run: int) -> None:
        super().__init__(clock)
        self.run = run  # the first of this region's servers
        self.commands |= {
            b"HKEYS": self.hkeys,
            b"ZADD": self.zadd,
            b"ZREM": self.zrem,
            b"ZSCORE": self.zscore,
            b"ZMSCORE": self.zmscore,
            b"ZRANGEBYSCORE": self.zrangebyscore,
            b"ZREVRANGE": self.zrevrange,
            b"ZREVRANGEBYSCORE": self.zrevrangebyscore,
            b"ZSCAN": self.zscan,
            b"PEXPIRETIME": self.pexpiretime,
        }

    def info(self, _section: bytes) -> bytes:
        run = b"%0*x" % (RUN, (self.run + self.restored) << 4 * RUN - 32)
        return b"run_id:%b\r\nmaster_replid:%b\r\nmaxmemory_policy:noeviction\r\n" % (run, run)

    def get(self, key: bytes) -> bytes | None:
        if isinstance(self.keys.get(key), SortedSet):
            raise Failure("WRONGTYPE Operation against a key holding the wrong kind of value")
        return super().get(key)

    def type(self, key: bytes) -> str:
        return "zset" if isinstance(self.keys.get(key), SortedSet) else super().type(key)

    def hkeys(self, key: bytes) -> list[bytes]:
        return list(self._hash(key))

    def zadd(self, key: bytes, *pairs: bytes) -> int:
        option = pairs[0] if pairs[:1] in ((b"XX",), (b"NX",), (b"GT",)) else b""
        scores = dict(self._scores(key))
        told = pairs[1 if option else 0 :]
        if not told or len(told) % 2:
            raise Failure("ERR syntax error")
        before = dict(scores)
        for score, member in zip(told[::2], told[1::2], strict=True):
            old = scores.get(member)
            refused = {b"XX": old is None, b"NX": old is not None, b"GT": old is not None and int(score) <= old}
            if not refused.get(option, False):
                scores[member] = int(score)
        if scores != before:
            self.writes += 1
            self.keys[key] = SortedSet.of(scores)
        return len(scores) - len(before)

    def zscore(self, key: bytes, member: bytes) -> bytes | None:
        score = self._scores(key).get(member)
        return None if score is None else b"%d" % score

    def zmscore(self, key: bytes, *members: bytes) -> list[bytes | None]:
        return [self.zscore(key, member) for member in members]

    def zrem(self, key: bytes, *members: bytes) -> int:
        scores = dict(self._scores(key))
        found = [member for member in members if scores.pop(member, None) is not None]
        if found:
            self.writes += 1
            self.keys[key] = SortedSet.of(scores)
        return len(found)

    def zrangebyscore(self, key: bytes, low: bytes, high: bytes, *options: bytes) -> list[bytes]:
        return _some(self._within(key, low, high), options)

    def zrevrangebyscore(self, key: bytes, high: bytes, low: bytes, *options: bytes) -> list[bytes]:
        return _some(self._within(key, low, high)[::-1], options)

    def _within(self, key: bytes, low: bytes, high: bytes) -> list[tuple[int, bytes]]:
        least, most = _bound(low, 1), _bound(high, -1)
        return sorted((score, member) for member, score in self._scores(key).items() if least <= score <= most)

    def zrevrange(self, key: bytes, first: bytes, last: bytes, *options: bytes) -> list[bytes]:
        """Of the highest ones, by place; places are counted from 0."""
        ranked = sorted(((score, member) for member, score in self._scores(key).items()), reverse=True)
        found = ranked[int(first) : int(last) + 1]
        scored = options == (b"WITHSCORES",)
        return [part for score, member in found for part in ((member, b"%d" % score) if scored else (member,))]

    def zscan(self, key: bytes, _cursor: bytes, *_options: bytes) -> list[object]:
        """The whole of it at once, as Redis does with a small one."""
        return [b"0", [part for member, score in self._scores(key).items() for part in (member, b"%d" % score)]]

    def pexpiretime(self, _key: bytes) -> int:
        """As before Redis 7.0."""
        raise Failure("ERR unknown command 'PEXPIRETIME'")

    def _scores(self, key: bytes) -> dict[bytes, int]:
        found = self.keys.get(key)
        if found is None:
            return {}
        if isinstance(found, SortedSet):
            return found.scores
        raise Failure("WRONGTYPE Operation against a key holding the wrong kind of value")


def _bound(text: bytes, within: int) -> float:
    """Return a bound of scores, all of them whole numbers. ``within``: the next one inside of it."""
    return int(text[1:]) + within if text[:1] == b"(" else float(text)


def _some(found: list[tuple[int, bytes]], options: tuple[bytes, ...]) -> list[bytes]:
    if b"LIMIT" in options:
        place = options.index(b"LIMIT")
        start, most = int(options[place + 1]), int(options[place + 2])
        found = found[start : start + most]
    if b"WITHSCORES" in options:
        return [part for score, member in found for part in (member, b"%d" % score)]
    return [member for _, member in found]
