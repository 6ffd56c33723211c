"""``incr``: one counter is changed, and its new value printed."""

from __future__ import annotations

from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.client import opened, wait_ready
from redis_counters.errors import OutcomeUnknown, Unavailable, UsageError

_FLUSH_TIMEOUT = 10.0  # seconds
_MAX_AMOUNT = 2**63 - 1  # that one process can count in one counter, up or down


def incr(
    name: options.Name,
    amount: Annotated[int, typer.Argument(metavar="N", help="A whole number of 64 bits; below zero to take away.")] = 1,
    timeout: options.Timeout = None,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Add N (1) to a counter and print its new value, when Redis has confirmed it."""
    if abs(amount) > _MAX_AMOUNT:
        raise UsageError(f"N lies between -{_MAX_AMOUNT} and {_MAX_AMOUNT}")
    counter = output.to_bytes(name)
    with opened(url, namespace, region) as counters:
        wait_ready(counters, timeout, name=counter)  # a server that is away is reported before anything is counted
        counters.add(counter, amount)
        try:
            counters.flush(timeout=_FLUSH_TIMEOUT if timeout is None else timeout)
        except Unavailable as error:
            reason = counters.stats().last_error or "Redis takes too long"
            raise OutcomeUnknown(f"{reason}; given up, whether it was counted is not known") from error
        value = int(counters.get(counter, max_age=0))
    if as_json:
        output.print_json({output.to_json_text(counter): value})
    else:
        output.print_lines([str(value)])
