"""The findings of ``doctor``: pure functions, each from facts to one finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from redis_counters.errors import CounterError, SchemaMismatch
from redis_counters.protocol.wire.keys import KeySpace

# Below this version scripts lack what they need: effects replication by default, HSET of several fields.
_OLDEST = (6, 2)

Facts = Mapping[str, object]


class Level(str, Enum):
    """How good a finding is. ``WARNING``: it works, and can lose counts. ``PROBLEM``: it does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


OK, WARNING, PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``advice``: what to do, empty if nothing."""

    check: str
    level: Level
    found: str
    advice: str = ""


def server(info: Facts) -> Finding:
    """Return which server it is, and whether it is new enough."""
    if not info:
        return Finding("server", WARNING, "not known", "INFO tells nothing.")
    kind, version = kind_and_version(info)
    found = f"{kind} {version}"
    if kind not in {"Redis", "Valkey"}:
        return Finding("server", WARNING, found, "Only Redis and Valkey are tested.")
    if _mode(info) == "cluster" or str(info.get("cluster_enabled", "0")) == "1":
        advice = "Use a URL with redis+cluster://, or a RedisCluster client: one server has a part of the keys."
        return Finding("server", PROBLEM, f"{found}, in cluster mode", advice)
    if kind == "Redis" and tuple(int(part) for part in version.split(".") if part.isdigit()) < _OLDEST:
        return Finding("server", PROBLEM, found, "Upgrade to Redis 6.2 or later, or to Valkey.")
    return Finding("server", OK, found)


def sentinel(info: Facts) -> Finding | None:
    """Return a finding for a Sentinel, None for a server that may hold counts."""
    if _mode(info) != "sentinel":
        return None
    advice = "Use redis+sentinel://host:port/service, which asks it for the primary."
    return Finding("server", PROBLEM, "this is a Sentinel", advice)


def _mode(info: Facts) -> str:
    """Return the server's mode; Valkey has another name for it, unless it is configured to pass for Redis."""
    return str(info.get("redis_mode", info.get("server_mode", "")))


def no_server(text: str, advice: str) -> Finding:
    """Return the only finding where the server did not answer."""
    return Finding("server", PROBLEM, cut(text), f"{advice}." if advice else "")


def cluster(facts: Facts, primaries: int, replicas: int, buckets: int) -> Finding:
    """Return whether a cluster is whole, and keys can be spread over it. ``facts``: of CLUSTER INFO."""
    found = f"{primaries} primaries, {replicas} replicas, {buckets} buckets"
    state = str(facts.get("cluster_state", ""))
    if state != "ok":
        return Finding("cluster", PROBLEM, f"{found}, state {state or 'not known'}", "See CLUSTER INFO.")
    if not replicas:
        advice = "Give each primary a replica: what is on a primary that fails cannot be counted meanwhile."
        return Finding("cluster", WARNING, found, advice)
    if buckets < 4 * primaries:
        advice = "About 16 buckets per primary spread better; the number is settled at a namespace's first use."
        return Finding("cluster", WARNING, found, advice)
    return Finding("cluster", OK, found)


def of_all_servers(found: Mapping[str, Iterable[Finding]]) -> list[Finding]:
    """Return the findings of several servers; one that all of them have, once."""
    shown: dict[Finding, list[str]] = {}
    for address, findings in found.items():
        for each in findings:
            shown.setdefault(each, []).append(address)
    return [
        each if len(addresses) == len(found) else replace(each, found=f"{each.found} ({', '.join(addresses)})")
        for each, addresses in shown.items()
    ]


def kind_and_version(info: Facts) -> tuple[str, str]:
    """Return the product and its own version; the redis_version of a fork is that of a Redis it is compatible with."""
    for kind in ("Valkey", "Dragonfly", "Garnet"):
        if (version := info.get(f"{kind.lower()}_version")) is not None:
            return kind, str(version)
    name = str(info.get("server_name", "redis"))
    if "keydb" in str(info.get("executable", "")):
        name = "keydb"
    return {"redis": "Redis", "valkey": "Valkey", "keydb": "KeyDB"}.get(name, name), str(info.get("redis_version", "?"))


def eviction(info: Facts, config: Facts) -> Finding:
    """Return whether the server may evict counters to make room."""
    policy = str(config.get("maxmemory-policy", info.get("maxmemory_policy", "")))
    limit = int(str(config.get("maxmemory", info.get("maxmemory", 0)) or 0))
    advice = "Set maxmemory-policy to noeviction: an evicted counter loses what it held."
    if not policy:
        return Finding("eviction", WARNING, "not known", f"INFO and CONFIG tell nothing. {advice}")
    if policy == "noeviction":
        return Finding("eviction", OK, policy)
    if policy.startswith("volatile"):
        return Finding("eviction", WARNING, policy, "Counters that expire may be evicted before. " + advice)
    if limit:
        return Finding("eviction", PROBLEM, f"{policy} at {limit:,} bytes", advice)
    return Finding("eviction", WARNING, f"{policy}, no memory limit yet", advice)


