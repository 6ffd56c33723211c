"""``doctor``: asks a server and a client what `findings` judges; scratch keys lie in the namespace and are removed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from typing import Any

import redis
import typer
from redis.exceptions import NoScriptError, RedisClusterException

from redis_counters.cli import options, output
from redis_counters.cli.checks import findings
from redis_counters.cli.checks.findings import Facts, Finding, Level, Trial
from redis_counters.cli.checks.region_findings import clocks_and_exchange
from redis_counters.drivers.redis_py.compat import retries_of
from redis_counters.drivers.redis_py.errors import reply_to_one, translate, translate_reply
from redis_counters.drivers.redis_py.transports import transport_of
from redis_counters.drivers.urls import open_url
from redis_counters.errors import CounterError
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import hmget
from redis_counters.protocol.wire.keys import CLUSTER_BUCKETS, KeySpace, meta_key, namespace_bytes
from redis_counters.protocol.wire.namespace import look_up_namespace, settled_keys
from redis_counters.protocol.wire.settings import Settings, make_settings

Client = redis.Redis | redis.RedisCluster

CONFIG = ("maxmemory", "maxmemory-policy", "save", "appendonly", "appendfsync", "min-replicas-to-write")

# Tries every command that scripts call for counting, on a key that does not exist, and leaves none: nothing is written
# unless something is allowed that removes it again.
TRY_COMMANDS = """
local key, answers = KEYS[1], {}
local function try(command, ...)
  local answer = redis.pcall(command, ...)
  local problem = type(answer) == 'table' and answer.err or ''
  answers[#answers + 1] = command
  answers[#answers + 1] = problem
  return problem == ''
end
try('TIME')
try('EXISTS', key)
try('HGET', key, 'f')
try('HMGET', key, 'f')
try('HGETALL', key)
local remover = try('HDEL', key, 'f') and 'HDEL'
for _, command in ipairs({'DEL', 'UNLINK'}) do
  if not remover and type(redis.pcall(command, key)) == 'number' then remover = command end
end
if remover then
  try('HSET', key, 'f', '1')
  try('HSETNX', key, 'f', '1')
  try('HINCRBY', key, 'f', '1')
  if remover == 'HDEL' then redis.call('HDEL', key, 'f') else redis.call(remover, key) end
end
return answers
"""
INSIDE = ("TIME", "EXISTS", "HGET", "HMGET", "HGETALL", "HDEL", "HSET", "HSETNX", "HINCRBY")


def examine(
    client: Client, namespace: str = options.DEFAULT_NAMESPACE, region: str = options.DEFAULT_REGION
) -> list[Finding]:
    """What is good and bad about a server, and a client, for counters in this namespace. Writes nothing that stays.

    Raises: redis.RedisError, if the server does not answer.
    """
    clustered = isinstance(client, redis.RedisCluster)
    if isinstance(client, redis.Redis) and (sentinel := findings.sentinel(_info(client)[0])):
        return [sentinel]
    settings: Facts = client.get_connection_kwargs()
    looked_up = _look_up(client, make_settings(namespace=namespace, region=region))
    servers: dict[str, list[Finding]] = {}
    trials: list[Trial] = []
    for address, one in _servers(client).items():
        info, info_trial = _info(one)
        config, config_trial = _config(one)
        trials += [trial for trial in (info_trial, config_trial) if trial not in trials]
        servers[address] = [
            findings.server({**info, "redis_mode": "", "cluster_enabled": 0} if clustered else info),
            findings.eviction(info, config),
            findings.persistence(info, config),
            findings.replication(info, config),
        ]
    of_servers = findings.of_all_servers(servers)
    needed = list(try_commands(client, namespace_bytes(namespace)))
    scans = list(_try_scans(client, namespace_bytes(namespace)))
    for_keyed = list(try_keyed(client, namespace_bytes(namespace)))
    stamping = list(try_stamping(client, namespace_bytes(namespace)))
    exchanging = list(try_exchanging(client, namespace_bytes(namespace)))
    if isinstance(looked_up, KeySpace) and _has_joined(client, looked_up):
        needed, stamping = [*needed, *stamping], []
    tried = [*needed, *scans, *for_keyed, *stamping, *exchanging, *trials]
    obstacle = findings.obstacle(tried, of_servers)
    return [
        *([_cluster(client, looked_up)] if clustered else []),
        *of_servers,
        *(findings.permissions(needed, namespace) if obstacle is None else obstacle),
        *(findings.housekeeping(scans) if obstacle is None else []),
        findings.namespace(looked_up),
        *clocks_and_exchange(_servers(client), transport_of(client), looked_up),
        *(findings.keyed(for_keyed) if obstacle is None else []),
        *(findings.stamping(stamping) if obstacle is None else []),
        *(findings.exchanging(exchanging) if obstacle is None else []),
        *(findings.optional_permissions(trials) if obstacle is None else []),
        findings.retries(*_retries(settings)),
        findings.connection(settings),
    ]


def doctor(
    context: typer.Context,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Check the server, its settings and the permissions; say what to do. Exit code 1 if something does not work."""
    make_settings(namespace=namespace, region=region)  # what is wrong with an option is told as such
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
        output.print_table("", ["check", "level", "found", "what to do"], cells)
    if any(f.level is Level.PROBLEM for f in found):
        raise typer.Exit(1)


def try_commands(client: Client, namespace: bytes) -> Iterator[Trial]:
    """Every command that is needed, tried on keys like those of counters. Cost: 5 round trips at most."""
    token = secrets.token_hex(8).encode()
    key, meta = b"{%b:0}:doctor:%b" % (namespace, token), b"%b:doctor:%b" % (namespace, token)
    sha = hashlib.sha1(TRY_COMMANDS.encode(), usedforsecurity=False).hexdigest()
    # In the order of the library: by its hash, and with its text where the server does not know it, which loads it.
    by_hash, answers = _try(client, "EVALSHA", sha, 1, key)
    yield by_hash
    if by_hash.denied_key:
        return
    by_text, answers_again = _try(client, "EVAL", TRY_COMMANDS, 1, key)
    yield by_text
    if by_text.denied_key:
        return
    inside = _inside(answers or answers_again)
    yield from inside
    tried = {trial.command for trial in inside}
    yield from (Trial(command, None) for command in INSIDE if command not in tried)
    if by_hash.error == "":
        on_meta, _ = _try(client, "EVALSHA", sha, 1, meta)
        if on_meta.error:
            yield Trial(f"EVALSHA on {namespace.decode()}:meta", on_meta.error)
    # Reads send these outside of scripts.
    yield from (
        _try(client, command, *arguments)[0] for command, *arguments in (("HGETALL", key), ("HMGET", key, b"f"))
    )


def _look_up(client: Client, settings: Settings) -> KeySpace | CounterError | None:
    """The keys of the namespace, None if it is not in use, or what keeps it from being used or looked up."""
    try:
        (raw,) = transport_of(client).ask([look_up_namespace(settings)])
        values = list_of(raw)
        return None if None in values else settled_keys(values, settings)
    except CounterError as error:
        return error


def _has_joined(client: Client, keys: KeySpace) -> bool:
    """Whether an exchange has made the namespace one of a region: then whoever counts there stamps what he changes."""
    (raw,) = transport_of(client).ask([hmget(meta_key(keys.namespace), (b"id",))])
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


def _try_scans(client: Client, namespace: bytes) -> Iterator[Trial]:
    """What the janitor reads with, outside of scripts."""
    yield _try(client, "SCAN", b"0", b"COUNT", 1)[0]
    yield _try(client, "HSCAN", b"{%b:0}:doctor" % namespace, b"0")[0]


def try_keyed(client: Client, namespace: bytes) -> Iterator[Trial]:
    """What keyed calls, counters that expire, and such as get fewer shards need beside that. Leaves no key."""
    key = b"{%b:0}:doctor:%b" % (namespace, secrets.token_hex(8).encode())
    yield _try(client, "SISMEMBER", key, b"m")[0]
    yield _try(client, "SMISMEMBER", key, b"m")[0]
    yield _try(client, "TYPE", key)[0]
    yield _try(client, "PTTL", key)[0]
    yield _try(client, "PEXPIREAT", key, 1)[0]
    yield _try(client, "GET", key)[0]
    yield _try(client, "SET", key, b"", b"XX")[0]  # only if it is there, and it is not
    remove, _ = _try(client, "SREM", key, b"m")
    yield remove
    if not remove.error:  # else what SADD makes would stay
        yield _try(client, "SADD", key, b"m")[0]
        _try(client, "SREM", key, b"m")


def try_stamping(client: Client, namespace: bytes) -> Iterator[Trial]:
    """What counting needs beside that in a namespace that regions exchange. Leaves no key."""
    key = b"{%b:0}:doctor:%b" % (namespace, secrets.token_hex(8).encode())
    yield _try(client, "ZSCORE", key, b"m")[0]
    yield _try(client, "ZMSCORE", key, b"m")[0]
    yield _try(client, "ZREVRANGEBYSCORE", key, 0, 0)[0]
    yield _try(client, "ZREM", key, b"m")[0]
    yield _try(client, "ZADD", key, b"XX", 1, b"m")[0]  # only if it is there, and it is not


def try_exchanging(client: Client, namespace: bytes) -> Iterator[Trial]:
    """What an exchange between regions, and looking at one, need besides. Leaves no key."""
    key = b"{%b:0}:doctor:%b" % (namespace, secrets.token_hex(8).encode())
    yield _try(client, "HKEYS", key)[0]
    yield _try(client, "ZRANGEBYSCORE", key, 0, 0)[0]
    yield _try(client, "ZREVRANGE", key, 0, 0)[0]
    yield _try(client, "ZCOUNT", key, 0, 0)[0]
    yield _try(client, "ZSCAN", key, b"0")[0]


def _try(client: Client, command: str, *arguments: Any) -> tuple[Trial, Any]:
    send: Any = client.execute_command  # without types in redis-py
    try:
        answer = send(command, *arguments)
    except redis.ConnectionError:
        raise
    except NoScriptError:  # the server looks at permissions first: the user may run it
        return Trial(command, ""), None
    except redis.ResponseError as error:
        return Trial(command, _told(error)), None
    return Trial(command, ""), answer


def _told(error: redis.ResponseError) -> str:
    """The server's words, with the code in front that redis-py takes off."""
    return reply_to_one(error).text


def _inside(answers: Any) -> list[Trial]:
    texts = [_text(answer) for answer in answers or ()]
    return [Trial(command, error) for command, error in zip(texts[::2], texts[1::2], strict=True)]


def _info(client: redis.Redis) -> tuple[Facts, Trial]:
    try:
        info: Any = client.info()
    except redis.ResponseError as error:
        return {}, Trial("INFO", _told(error))
    return info, Trial("INFO", "")


def _config(client: redis.Redis) -> tuple[Facts, Trial]:
    config: dict[str, object] = {}
    for name in CONFIG:
        try:
            answer: Any = client.config_get(name)
        except redis.ResponseError as error:
            return config, Trial("CONFIG GET", _told(error))
        config.update({_text(key): _text(value) for key, value in answer.items()})
    return config, Trial("CONFIG GET", "")


def _retries(settings: Facts) -> tuple[int | None, float | None, float | None]:
    """(retries, seconds between them at most, seconds of one attempt) of a client's settings."""
    retry: Any = settings.get("retry")
    if retry is None:
        return (1 if settings.get("retry_on_timeout") else 0), None, None
    count, base, cap = retries_of(retry)
    timeout: Any = settings.get("socket_timeout")
    if not isinstance(count, int) or count < 0 or timeout is None:
        return count, None, None
    waits = sum(min(cap, base * 2**failures) for failures in range(1, min(count, 1000) + 1))
    return count, waits, float(timeout)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
