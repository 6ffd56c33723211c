"""``demo``: counting under failures, on private servers; `redis_counters.demo` is started from here alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from redis_counters.cli import options
from redis_counters.errors import UsageError

_MAX_SECONDS = 600


def demo(
    context: typer.Context,
    seconds: Annotated[float, options.seconds("--seconds", "How long the workers count.", 1, _MAX_SECONDS)] = 10.0,
    web: Annotated[bool, options.flag("--web", "A page to like posts on, in a browser, until Ctrl-C.")] = False,
    regions: Annotated[
        bool, options.flag("--regions", "Three servers that exchange what they count, and a partition between them.")
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

    With --regions three servers count, an exchange sends each what the others have, and one of them is cut off and
    comes back: by itself, or on a terminal when a key is pressed. Exit code 0 if all are equal and exact.
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
        from redis_counters.demo.regions_view import run_regions as run
    else:
        from redis_counters.demo.losses_view import run_losses as run
    with _sigterm_as_ctrl_c():
        raise typer.Exit(run(seconds, as_json=as_json))


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: a killed demo must not leave a frozen process behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
