"""``reset``: counters are set to 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redis_counters.cli import options, output
from redis_counters.cli.client import opened
from redis_counters.errors import CounterError, Refused
from redis_counters.protocol.wire.refusals import of_many


def reset(
    names: options.Names,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Set counters to 0, and print what they were; what is counted at the same time stays.

    A table on a terminal, NAME<TAB>VALUE lines in a pipe, {"NAME": VALUE} with --json. It may be repeated.
    """
    with opened(url, namespace, region) as counters:
        take_each(counters.reset, names, as_json=as_json)


def take_each(take: Callable[[bytes], int], names: Sequence[str], *, as_json: bool) -> None:
    """Take the value of each counter, and print it.

    A counter that Redis refuses does not stop the others. After any other error the values taken so far are printed
    all the same: they cannot be asked for afterwards.
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
            output.print_values(list(taken.items()), as_json=as_json)
    if refused:
        raise of_many(refused, {})
