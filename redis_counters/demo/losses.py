"""The same increments by plain INCR and by redis-counters, over links that lose replies, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import redis

from redis_counters import Counters
from redis_counters.cli import output
from redis_counters.demo.crew import Crew
from redis_counters.demo.losses_script import Script
from redis_counters.demo.worker import HOT, NAMESPACE, OTHERS, PLAIN
from redis_counters.drivers.embedded import EmbeddedServer
from redis_counters.testing import LossyLink

LOSS = 100  # of so many commands one reply is lost, on either link


@dataclass(frozen=True, slots=True)
class Side:
    """Increments of the hot name, of all other names, and how many names have another result than was issued."""

    hot: int
    others: int
    wrong_names: int = 0

    @property
    def total(self) -> int:
        """Increments of all names."""
        return self.hot + self.others


@dataclass(frozen=True, slots=True)
class Outcome:
    """The increments issued, to both sides alike, and what each of them has in Redis at the end."""

    issued: Side
    incr: Side
    ours: Side
    incr_replies_lost: int
    our_replies_lost: int
    our_commands: int
    errors: list[str]
    events: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Every name of ours holds what was issued, and no worker failed."""
        return not self.errors and self.ours == self.issued

    @property
    def verdict(self) -> str:
        """The result in one line: ``INCR +100, redis-counters exact``."""
        found = f"INCR {self._error_of(self.incr)}, redis-counters {self._error_of(self.ours)}"
        return f"{found}; but not all workers could say what they issued" if self.errors else found

    def _error_of(self, side: Side) -> str:
        if error := side.total - self.issued.total:
            return f"{error:+,}"
        # Errors of several names may add up to none.
        return f"wrong on {output.number_of(side.wrong_names, 'name')}" if side.wrong_names else "exact"


class Trial:
    """The parts that can be watched while it runs: the workers, and both ways of counting."""

    def __init__(self, crew: Crew, client: redis.Redis, counters: Counters) -> None:
        self.crew, self.client, self.counters = crew, client, counters

    def incr(self) -> Side:
        """Return what plain INCR has in Redis now."""
        return self._side(lambda names: [int(v or 0) for v in self.client.mget([PLAIN + name for name in names])])

    def ours(self) -> Side:
        """Return what redis-counters has in Redis now."""
        return self._side(lambda names: [int(v) for v in self.counters.get_many(names, max_age=0).values()])

    def _side(self, read: Callable[[list[str]], list[int]]) -> Side:
        hot, *others = read([HOT, *OTHERS])
        wrong = sum(a != b for a, b in zip([hot, *others], [self.crew.hot, *self.crew.others], strict=True))
        return Side(hot, sum(others), wrong)


def run(seconds: float, show: Callable[[Trial], object], report: Callable[[str], object]) -> tuple[Outcome, bool]:
    """Run the whole demo. Return its outcome, and whether Ctrl-C ended it early.

    ``show`` is called a few times a second, ``report`` gets each event as a line.
    """
    with EmbeddedServer.start() as server, LossyLink(server.url) as plain_link, LossyLink(server.url) as our_link:
        plain_link.drop_reply(every=LOSS, commands={"INCR", "INCRBY"})  # redis-py sends INCRBY for incr()
        our_link.drop_reply(every=LOSS, commands={"EVALSHA"})
        address = urlsplit(plain_link.url)
        with (
            redis.Redis.from_url(server.url) as client,
            Counters.from_url(server.url, namespace=NAMESPACE, actor="demo") as counters,
            Crew(our_link.url, (address.hostname or "", address.port or 0)) as crew,
        ):
            trial, script = Trial(crew, client, counters), Script(crew, seconds, report)
            interrupted = False
            try:
                script.play(lambda: show(trial))
            except KeyboardInterrupt:
                interrupted = True
                script.interrupt()
            crew.finish()
            outcome = Outcome(
                issued=Side(crew.hot, sum(crew.others)),
                incr=trial.incr(),
                ours=trial.ours(),
                incr_replies_lost=plain_link.dropped,
                our_replies_lost=our_link.dropped,
                our_commands=our_link.commands["EVALSHA"],
                errors=crew.errors,
                events=script.events,
            )
    return outcome, interrupted
