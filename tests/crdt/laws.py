"""The laws of `redis_counters.crdt.lattice`, once, for every type.

A type brings a `Spec`: what its operations look like (a Hypothesis strategy), how one is applied, what it counts. The
harness runs a few replicas through a random schedule in which any earlier state of any replica may arrive anywhere, at
any time and repeatedly, and keeps account of which operations each state knows of. All copies that ever existed are
then material for the laws, so that no law is tried on states that could not come about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, Generic, Protocol, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from redis_counters.crdt.lattice import Decomposable, merge_all

ACTORS = (b"a", b"b", b"c")


class Counts(Decomposable, Protocol):
    """A state with a value."""

    @property
    def value(self) -> int: ...


S = TypeVar("S", bound=Counts)
Op = TypeVar("Op")


@dataclass(frozen=True)
class Spec(Generic[S, Op]):
    """What a type tells the harness. ``amount``: what an operation adds. ``grows``: the value never falls.

    ``apply`` returns None for an operation that is refused: then it has not happened.
    """

    name: str
    bottom: S
    operations: st.SearchStrategy[Op]
    apply: Callable[[S, bytes, Op], S | None]
    delta: Callable[[S, bytes, Op], S | None]
    amount: Callable[[Op], int]
    grows: bool = False

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Copy(Generic[S]):
    """A state, and by right: how many operations of each actor it knows of (always the first ones)."""

    state: S
    known: Mapping[bytes, int]

    def includes(self, other: Copy[S]) -> bool:
        return all(count <= self.known.get(actor, 0) for actor, count in other.known.items())


@dataclass(frozen=True)
class Step(Generic[S]):
    """An operation that was done, and what its delta-mutator said of it."""

    before: S
    delta: S
    after: S


@dataclass
class World(Generic[S, Op]):
    """Replicas, one an actor, and every copy of their states there ever was, oldest first."""

    spec: Spec[S, Op]
    now: dict[bytes, Copy[S]] = field(init=False)
    copies: list[Copy[S]] = field(init=False)
    done: dict[bytes, list[Op]] = field(init=False)
    steps: list[Step[S]] = field(default_factory=list)

    def __post_init__(self) -> None:
        nothing: Copy[S] = Copy(self.spec.bottom, {})
        self.now = dict.fromkeys(ACTORS, nothing)
        self.copies = [nothing]
        self.done = {actor: [] for actor in ACTORS}

    def operate(self, actor: bytes, op: Op) -> None:
        before = self.now[actor]
        after, delta = self.spec.apply(before.state, actor, op), self.spec.delta(before.state, actor, op)
        if after is None or delta is None:
            assert after is delta, "an operation and its delta are refused together"
            return
        self.steps.append(Step(before.state, delta, after))
        self.done[actor].append(op)
        self._set(actor, Copy(after, {**before.known, actor: len(self.done[actor])}))

    def deliver(self, copy: Copy[S], to: bytes) -> None:
        here = self.now[to]
        known = {actor: max(here.known.get(actor, 0), copy.known.get(actor, 0)) for actor in ACTORS}
        self._set(to, Copy(here.state.merge(copy.state), known))

    def exchange(self) -> None:
        """Everybody has heard of everything."""
        for source, to in permutations(ACTORS, 2):
            self.deliver(self.now[source], to)
        for source, to in permutations(ACTORS, 2):
            self.deliver(self.now[source], to)

    def amount(self, known: Mapping[bytes, int]) -> int:
        """What these operations add up to."""
        return sum(self.spec.amount(op) for actor, count in known.items() for op in self.done[actor][:count])

    def distinct(self) -> list[Copy[S]]:
        """The copies, those left out that say again what an earlier one says."""
        found: list[Copy[S]] = []
        for copy in self.copies:
            if copy not in found:
                found.append(copy)
        return found

    def all_known(self) -> dict[bytes, int]:
        return {actor: len(ops) for actor, ops in self.done.items()}

    def _set(self, actor: bytes, copy: Copy[S]) -> None:
        self.now[actor] = copy
        self.copies.append(copy)


AnyWorld = World[Any, Any]
AnyCopy = Copy[Any]
AnySpec = Spec[Any, Any]

# --- the laws -----------------------------------------------------------------------------------------------------


def commutative(world: AnyWorld, x: AnyCopy, y: AnyCopy) -> None:
    """The order of two merged states does not matter."""
    assert x.state.merge(y.state) == y.state.merge(x.state)


def associative(world: AnyWorld, x: AnyCopy, y: AnyCopy, z: AnyCopy) -> None:
    """Nor does it matter who merges first."""
    assert x.state.merge(y.state).merge(z.state) == x.state.merge(y.state.merge(z.state))


def idempotent(world: AnyWorld, x: AnyCopy) -> None:
    """A state merged with itself is itself."""
    assert x.state.merge(x.state) == x.state


def bottom_neutral(world: AnyWorld, x: AnyCopy) -> None:
    """The bottom is below all, adds nothing, and counts nothing."""
    bottom = world.spec.bottom
    assert bottom == type(bottom).bottom()
    assert bottom <= x.state
    assert bottom.merge(x.state) == x.state == x.state.merge(bottom)
    assert bottom.value == 0


def order_is_merge(world: AnyWorld, x: AnyCopy, y: AnyCopy) -> None:
    """x <= y exactly if y has nothing to learn from x."""
    assert (x.state <= y.state) == (x.state.merge(y.state) == y.state)


def least_upper_bound(world: AnyWorld, x: AnyCopy, y: AnyCopy, z: AnyCopy) -> None:
    """A merge is above both, and below whatever is above both."""
    merged = x.state.merge(y.state)
    assert x.state <= merged
    assert y.state <= merged
    for bound in (z.state, merged.merge(z.state)):
        if x.state <= bound and y.state <= bound:
            assert merged <= bound


def inflation(world: AnyWorld) -> None:
    """An operation goes up."""
    for step in world.steps:
        assert step.before <= step.after


def delta_is_mutation(world: AnyWorld) -> None:
    """Merging the delta does what the operation did; again, or into the result, it does nothing."""
    for step in world.steps:
        assert step.before.merge(step.delta) == step.after
        assert step.delta <= step.after
        assert step.after.merge(step.delta) == step.after


def old_copies_change_nothing(world: AnyWorld, x: AnyCopy, y: AnyCopy) -> None:
    """Whatever is included already may arrive again, in any order: it is below, and changes nothing."""
    for newer, older in ((x, y), (y, x), *((newest, x) for newest in world.now.values())):
        if newer.includes(older):
            assert older.state <= newer.state
            assert newer.state.merge(older.state) == newer.state


def states_say_what_they_know(world: AnyWorld, x: AnyCopy, y: AnyCopy) -> None:
    """Two ways to know of the same operations lead to the same state, and it counts those operations, each once."""
    assert x.state.value == world.amount(x.known)
    if x.includes(y) and y.includes(x):
        assert x.state == y.state


def value_in_bounds(world: AnyWorld) -> None:
    """Own increments <= value <= all increments, and no replica's value falls; for a type that only grows."""
    if not world.spec.grows:
        return
    everything = world.amount(world.all_known())
    for actor, copy in world.now.items():
        assert world.amount({actor: len(world.done[actor])}) <= copy.state.value <= everything
    for step in world.steps:
        assert step.before.value <= step.after.value