def persistence(info: Facts, config: Facts) -> Finding:
    """Return what a crash of the server loses."""
    if not {"aof_enabled", "rdb_last_bgsave_status"} & info.keys():
        return Finding("persistence", WARNING, "not known", "INFO persistence tells nothing.")
    for status in ("aof_last_write_status", "rdb_last_bgsave_status"):
        if info.get(status) == "err":
            return Finding("persistence", PROBLEM, f"{status}: err", "The server cannot write its disk: see its log.")
    save = config.get("save")
    if str(info.get("aof_enabled", "0")) == "1":
        sync = str(config.get("appendfsync", ""))
        found = f"AOF, appendfsync {sync}" if sync else "AOF"
        if sync != "no":
            return Finding("persistence", OK, found)
        advice = "A crash can lose half a minute: use appendfsync everysec."
    elif save:
        found, advice = f"RDB only (save {save})", "A crash loses all since the last snapshot: set appendonly yes."
    elif save is None:
        found, advice = "no AOF; RDB not known", "Set appendonly yes, if counts must outlive a crash of the server."
    else:
        found, advice = "none", "A restart loses every count: set appendonly yes, unless that is what you want."
    return Finding("persistence", WARNING, found, advice)


def replication(info: Facts, config: Facts) -> Finding:
    """Return whether this server may be written to, and what a fail-over can roll back."""
    role = str(info.get("role", ""))
    if not role:
        return Finding("replication", WARNING, "not known", "INFO replication tells nothing.")
    if role != "master":
        advice = "Counters are written: connect to the primary."
        return Finding("replication", PROBLEM, "this is a follower", advice)
    followers = int(str(info.get("connected_slaves", 0)))
    if not followers:
        return Finding("replication", OK, "primary without followers")
    states = [value for number in range(followers) if isinstance(value := info.get(f"slave{number}"), Mapping)]
    lost = sum(state.get("state") != "online" for state in states)
    found = f"primary with {followers} follower{'s' if followers > 1 else ''}"
    if lost:
        return Finding("replication", WARNING, f"{found}, {lost} not online", "See the log of the follower.")
    needed = str(config.get("min-replicas-to-write", "not known"))
    return Finding("replication", OK, f"{found}, min-replicas-to-write {needed}")


def namespace(found: KeySpace | CounterError | None) -> Finding:
    """Return whether clients with these options can use the namespace."""
    if isinstance(found, SchemaMismatch):
        return Finding("namespace", PROBLEM, cut(str(found)), "Give --namespace and --region as its clients do.")
    if isinstance(found, CounterError):
        return Finding("namespace", WARNING, cut(str(found)), "Put right what stands above, then ask again.")
    return Finding("namespace", OK, f"in use, {found.buckets} buckets" if found else "not in use yet")


def retries(count: int | None, waits: float | None, timeout: float | None) -> Finding:
    """Return how often the client retries by itself: harmless to counts, but a call may take long.

    ``waits``: seconds between all attempts together, at most; ``timeout``: that of one attempt.
    """
    if count is None:
        return Finding("client retries", WARNING, "not known", "The client tells nothing of its retry policy.")
    if count == 0:
        return Finding("client retries", OK, "none; flushes are repeated by the library")
    found = f"{count} by the client; harmless here, a repeated flush changes nothing"
    if count < 0:
        return Finding("client retries", WARNING, "without end", "A flush blocks as long as the server is away.")
    if waits is None or timeout is None:
        return Finding("client retries", OK, found)
    seconds = waits + (count + 1) * timeout
    return Finding("client retries", OK, f"{found}; one call may block for {seconds:,.0f} s")


def connection(options: Facts) -> Finding:
    """Return the settings of the client that matter, or that people ask about."""
    timeout = options.get("socket_timeout")
    decoded = "on" if options.get("decode_responses") else "off"
    protocol = options.get("protocol") or "the client's default"
    found = f"socket_timeout {timeout}, decode_responses {decoded}, protocol {protocol}"
    if timeout is None:
        advice = "Set socket_timeout: a server that hangs would hold up flushes without end."
        return Finding("client connection", WARNING, found, advice)
    return Finding("client connection", OK, found)


def cut(text: str | None) -> str:
    """Return the text, not longer than a table can show."""
    return (text or "")[:200]
