"""``get``, ``incr``, ``reset`` and ``delete``: values of counters named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.client import opened
from redis_counters.cli.wait_ready import wait_for_redis
from redis_counters.errors import CounterError, OutcomeUnknown, Refused, Unavailable, UsageError
from redis_counters.protocol.wire.refusals import of_many

FLUSH_TIMEOUT = 10.0
MOST = 2**63 - 1  # that one process can count in one counter, up or down


def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of counters.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Print the values of counters.

    A table on a terminal, NAME<TAB>VALUE lines in a pipe, {"NAME": VALUE} with --json. A counter that nobody has
    counted is 0. A name that starts with a dash goes behind '--'.
    """
    wanted = [output.to_bytes(name) for name in names]
    with opened(url, namespace, region) as counters:
        try:
            found: Mapping[str | bytes, int] = counters.get_many(wanted, max_age=0)
        except Refused as error:
            if error.values:
                _show_of(error.values, wanted, as_json=as_json)
            raise
    _show_of(found, wanted, as_json=as_json)


def _show_of(found: Mapping[str | bytes, int], wanted: Sequence[bytes], *, as_json: bool) -> None:
    """Print the values of those that were found."""
    values = {name: int(found[name]) for name in wanted if name in found}
    _show(values, [name for name in wanted if name in values], as_json=as_json)


def _show(values: Mapping[bytes, int], wanted: Sequence[bytes], *, as_json: bool) -> None:
    if as_json:
        output.print_json({output.to_json_text(name): value for name, value in values.items()})
    elif sys.stdout.isatty():
        rows = [(output.printable(name), f"{value:,}") for name, value in values.items()]
        output.print_table("", ["name", "value"], rows, numbers=["value"])
    else:
        output.print_lines(b"%s\t%d" % (name, values[name]) for name in wanted)


def incr(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the counter.")],
    amount: Annotated[int, typer.Argument(metavar="N", help="A whole number of 64 bits; below zero to take away.")] = 1,
    timeout: options.Timeout = None,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Add N (1) to a counter and print its new value, when Redis has confirmed it."""
    if abs(amount) > MOST:
        raise UsageError(f"N lies between -{MOST} and {MOST}")
    counter = output.to_bytes(name)
    with opened(url, namespace, region) as counters:
        wait_for_redis(counters, timeout, name=counter)  # a server that is away is told of before anything is counted
        counters.add(counter, amount)
        try:
            counters.flush(timeout=FLUSH_TIMEOUT if timeout is None else timeout)
        except Unavailable as error:
            reason = counters.stats().last_error or "Redis takes too long"
            raise OutcomeUnknown(f"{reason}; given up, whether it was counted is not known") from error
        value = int(counters.get(counter, max_age=0))
    if as_json:
        output.print_json({output.to_json_text(counter): value})
    else:
        output.print_lines([str(value).encode()])


def reset(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of counters.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Set counters to 0, and print what they were; what is counted at the same time stays.

    A table on a terminal, NAME<TAB>VALUE lines in a pipe, {"NAME": VALUE} with --json. It may be repeated.
    """
    with opened(url, namespace, region) as counters:
        _take_away(counters.reset, names, as_json=as_json)


def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of counters.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Remove counters, and print what they were; they may be counted again at once. Otherwise as 'reset'."""
    with opened(url, namespace, region) as counters:
        _take_away(counters.delete, names, as_json=as_json)


def _take_away(take: Callable[[bytes], int], names: Sequence[str], *, as_json: bool) -> None:
    """Print what it takes, also where one of them fails: nobody can learn afterwards what the others were.

    One that Redis refuses does not keep those behind it from being done.
    """
    taken: dict[bytes, int] = {}
    refused: dict[bytes, Refused] = {}
    try:
        for name in map(output.to_bytes, dict.fromkeys(names)):
            try:
                taken[name] = take(name)
            except CounterError as error:
                if error.taken:
                    taken[name] = error.taken
                if not isinstance(error, Refused) or error.counter != name:
                    raise
                refused[name] = error
    finally:
        if taken:
            _show(taken, list(taken), as_json=as_json)
    if refused:
        raise of_many(refused, {})
