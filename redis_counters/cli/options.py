"""The arguments and options that several commands take, written once."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from redis_counters.drivers.urls import DEFAULT_URL, URL_VARIABLE

__all__ = [
    "DEFAULT_NAMESPACE",
    "DEFAULT_REGION",
    "DEFAULT_URL",
    "URL_VARIABLE",
    "WHERE",
    "Json",
    "Name",
    "Names",
    "Namespace",
    "Region",
    "Timeout",
    "Url",
    "flag",
    "seconds",
]

DEFAULT_NAMESPACE = "rc"
DEFAULT_REGION = "main"
WHERE = f"--url or {URL_VARIABLE} says where Redis is, embedded:// starts one"


def flag(name: str, text: str) -> Any:
    """Return an option that is on where it is given."""
    # metavar="": new versions of typer show <bool> otherwise, as if a flag took a value.
    return typer.Option(name, metavar="", show_default=False, help=text)


def seconds(name: str, text: str, least: float = 0, most: float | None = None, *, show_default: bool = True) -> Any:
    """Return an option that is a number of seconds."""
    return typer.Option(
        name, metavar="SECONDS", min=least, max=most, callback=_no_nan, show_default=show_default, help=text
    )


def _no_nan(value: float | None) -> float | None:
    """Refuse NaN, which no range excludes."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number of seconds")
    return value


# show_default=False: a URL from the environment may hold a password, and help would print it.
Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        show_default=False,
        help=(
            "redis:, rediss:, unix:, valkey: or valkeys: and where; with +cluster, a server of a cluster;"
            " with +sentinel, Sentinels and what they watch;"
            " or embedded://, a private server for this command."
            f" Else ${URL_VARIABLE}, else {DEFAULT_URL}."
        ),
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the counter.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of counters.")]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="The prefix of all keys.")]
Region = Annotated[
    str, typer.Option("--region", metavar="NAME", help="The name of this deployment, as its clients have it.")
]
Timeout = Annotated[
    float | None,
    seconds(
        "--timeout",
        "How long to wait for a Redis that is away; without it, not at all at the start. "
        "A server that hangs is waited for up to 10 seconds more.",
        show_default=False,
    ),
]
Json = Annotated[bool, flag("--json", "Print one JSON object on standard output.")]
