"""``demo``: the same increments by plain INCR and by redis-counters, over links that lose replies, side by side."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

import redis
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from redis_counters import Counters
from redis_counters.cli import options, output
from redis_counters.demo.crew import Crew
from redis_counters.demo.script import Script
from redis_counters.demo.worker import HOT, NAMESPACE, OTHERS, PLAIN
from redis_counters.drivers.embedded import EmbeddedServer
from redis_counters.errors import Unavailable, UsageError
from redis_counters.testing import LossyLink

INTERRUPTED = 130
LOSS = 100  # of so many commands one reply is lost, on either link
_LONGEST = 600  # seconds
COLUMNS = ("", "issued", "INCR", "error", "redis-counters", "error")  # of the table at the end


@dataclass(frozen=True, slots=True)
class Side:
    """Increments of the hot name, of all other names, and on how many names a result is not what was issued."""

    hot: int
    others: int
    wrong_names: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was issued, to both sides alike, and what each of them has in Redis at the end."""

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
        """What came of it, in one line: ``INCR +100, redis-counters exact``."""
        told = f"INCR {self._error_of(self.incr)}, redis-counters {self._error_of(self.ours)}"
        return f"{told}; but not all workers could say what they issued" if self.errors else told

    def _error_of(self, side: Side) -> str:
        error = side.hot + side.others - self.issued.hot - self.issued.others
        if error:
            return f"{error:+,}"
        # Errors of several names may add up to none.
        return f"wrong on {output.number_of(side.wrong_names, 'name')}" if side.wrong_names else "exact"


def demo(
    context: typer.Context,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="SECONDS",
            min=1,
            max=_LONGEST,
            callback=options.a_number,
            help="How long the workers count.",
        ),
    ] = 10.0,
    web: Annotated[
        bool,
        typer.Option(
            "--web", metavar="", help="A page to like posts on, in a browser, until Ctrl-C.", show_default=False
        ),
    ] = False,
    regions: Annotated[
        bool,
        typer.Option(
            "--regions",
            metavar="",
            help="Three servers that exchange what they count, and a partition between them.",
            show_default=False,
        ),
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="With --web: where to listen; by default, only this machine can."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="With --web: 0 takes a free one.")
    ] = 8000,
    as_json: options.Json = False,
) -> None:
    """Count under failures with plain INCR and with redis-counters, and compare: on a private server, for some seconds.

    Four processes count one hot name and a thousand others. One is stopped and replaced, one is frozen and resumed, and
    replies get lost on the way. Exit code 0 if every count of redis-counters is exact, else 1.

    With --web it is a page in a browser: twenty posts to like, a crowd and a link that loses replies to switch on.

    With --regions three servers count for themselves, an exchange tells each what the others have, and one of them is
    cut off and comes back: by itself, or on a terminal when a key is pressed. Exit code 0 if all are equal and exact.
    """
    if web and regions:
        raise UsageError("--web and --regions are two demos: one at a time")
    if web:
        from redis_counters.demo.web.command import run_web  # with the extra web

        raise typer.Exit(run_web(host, port, as_json))
    for option in ("host", "port"):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"--{option} says where the page listens: it goes with --web")
    if regions:
        from redis_counters.demo.regions_view import run_regions

        with _signals():
            raise typer.Exit(run_regions(seconds, as_json=as_json))
    console = Console(highlight=False)
    show: Callable[[RenderableType], object] = _nothing
    tell: Callable[[str], object] = _nothing
    with _signals(), ExitStack() as stack:
        if not as_json:
            terminal = sys.stdout.isatty()
            tell = console.print if terminal else _plain
            tell(
                f"For {seconds:g} s four processes count the same by INCR and by redis-counters, on a private server.\n"
                "The links to it lose replies; one process will be replaced, one frozen for a while."
            )
            if terminal:
                live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
                show = lambda table: live.update(table, refresh=True)  # noqa: E731 - a def would hide that it is one call
        outcome, interrupted = run(seconds, show, tell)
    if as_json:
        output.print_json(asdict(outcome) | {"exact": outcome.exact, "interrupted": interrupted})
    else:
        if sys.stdout.isatty():
            console.print(_final(outcome, interrupted))
        else:
            output.print_lines(line.encode() for line in ["", outcome.verdict, "", _title(interrupted)])
            rows = [[str(cell) for cell in row] for row in _rows(outcome)]
            output.print_table("", COLUMNS, rows, numbers=COLUMNS[1:], aligned=True)
            output.print_lines(line.encode() for line in ["", *_notes(outcome), *outcome.errors])
        tell("To see it in a browser, and click: redis-counters demo --web (in a checkout: make demo DEMO_ARGS=--web)")
    raise typer.Exit(INTERRUPTED if interrupted else 0 if outcome.exact else 1)


def _plain(line: object) -> None:
    """A line in a pipe is as long as it is."""
    output.print_lines([str(line).encode()])


