"""``delete``: counters are removed."""

from __future__ import annotations

from redis_counters.cli import options
from redis_counters.cli.client import opened
from redis_counters.cli.reset import take_each


def delete(
    names: options.Names,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Remove counters, and print what they were; they may be counted again at once. Otherwise as 'reset'."""
    with opened(url, namespace, region) as counters:
        take_each(counters.delete, names, as_json=as_json)
