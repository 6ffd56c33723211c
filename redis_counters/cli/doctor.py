"""``doctor``: asks a server and a client, and prints what `checks` makes of the answers."""

from __future__ import annotations

from typing import Any

import redis
import typer
from redis.exceptions import RedisClusterException

from redis_counters.cli import options, output
from redis_counters.cli.checks import findings, permissions, trials
from redis_counters.cli.checks.findings import Facts, Finding, Level
from redis_counters.cli.checks.region_findings import clocks_and_exchange
from redis_counters.cli.checks.trials import Client, Trial, failed, text_of
from redis_counters.cli.client import look_up
from redis_counters.drivers.redis_py.compat import retries_of
from redis_counters.drivers.redis_py.errors import translate, translate_reply
from redis_counters.drivers.redis_py.transports import transport_of
from redis_counters.drivers.transport import Transport
from redis_counters.drivers.urls import open_url
from redis_counters.errors import CounterError
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import hmget
from redis_counters.protocol.wire.keys import CLUSTER_BUCKETS, KeySpace, meta_key, namespace_bytes
from redis_counters.protocol.wire.settings import make_settings

CONFIG = ("maxmemory", "maxmemory-policy", "save", "appendonly", "appendfsync", "min-replicas-to-write")


def doctor(
    context: typer.Context,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Check the server, its settings and the permissions; say what to do. Exit code 1 if something does not work."""
    make_settings(namespace=namespace, region=region)  # refuses a wrong option before anything is asked
    opened = open_url(url, asyncio=False)
    try:
        found = examine(opened.connected(), namespace, region)
    except (redis.RedisError, RedisClusterException) as error:
        said = context.get_parameter_source("url")
        known = translate_reply(error) if isinstance(error, redis.ResponseError) else translate(error) or error
        found = [findings.no_server(str(known), "" if said is None or said.name != "DEFAULT" else options.WHERE)]
    finally:
        opened.stop_all()
    if as_json:
        rows = [{"check": f.check, "level": f.level.value, "found": f.found, "advice": f.advice} for f in found]
        output.print_json({"checks": rows})
    else:
        cells = [(f.check, f.level.value, f.found, f.advice) for f in found]
        output.print_table(["check", "level", "found", "what to do"], cells)
    if any(f.level is Level.PROBLEM for f in found):
        raise typer.Exit(1)


def examine(
    client: Client, namespace: str = options.DEFAULT_NAMESPACE, region: str = options.DEFAULT_REGION
) -> list[Finding]:
    """Return what is good and bad about a server, and a client, for counters in this namespace. Leaves no key.

    Raises: redis.RedisError, if the server does not answer.
    """
    clustered = isinstance(client, redis.RedisCluster)
    if isinstance(client, redis.Redis) and (sentinel := findings.sentinel(_info(client)[0])):
        return [sentinel]
    settings: Facts = client.get_connection_kwargs()
    deployment, prefix = transport_of(client), namespace_bytes(namespace)
    keys: KeySpace | CounterError | None
    try:
        keys = look_up(deployment, make_settings(namespace=namespace, region=region))
    except CounterError as error:
        keys = error
    each_server: dict[str, list[Finding]] = {}
    asked: list[Trial] = []
    for address, one in _servers(client).items():
        (info, info_trial), (config, config_trial) = _info(one), _config(one)
        asked += [trial for trial in (info_trial, config_trial) if trial not in asked]
        each_server[address] = [
            findings.server({**info, "redis_mode": "", "cluster_enabled": 0} if clustered else info),
            findings.eviction(info, config),
            findings.persistence(info, config),
            findings.replication(info, config),
        ]
    of_servers = findings.of_all_servers(each_server)
    return [
        *([_cluster(client, keys)] if clustered else []),
        *of_servers,
        *_permissions(client, deployment, prefix, keys, asked, of_servers),
        findings.namespace(keys),
        *clocks_and_exchange(_servers(client), deployment, keys),
        findings.retries(*_retries(settings)),
        findings.connection(settings),
    ]


def _permissions(
    client: Client,
    deployment: Transport,
    prefix: bytes,
    keys: KeySpace | CounterError | None,
    asked: list[Trial],
    before: list[Finding],
) -> list[Finding]:
    """Try all commands. Return what the user may not do, or what keeps the commands of any user from working."""
    needed = list(trials.try_commands(client, prefix))
    scans, keyed = trials.try_scans(client, prefix), trials.try_keyed(client, prefix)
    stamping, exchanging = trials.try_stamping(client, prefix), trials.try_exchanging(client, prefix)
    if isinstance(keys, KeySpace) and _has_joined(deployment, keys):
        needed, stamping = [*needed, *stamping], []
    tried = [*needed, *scans, *keyed, *stamping, *exchanging, *asked]
    if (obstacle := permissions.obstacle(tried, before)) is not None:
        return obstacle
    return [
        *permissions.permissions(needed, prefix.decode()),
        *permissions.dispensable(scans, permissions.HOUSEKEEPING),
        *permissions.dispensable(keyed, permissions.KEYED),
        *permissions.dispensable(stamping, permissions.STAMPING),
        *permissions.dispensable(exchanging, permissions.EXCHANGING),
        *permissions.dispensable(asked, permissions.REPORT),
    ]


def _has_joined(deployment: Transport, keys: KeySpace) -> bool:
    """Return whether the namespace is one of a region, as an exchange makes it: then counting stamps what changes."""
    (raw,) = deployment.ask([hmget(meta_key(keys.namespace), (b"id",))])
    return list_of(raw, 1) != [None]


def _servers(client: Client) -> dict[str, redis.Redis]:
    """Return a client of each server that takes counts, by address."""
    if not isinstance(client, redis.RedisCluster):
        return {"": client}
    cluster: Any = client  # redis-py leaves some of it without types
    return {f"{node.host}:{node.port}": cluster.get_redis_connection(node) for node in cluster.get_primaries()}


def _cluster(client: Any, keys: KeySpace | CounterError | None) -> Finding:
    node = client.get_primaries()[0]
    facts = client.get_redis_connection(node).execute_command("CLUSTER INFO")
    buckets = keys.buckets if isinstance(keys, KeySpace) else CLUSTER_BUCKETS
    return findings.cluster(facts, len(client.get_primaries()), len(client.get_replicas()), buckets)


def _info(client: redis.Redis) -> tuple[Facts, Trial]:
    try:
        info: Any = client.info()
    except redis.ResponseError as error:
        return {}, failed("INFO", error)
    return info, Trial("INFO", "")


def _config(client: redis.Redis) -> tuple[Facts, Trial]:
    config: dict[str, object] = {}
    for name in CONFIG:
        try:
            answer: Any = client.config_get(name)
        except redis.ResponseError as error:
            return config, failed("CONFIG GET", error)
        config.update({text_of(key): text_of(value) for key, value in answer.items()})
    return config, Trial("CONFIG GET", "")


def _retries(settings: Facts) -> tuple[int | None, float | None, float | None]:
    """Return (retries, seconds between them at most, seconds of one attempt) of a client's settings."""
    retry: Any = settings.get("retry")
    if retry is None:
        return (1 if settings.get("retry_on_timeout") else 0), None, None
    count, base, cap = retries_of(retry)
    timeout: Any = settings.get("socket_timeout")
    if not isinstance(count, int) or count < 0 or timeout is None:
        return count, None, None
    waits = sum(min(cap, base * 2**failures) for failures in range(1, min(count, 1000) + 1))
    return count, waits, float(timeout)