def _nothing(_: object) -> None:
    """Where nobody looks on."""


def run(
    seconds: float, show: Callable[[RenderableType], object] = _nothing, tell: Callable[[str], object] = _nothing
) -> tuple[Outcome, bool]:
    """The whole demo: its outcome, and whether Ctrl-C ended it early.

    ``show`` gets a table a few times a second, ``tell`` each event as a line.
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
            script = Script(crew, seconds, tell)
            try:
                script.play(lambda: show(_live(crew, client, counters)))
                interrupted = False
            except KeyboardInterrupt:
                interrupted = True
                script.interrupt()
            crew.finish()
            outcome = Outcome(
                issued=Side(crew.hot, sum(crew.others)),
                incr=_side(crew, lambda names: [int(v or 0) for v in client.mget([PLAIN + name for name in names])]),
                ours=_side(crew, lambda names: [int(v) for v in counters.get_many(names, max_age=0).values()]),
                incr_replies_lost=plain_link.dropped,
                our_replies_lost=our_link.dropped,
                our_commands=our_link.commands["EVALSHA"],
                errors=crew.errors,
                events=script.events,
            )
    return outcome, interrupted


def _side(crew: Crew, read: Callable[[list[str]], list[int]]) -> Side:
    hot, *others = read([HOT, *OTHERS])
    wrong = sum(a != b for a, b in zip([hot, *others], [crew.hot, *crew.others], strict=True))
    return Side(hot, sum(others), wrong)


def _live(crew: Crew, client: redis.Redis, counters: Counters) -> RenderableType:
    table = Table(
        title="Issued so far, to both sides, as last reported (reports lag behind Redis)",
        title_justify="left",
        show_footer=True,
    )
    for column, footer in (("worker", "sum"), ("pid", ""), ("state", "")):
        table.add_column(column, footer=footer)
    for column, total in (("all names", crew.total), (f"of {HOT!r}", crew.hot)):
        table.add_column(column, justify="right", footer=f"{total:,}")
    table.add_column("per second", justify="right", footer=f"{sum(w.rate for w in crew.workers):,.0f}")
    colours = {"frozen": "cyan", "closing": "yellow", "closed": "dim", "failed": "red"}
    for w in crew.workers:
        state = Text(f"{w.state} {w.note}".strip(), style=colours.get(w.state, "green"))
        numbers = f"{w.report.total:,}", f"{w.report.hot:,}", f"{w.rate:,.0f}"
        table.add_row(str(w.number), str(w.pid), state, *numbers)
    values = Table("", Column(justify="right"), box=None, show_header=False)
    values.add_row(f"{HOT!r} in Redis now, by INCR", f"{int(client.get(PLAIN + HOT) or 0):,}")
    try:
        ours = f"{int(counters.get(HOT, max_age=0)):,}"
    except Unavailable as error:
        ours = str(error)
    values.add_row(f"{HOT!r} in Redis now, by redis-counters, which flushes every 0.1 s", ours)
    return Group(table, values)


def _final(outcome: Outcome, interrupted: bool) -> RenderableType:
    table = Table(title=_title(interrupted), title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column else "left")
    for row in _rows(outcome):
        table.add_row(*row)
    verdict = Text(outcome.verdict, style="bold green" if outcome.exact else "bold red")
    notes = [Text(line) for line in _notes(outcome)]
    return Group("", verdict, "", table, *notes, *(Text(line, style="red") for line in outcome.errors))


def _title(interrupted: bool) -> str:
    return f"{'When it was interrupted' if interrupted else 'At the end'}, after all workers had closed"


def _rows(outcome: Outcome) -> Iterator[list[str | Text]]:
    issued, both = outcome.issued, (outcome.incr, outcome.ours)
    for label, wanted, results in (
        (f"the hot name {HOT!r}", issued.hot, [side.hot for side in both]),
        (f"{len(OTHERS):,} other names", issued.others, [side.others for side in both]),
        ("all names", issued.hot + issued.others, [side.hot + side.others for side in both]),
    ):
        cells: list[str | Text] = [label, f"{wanted:,}"]
        for result in results:
            style = "green" if result == wanted else "red"
            cells += [f"{result:,}", Text(f"{result - wanted:+,}" if result != wanted else "0", style=style)]
        yield cells
    wrong = [Text(f"{side.wrong_names:,}", style="red" if side.wrong_names else "green") for side in both]
    yield ["names that are wrong", "", "", wrong[0], "", wrong[1]]


def _notes(outcome: Outcome) -> list[str]:
    return [
        f"Both links lost 1 reply in {LOSS}: {outcome.incr_replies_lost:,} to INCR, {outcome.our_replies_lost:,} to"
        " redis-counters, which sends many increments at once.",
        "What is not answered is sent again. INCR then counts it twice, redis-counters once.",
        "INCR here is redis-py's, with its defaults. Each increment went to both, and waited for its INCR.",
    ]


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: a killed demo must not leave a frozen process behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