def exact_after_exchange(world: AnyWorld) -> None:
    """When everybody has heard of everything, all states are equal, and count it all."""
    world.exchange()
    states = [copy.state for copy in world.now.values()]
    assert all(state == states[0] for state in states)
    assert states[0].value == world.amount(world.all_known())


def decomposes(world: AnyWorld, x: AnyCopy) -> None:
    """The parts merge to the state, each is needed, and none is what the states below it merge to."""
    bottom = world.spec.bottom
    parts = list(x.state.decompose())
    assert merge_all(parts, bottom) == x.state
    states = [copy.state for copy in world.copies] + [step.delta for step in world.steps]
    for i, part in enumerate(parts):
        assert merge_all(parts[:i] + parts[i + 1 :], bottom) != x.state
        assert list(part.decompose()) == [part]
        assert merge_all((state for state in states if state <= part and state != part), bottom) != part


Law = Callable[..., None]
"""Takes the world, and as many copies of it as the table says."""

LAWS: dict[Law, int] = {
    commutative: 2,
    associative: 3,
    idempotent: 1,
    bottom_neutral: 1,
    order_is_merge: 2,
    least_upper_bound: 3,
    inflation: 0,
    delta_is_mutation: 0,
    old_copies_change_nothing: 2,
    states_say_what_they_know: 2,
    value_in_bounds: 0,
    exact_after_exchange: 0,
    decomposes: 1,
}

