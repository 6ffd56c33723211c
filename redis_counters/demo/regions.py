"""``demo --regions``: three servers count, an exchange runs between them, and one is cut off for a while."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from redis_counters import Counters, Exchange
from redis_counters.demo.worker import NAMESPACE
from redis_counters.drivers.embedded import EmbeddedServer
from redis_counters.testing import LossyLink

REGIONS = {"eu": 1000, "us": 600, "ap": 300}  # increments of the hot name, per second
HOT = "visits"
OTHERS = [f"stock:{number:03}" for number in range(100)]  # go up and down
INTERVAL = 0.2  # seconds between two rounds of the exchange
SAMPLE = 0.25  # seconds between two looks at the values
KEPT = 24  # of these looks: so much fits on a terminal of 80 columns
_TICK = 0.02  # seconds
_HEALING = 20.0  # seconds that everything has to be equal in, in the end
_LONGEST = 600.0  # seconds, where events are left to the keys


@dataclass(slots=True)
class Site:
    """One region of the demo: its server, the link that leads the exchange to it, and its own counts."""

    name: str
    link: LossyLink
    counters: Counters
    rate: int
    issued: Counter[str] = field(default_factory=Counter)
    value: int = 0  # of the hot name, as its own server had it at the last look
    cut: bool = False
    behind: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))

    def count(self, seconds: float, rng: random.Random) -> None:
        """Count as much as these seconds allow."""
        amount = max(1, round(self.rate * seconds * rng.uniform(0.5, 1.5)))
        self._add(HOT, amount)
        for name in rng.sample(OTHERS, 5):
            self._add(name, rng.choice((-2, -1, 1, 2, 3)))

    def _add(self, name: str, amount: int) -> None:
        self.counters.add(name, amount)
        self.issued[name] += amount


class Stage:
    """Three regions and the exchange between them. A context manager: outside of it nothing is left running."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.sites: dict[str, Site] = {}
        self.exchange: Exchange

    def __enter__(self) -> Stage:
        with ExitStack() as stack:
            links: dict[str, LossyLink] = {}
            servers: dict[str, EmbeddedServer] = {}
            for name in REGIONS:
                servers[name] = stack.enter_context(EmbeddedServer.start())
                links[name] = stack.enter_context(LossyLink(servers[name].url))
            urls = {name: link.url for name, link in links.items()}
            self.exchange = stack.enter_context(Exchange(urls, namespace=NAMESPACE, interval=INTERVAL))
            self.exchange.run_once()  # from here on the regions know each other
            for name, rate in REGIONS.items():
                url, actor = servers[name].url, f"demo in {name}"
                counters = stack.enter_context(Counters.from_url(url, namespace=NAMESPACE, region=name, actor=actor))
                self.sites[name] = Site(name, links[name], counters, rate)
            self.exchange.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def issued(self) -> Counter[str]:
        """The increments of all regions together, by name."""
        found: Counter[str] = Counter(dict.fromkeys([HOT, *OTHERS], 0))
        for site in self.sites.values():
            found.update(site.issued)
        return found

    @property
    def skew(self) -> int:
        """How far the regions are apart, at the last look: the highest value less the lowest."""
        values = [site.value for site in self.sites.values()]
        return max(values) - min(values)

    @property
    def lagging(self) -> bool:
        """Whether some region may still lack changes, as far as the exchange knows."""
        return self.exchange.stats().lag != 0

    def switch(self, name: str) -> bool:
        """Cut a region off from the exchange, or let it back; return whether it is cut off now."""
        site = self.sites[name]
        site.cut = not site.cut
        if site.cut:
            site.link.stop()
        else:
            site.link.start()
        return site.cut

    def look(self) -> None:
        """Read the hot name from each server."""
        for site in self.sites.values():
            site.value = int(site.counters.get(HOT, max_age=0))
        total = self.issued[HOT]
        for site in self.sites.values():
            site.behind.append(max(0, total - site.value))

    def wrong_names(self) -> dict[str, int]:
        """Return for each server how many names have another value than all regions counted together."""
        issued = dict(self.issued)
        found = {}
        for name, site in self.sites.items():
            values = site.counters.get_many(list(issued), max_age=0)
            found[name] = sum(int(values[each]) != issued[each] for each in issued)
        return found


