"""The options that every command takes, written once; given before the command they become its defaults."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from redis_counters.drivers.urls import DEFAULT_URL, URL_VARIABLE

__all__ = [
    "DEFAULT_NAMESPACE",
    "DEFAULT_REGION",
    "DEFAULT_URL",
    "URL_VARIABLE",
    "WHERE",
    "Json",
    "Namespace",
    "Region",
    "Timeout",
    "Url",
    "a_number",
]

DEFAULT_NAMESPACE = "rc"
DEFAULT_REGION = "main"
WHERE = f"--url or {URL_VARIABLE} says where Redis is, embedded:// starts one"


def a_number(value: float | None) -> float | None:
    """Refuse NaN, which no range keeps out."""
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
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="The prefix of all keys.")]
Region = Annotated[
    str, typer.Option("--region", metavar="NAME", help="The name of this deployment, as its clients have it.")
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        callback=a_number,
        show_default=False,
        help="For how long to wait for a Redis that is away; without it, at the start not at all. "
        "One that hangs is waited for up to 10 seconds more.",
    ),
]
# metavar="": new versions of typer show <bool> else, as if a flag took a value.
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object on standard output.")]