# --- running them -------------------------------------------------------------------------------------------------


def worlds(spec: AnySpec) -> st.SearchStrategy[AnyWorld]:
    """Worlds after a random schedule. A delivery counts its copy from the newest; the old ones are as likely."""
    actor = st.sampled_from(ACTORS)
    operation = st.tuples(actor, spec.operations)
    delivery = st.tuples(actor, st.integers(0, 11).map(_Age))
    schedule = st.lists(st.one_of(operation, operation, delivery), max_size=14)
    return st.tuples(schedule, st.booleans()).map(lambda drawn: _play(spec, *drawn))


class _Age(int):
    """How many copies back; a type of its own, to be told from an operation."""


def _play(spec: AnySpec, schedule: Iterable[tuple[bytes, Any]], exchange: bool) -> AnyWorld:
    world: AnyWorld = World(spec)
    for actor, what in schedule:
        if isinstance(what, _Age):
            world.deliver(world.copies[-1 - what % len(world.copies)], actor)
        else:
            world.operate(actor, what)
    if exchange:
        world.exchange()
    return world


def check(spec: AnySpec, law: Law, config: settings) -> None:
    """The law holds for the type, as far as random schedules can tell. Raises: AssertionError."""

    @settings(config, deadline=None, report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        world = data.draw(worlds(spec), label="world")
        some = data.draw(st.permutations(world.distinct()), label="copies")[:6] if LAWS[law] else []
        for copies in product(some, repeat=LAWS[law]):
            law(world, *copies)

    run()


def machine(spec: AnySpec) -> type[RuleBasedStateMachine]:
    """Longer runs, with messages that are duplicated, reordered, lost, or delivered when they are old."""

    class Replicas(RuleBasedStateMachine):
        messages: Bundle[AnyCopy] = Bundle("messages")
        actors = st.sampled_from(ACTORS)

        def __init__(self) -> None:
            super().__init__()
            self.world: AnyWorld = World(spec)

        @rule(actor=actors, op=spec.operations)
        def operate(self, actor: bytes, op: Any) -> None:
            self.world.operate(actor, op)

        @rule(target=messages, actor=actors)
        def send(self, actor: bytes) -> AnyCopy:
            return self.world.now[actor]

        @rule(message=messages, to=actors)
        def deliver(self, message: AnyCopy, to: bytes) -> None:
            self.world.deliver(message, to)
            again = self.world.now[to].state.merge(message.state)
            assert again == self.world.now[to].state

        @rule(target=messages, message=consumes(messages), to=actors)
        def deliver_last(self, message: AnyCopy, to: bytes) -> Any:
            self.world.deliver(message, to)
            return multiple()

        @invariant()
        def replicas_say_what_they_know(self) -> None:
            for copy in self.world.now.values():
                states_say_what_they_know(self.world, copy, copy)

        def teardown(self) -> None:
            inflation(self.world)
            value_in_bounds(self.world)
            for old in self.world.copies:
                old_copies_change_nothing(self.world, old, self.world.copies[-1])
            exact_after_exchange(self.world)

    Replicas.__name__ = Replicas.__qualname__ = f"Replicas_{spec.name}"
    return Replicas