@dataclass(slots=True)
class Outcome:
    """The result. ``issued``: of the hot name, by region; ``values``: of the same, as each region shows it."""

    issued: dict[str, int]
    values: dict[str, int]
    names: int
    wrong_names: dict[str, int]
    largest_skew: int
    seconds_to_heal: list[float]
    events: list[str]
    interrupted: bool = False

    @property
    def exact(self) -> bool:
        """Whether every region shows of every name what all of them counted."""
        return not any(self.wrong_names.values())

    @property
    def verdict(self) -> str:
        """The result in one line: ``eu exact, us exact, ap wrong on 3 of 101 names``."""
        wrong = self.wrong_names.items()
        parts = [f"{name} wrong on {n:,} of {self.names:,} names" if n else f"{name} exact" for name, n in wrong]
        return ", ".join(parts)


class Play:
    """The events of the demo. ``report`` gets each as a line; ``key`` returns a pressed key, or an empty text."""

    def __init__(self, stage: Stage, seconds: float, report: Callable[[str], object], key: Callable[[], str]) -> None:
        self.settled = False  # the end: values change no more
        self.by_hand = False  # a key was pressed: no event happens by itself any more
        self.events: list[str] = []
        self.heals: list[float] = []
        self.largest_skew = 0
        self._stage, self._seconds, self._report, self._key = stage, seconds, report, key
        self._healing: tuple[float, int] | None = None  # since when, and the value that each region has to reach
        self._script = [(0.2, "ap"), (0.55, "ap"), (0.75, "eu"), (0.9, "eu")]
        self._begin = time.monotonic()

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begin

    def run(self, show: Callable[[], object]) -> None:
        """Count until the time is over, or 'q'; then let back every region that is cut off."""
        rng, before, next_look = random.Random(), time.monotonic(), 0.0
        self._event("three regions count, each on its own server")
        while not self._over():
            time.sleep(_TICK)
            now = time.monotonic()
            for site in self._stage.sites.values():
                site.count(now - before, rng)
            before = now
            if now >= next_look:
                next_look = now + SAMPLE
                self._look()
                show()
        self.heal_all()

    def settle(self, show: Callable[[], object]) -> None:
        """Flush everything; then wait until all regions are equal, for a limited time."""
        for site in self._stage.sites.values():
            site.counters.flush()
        deadline = time.monotonic() + _HEALING
        while (any(self._stage.wrong_names().values()) or self._stage.lagging) and time.monotonic() < deadline:
            self._look()
            show()
            time.sleep(INTERVAL / 4)
        self.settled = True
        self._look()
        show()

    def heal_all(self) -> None:
        """Let back every region that is cut off."""
        for site in self._stage.sites.values():
            if site.cut:
                self._switch(site.name)

    def _over(self) -> bool:
        pressed = self._key()
        names = list(REGIONS)
        if pressed in ("1", "2", "3"):
            self.by_hand = True
            self._switch(names[int(pressed) - 1])
        if pressed == "q":
            return True
        if self.by_hand:
            return self.time > _LONGEST
        while self._script and self.time >= self._script[0][0] * self._seconds:
            self._switch(self._script.pop(0)[1])
        return self.time > self._seconds

    def _switch(self, name: str) -> None:
        if self._stage.switch(name):
            self._event(f"{name} is cut off, and counts on")
            self._healing = None
        else:
            self._event(f"{name} is back")
            self._healing = (time.monotonic(), self._stage.issued[HOT])

    def _look(self) -> None:
        self._stage.look()
        self.largest_skew = max(self.largest_skew, self._stage.skew)
        if self._healing is not None:
            since, goal = self._healing
            if all(site.value >= goal for site in self._stage.sites.values()):
                self._healing = None
                self.heals.append(round(time.monotonic() - since, 2))
                self._event(f"every region shows what all had counted by then, {self.heals[-1]:.2g} s later")

    def _event(self, what: str) -> None:
        self.events.append(f"{self.time:5.1f} s  {what}")
        self._report(self.events[-1])


def play(
    stage: Stage,
    seconds: float,
    report: Callable[[str], object],
    show: Callable[[Play], object],
    key: Callable[[], str] = lambda: "",
) -> Outcome:
    """Play all events on an open stage. Ctrl-C ends it early; all regions are equal in the end all the same."""
    played = Play(stage, seconds, report, key)
    interrupted = False
    try:
        played.run(lambda: show(played))
    except KeyboardInterrupt:
        interrupted = True
        played.heal_all()
    played.settle(lambda: show(played))
    return Outcome(
        issued={name: site.issued[HOT] for name, site in stage.sites.items()},
        values={name: site.value for name, site in stage.sites.items()},
        names=1 + len(OTHERS),
        wrong_names=stage.wrong_names(),
        largest_skew=played.largest_skew,
        seconds_to_heal=played.heals,
        events=played.events,
        interrupted=interrupted,
    )
