# Generated from redis_counters/asyncio/exchange.py by `make blocking`: change that.
"""The blocking face of `Exchange`: regions are brought to the same counts, by a thread for each directed pair."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.exchange.threads import ThreadExchange
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.redis_py.transports import transport_of
from redis_counters.errors import Unavailable, not_applied
from redis_counters.face import NotAsyncio, OnePerProcess, names_bytes
from redis_counters.face_exchange import make_places, open_places, reading_core, skew
from redis_counters.protocol.exchange.membership import add_some, evict_one, see
from redis_counters.protocol.exchange.metrics import ExchangeStats, RegionStatus
from redis_counters.protocol.wire.durability import Durability
from redis_counters.protocol.wire.region_names import check_name
from redis_counters.protocol.wire.settings import check_age, checked_age
from redis_counters.protocol.wire.values import N

if TYPE_CHECKING:
    from redis_counters.events import Observer


class Exchange(NotAsyncio, OnePerProcess):
    """Brings the counters of independent Redis deployments (regions) to the same counts, again and again.

    ``regions``: by name (1 to 64 of ``A-Z a-z 0-9 . _ -``), each a URL as `Counters.from_url` takes it, or a redis-py
    client of the caller's. All of them have the same ``namespace`` and the same number of buckets.
    ``interval``: seconds between looks at what changed; where nothing changes it grows to 10.
    ``durability``: what must confirm a region's state before it goes on to another, and before a mark is relied upon.
    ``links``: which regions are asked, as pairs (source, destination); default: each asks all others.
    ``observer``: called with each event, in the thread or task where it happens.

    Any number of exchanges may run at once, anywhere, and be killed at any point: whatever is merged is the larger of
    two counts, and how far it got is recorded in the region in the same step. A region that is down is tried again and
    delays nothing between the others.

    Cost: two connections per directed pair; less than 1 kB a minute per pair of regions and bucket while nothing
    changes. Raises: TypeError, UsageError for an option that is not accepted; nothing is sent yet.
    """

    def __init__(
        self,
        regions: Mapping[str, Any],
        *,
        namespace: str = "rc",
        interval: float = 0.2,
        durability: Durability | None = None,
        links: Iterable[tuple[str, str]] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._durability = durability
        self._places = make_places(
            regions,
            transport_of,
            asyncio=False,
            namespace=namespace,
            interval=interval,
            durability=durability,
            links=links,
            observer=observer,
        )
        self._runner = ThreadExchange(self._places)
        weakref.finalize(self, self._runner.abandon).atexit = False

    def __enter__(self) -> Exchange:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """The exchange goes on in the background, until `close`. Calling again does nothing; nothing is waited for."""
        self._runner.start()

    def close(self, timeout: float = 5.0) -> None:
        """The exchange has ended, and so have the connections that it made; calling again does nothing.

        Calls other than `stats` raise Unavailable from then on; so do those that wait already.
        What is on its way is waited for ``timeout`` seconds at most: another exchange begins where this one was.
        """
        self._runner.close(check_age("timeout", timeout))

    def run_once(self, timeout: float | None = None) -> ExchangeStats:
        """Every region has what the others had when this was called; all that there is was compared.

        ``timeout``: seconds for all of it. By default it takes as long as it gets on: a pair of regions that gets
        nowhere for 15 seconds is given up, and no answer is waited for longer than 10. Returns the figures so far.
        Cost: O(what changed) and a comparison of all counters, some 100 bytes each per pair of regions.
        Raises: Unavailable for regions that do not answer in time, Refused for regions that may not take part; all
        others have been brought up to date by then.
        """
        self._runner.run_once(checked_age(timeout, "timeout"))
        return self.stats()

    def stats(self) -> ExchangeStats:
        """Return the figures so far, by pair of regions. Cost: none, nothing is asked."""
        fork_hooks.notice()
        return self._places.stats()

    def read_skew(self, names: Iterable[N]) -> dict[N, int]:
        """Return by how much the regions' values of each counter differ: the largest less the smallest.

        Regions are read one after the other: while counting goes on they differ without anything being wrong.
        Cost: as `Counters.get_many` in every region; 10 seconds at most. Raises: Unavailable, if one does not answer.
        """
        wanted, deadline = names_bytes(names), Deadline()
        with not_applied:
            values = [
                self._runner.ask(name, reading_core(self._places, place).reads.fetch(wanted.values()), deadline)
                for name, place in self._runner.opened().items()
                if wanted  # to ask for nothing would be to wait for an answer that does not come
            ]
        return skew(wanted, values)

    def regions(self) -> dict[str, RegionStatus]:
        """Return all regions by name: those of this exchange, and others that these have recorded.

        Cost: one round trip to each; 10 seconds at most.
        Raises nothing for a region that does not answer: its ``error`` says so.
        """
        with not_applied:
            names = [name.encode() for name in self._runner.opened()]
        return {status.name: status for status in self._runner.operate(see(self._places.common, names), Deadline())}

    def add_regions(self, regions: Mapping[str, Any], *, links: Iterable[tuple[str, str]] | None = None) -> None:
        """These regions are recorded as members everywhere, and take part from now on.

        ``links``: those that come with them; default: each asks all others.
        One that was evicted returns: what it had from others is removed there, and sent anew; what it has
        counted itself, also meanwhile, counts once.
        Cost: a walk over all keys of a region that is new, or returns.
        Raises: Unavailable, if one of them or another member does not answer: then nothing has changed, or may be
        repeated; Refused, SchemaMismatch for one that may not take part: another deployment has its name, or its
        namespace has another number of buckets.
        """
        self._runner.opened()
        new = open_places(regions, transport_of, asyncio=False, durability=self._durability)
        before = self._places.places
        added = [name.encode() for name in new]
        try:
            wanted = self._places.links_with(new, links)
            self._places.places = {**before, **new}
            self._runner.operate(add_some(self._places.common, [name.encode() for name in before], added))
        except BaseException:
            self._places.places = before
            self._runner.end(new.values())
            raise
        self._places.evicted -= set(new)
        self._places.link(wanted, new)
        if self._runner.running:
            self._runner.start()
        self._runner.end([place for name, place in before.items() if name in new])

    def evict(self, name: str) -> None:
        """The region is recorded as evicted everywhere: it takes part no more, what it counted until now stays.

        Cleaning up after deleted counters does not wait for it any more. It returns by `add_regions`.
        Raises: UsageError for an unknown name; Unavailable if a member (other than the evicted one) does not
        answer: then it is recorded with all others, and is to be called again.
        """
        names = [each.encode() for each in self._runner.opened()]
        operation = evict_one(self._places.common, names, check_name(name).encode())
        self._places.leaving.add(name)
        try:
            self._runner.operate(operation)
        except Unavailable:
            self._places.unlink(name)
            raise
        else:
            self._places.unlink(name)
        finally:
            self._places.leaving.discard(name)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Exchange regions={list(self._places.places)!r}>"
