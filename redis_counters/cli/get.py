"""``get``: the values of counters, as Redis has them now."""

from __future__ import annotations

from collections.abc import Mapping

from redis_counters.cli import options, output
from redis_counters.cli.client import opened
from redis_counters.errors import Refused


def get(
    names: options.Names,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Print the values of counters.

    A table on a terminal, NAME<TAB>VALUE lines in a pipe, {"NAME": VALUE} with --json. A counter that was never
    counted is 0. A name that starts with a dash goes behind '--'.
    """
    wanted = [output.to_bytes(name) for name in names]

    def show(found: Mapping[str | bytes, int]) -> None:
        output.print_values([(name, int(found[name])) for name in wanted if name in found], as_json=as_json)

    with opened(url, namespace, region) as counters:
        try:
            show(counters.get_many(wanted, max_age=0))
        except Refused as error:
            if error.values:
                show(error.values)
            raise
