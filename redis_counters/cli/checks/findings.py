"""What ``doctor`` makes of the answers it got: pure functions, each from facts to one finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from redis_counters.drivers.redis_py.errors import NO_SENTINEL
from redis_counters.errors import CounterError, SchemaMismatch
from redis_counters.protocol.wire.acl import key_patterns, of_a_key
from redis_counters.protocol.wire.commands import ErrorReply
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.refusals import IN_A_CLUSTER, error_for

# Below this version scripts lack what they need: effects replication by default, HSET of several fields.
_OLDEST = (6, 2)
# The words by which a server tells that the user may not do it, in the code or, inside a script, in the text.
_DENIALS = ("NOPERM", "ACL failure", "The user executing the script can't")
# What keeps a server from carrying out a command, whoever sends it: a sign of it, and what to do.
_OBSTACLES = {
    IN_A_CLUSTER: "Use a URL with redis+cluster://, or a RedisCluster client.",
    NO_SENTINEL: "Use redis://host:port.",
    "CLUSTERDOWN": "See CLUSTER INFO.",
    "READONLY": "Connect to the primary.",
    "OOM": "Raise maxmemory, or remove what is not needed.",
    "MISCONF": "The server cannot write its disk: see its log.",
    "NOREPLICAS": "See min-replicas-to-write, and the followers.",
    "DB index": "Name another database in the URL: redis://host:port/0.",
}


class Level(str, Enum):
    """How good a finding is. ``WARNING``: it works, and can lose counts. ``PROBLEM``: it does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``advice``: what to do, empty if nothing."""

    check: str
    level: Level
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A command that was tried, and the text of the error, empty if it worked, None if it could not be tried."""

    command: str
    error: str | None

    @property
    def denied(self) -> bool:
        return self.error is not None and any(word in self.error for word in _DENIALS)

    @property
    def lacking(self) -> bool:
        """The server does not have the command, or not by this name."""
        error = (self.error or "").lower()
        return "unknown redis command" in error or f"unknown command {self.command.split()[0].lower()!r}" in (
            error.replace("`", "'")
        )

    @property
    def denied_key(self) -> bool:
        """The command is allowed, the key is not."""
        return self.denied and of_a_key(self.error or "")


Facts = Mapping[str, object]


def server(info: Facts) -> Finding:
    """Which server it is, and whether it is new enough."""
    if not info:
        return Finding("server", Level.WARNING, "not known", "INFO tells nothing.")
    kind, version = kind_and_version(info)
    found = f"{kind} {version}"
    if kind not in {"Redis", "Valkey"}:
        return Finding("server", Level.WARNING, found, "Only Redis and Valkey are tested.")
    if _mode(info) == "cluster" or str(info.get("cluster_enabled", "0")) == "1":
        advice = "Use a URL with redis+cluster://, or a RedisCluster client: one server has a part of the keys."
        return Finding("server", Level.PROBLEM, f"{found}, in cluster mode", advice)
    if kind == "Redis" and _numbers(version) < _OLDEST:
        return Finding("server", Level.PROBLEM, found, "Upgrade to Redis 6.2 or later, or to Valkey.")
    return Finding("server", Level.OK, found)


def _mode(info: Facts) -> str:
    """Valkey calls it by another name, unless it is told to pass for Redis."""
    return str(info.get("redis_mode", info.get("server_mode", "")))


def sentinel(info: Facts) -> Finding | None:
    """Return what is to be said of a Sentinel, None for a server that may hold counts."""
    if _mode(info) != "sentinel":
        return None
    advice = "Use redis+sentinel://host:port/service, which asks it for the primary."
    return Finding("server", Level.PROBLEM, "this is a Sentinel", advice)


def no_server(text: str, advice: str) -> Finding:
    """Return what is to be said where nothing could be asked."""
    return Finding("server", Level.PROBLEM, cut(text), f"{advice}." if advice else "")


def obstacle(trials: Iterable[Trial], before: Iterable[Finding]) -> list[Finding] | None:
    """What keeps commands from being carried out, whoever sends them: then nothing is known of permissions.

    One finding, or none if those before have told it; None if there is no such thing.
    """
    texts = [trial.error for trial in trials if trial.error and not trial.denied and not trial.lacking]
    if not texts:
        return None
    signs = {"server": IN_A_CLUSTER, "replication": "READONLY"}
    if any(each.level is Level.PROBLEM and signs.get(each.check) in (texts[0], texts[0][:8]) for each in before):
        return []
    text = error_for(ErrorReply(texts[0]), None)
    advice = next((advice for sign, advice in _OBSTACLES.items() if sign in texts[0]), "See the server's message.")
    return [Finding("commands", Level.PROBLEM, cut(str(text)), advice)]


def cluster(facts: Facts, primaries: int, replicas: int, buckets: int) -> Finding:
    """Whether a cluster is whole, and keys can be spread over it. ``facts``: of CLUSTER INFO."""
    found = f"{primaries} primaries, {replicas} replicas, {buckets} buckets"
    state = str(facts.get("cluster_state", ""))
    if state != "ok":
        return Finding("cluster", Level.PROBLEM, f"{found}, state {state or 'not known'}", "See CLUSTER INFO.")
    if not replicas:
        advice = "Give each primary a replica: what is on a primary that fails cannot be counted meanwhile."
        return Finding("cluster", Level.WARNING, found, advice)
    if buckets < 4 * primaries:
        advice = "About 16 buckets per primary spread better; the number is settled at a namespace's first use."
        return Finding("cluster", Level.WARNING, found, advice)
    return Finding("cluster", Level.OK, found)


def of_all_servers(found: Mapping[str, Iterable[Finding]]) -> list[Finding]:
    """Return what was found of several servers; what is the same of all of them once."""
    shown: dict[Finding, list[str]] = {}
    for address, findings in found.items():
        for each in findings:
            shown.setdefault(each, []).append(address)
    return [
        each if len(addresses) == len(found) else replace(each, found=f"{each.found} ({', '.join(addresses)})")
        for each, addresses in shown.items()
    ]


def kind_and_version(info: Facts) -> tuple[str, str]:
    """The product and its own version; forks tell a redis_version too, that of what they are compatible with."""
    for field, kind in (
        ("valkey_version", "Valkey"),
        ("dragonfly_version", "Dragonfly"),
        ("garnet_version", "Garnet"),
    ):
        if field in info:
            return kind, str(info[field])
    name = str(info.get("server_name", "redis"))
    if "keydb" in str(info.get("executable", "")):
        name = "keydb"
    return {"redis": "Redis", "valkey": "Valkey", "keydb": "KeyDB"}.get(name, name), str(info.get("redis_version", "?"))


def eviction(info: Facts, config: Facts) -> Finding:
    """Whether the server may throw counters away to make room."""
    policy = str(config.get("maxmemory-policy", info.get("maxmemory_policy", "")))
    limit = int(str(config.get("maxmemory", info.get("maxmemory", 0)) or 0))
    advice = "Set maxmemory-policy to noeviction: an evicted counter loses what it held."
    if not policy:
        return Finding("eviction", Level.WARNING, "not known", f"INFO and CONFIG tell nothing. {advice}")
    if policy == "noeviction":
        return Finding("eviction", Level.OK, policy)
    if policy.startswith("volatile"):
        return Finding("eviction", Level.WARNING, policy, "Counters that expire may be evicted before. " + advice)
    if limit:
        return Finding("eviction", Level.PROBLEM, f"{policy} at {limit:,} bytes", advice)
    return Finding("eviction", Level.WARNING, f"{policy}, no memory limit yet", advice)


def persistence(info: Facts, config: Facts) -> Finding:
    """What a crash of the server loses."""
    if not {"aof_enabled", "rdb_last_bgsave_status"} & info.keys():
        return Finding("persistence", Level.WARNING, "not known", "INFO persistence tells nothing.")
    broken = [field for field in ("aof_last_write_status", "rdb_last_bgsave_status") if info.get(field) == "err"]
    if broken:
        return Finding(
            "persistence", Level.PROBLEM, f"{broken[0]}: err", "The server cannot write its disk: see its log."
        )
    save = config.get("save")
    if str(info.get("aof_enabled", "0")) == "1":
        sync = str(config.get("appendfsync", ""))
        found = f"AOF, appendfsync {sync}" if sync else "AOF"
        if sync == "no":
            return Finding(
                "persistence", Level.WARNING, found, "A crash can lose half a minute: use appendfsync everysec."
            )
        return Finding("persistence", Level.OK, found)
    if save:
        found, advice = (
            f"RDB only (save {save})",
            "A crash loses what came since the last snapshot: set appendonly yes.",
        )
    elif save is None:
        found, advice = "no AOF; RDB not known", "Set appendonly yes, if counts must outlive a crash of the server."
    else:
        found, advice = "none", "A restart loses every count: set appendonly yes, unless that is what you want."
    return Finding("persistence", Level.WARNING, found, advice)


def replication(info: Facts, config: Facts) -> Finding:
    """Whether this server may be written to, and what a fail-over can roll back."""
    role = str(info.get("role", ""))
    if not role:
        return Finding("replication", Level.WARNING, "not known", "INFO replication tells nothing.")
    if role != "master":
        return Finding(
            "replication", Level.PROBLEM, "this is a follower", "Counters are written: connect to the primary."
        )
    followers = int(str(info.get("connected_slaves", 0)))
    if not followers:
        return Finding("replication", Level.OK, "primary without followers")
    states = [value for number in range(followers) if isinstance(value := info.get(f"slave{number}"), Mapping)]
    lost = sum(state.get("state") != "online" for state in states)
    found = f"primary with {followers} follower{'s' if followers > 1 else ''}"
    if lost:
        return Finding("replication", Level.WARNING, f"{found}, {lost} not online", "See the log of the follower.")
    needed = str(config.get("min-replicas-to-write", "not known"))
    return Finding("replication", Level.OK, f"{found}, min-replicas-to-write {needed}")


def namespace(found: KeySpace | CounterError | None) -> Finding:
    """Whether the namespace is one that clients with these options can use."""
    if isinstance(found, SchemaMismatch):
        return Finding("namespace", Level.PROBLEM, cut(str(found)), "Give --namespace and --region as its clients do.")
    if isinstance(found, CounterError):
        return Finding("namespace", Level.WARNING, cut(str(found)), "Put right what stands above, then ask again.")
    return Finding("namespace", Level.OK, f"in use, {found.buckets} buckets" if found else "not in use yet")


def permissions(trials: Iterable[Trial], namespace: str = "rc") -> list[Finding]:
    """Whether the user of the connection may do all that is needed; one finding if so, else one per command."""
    told: dict[str, Trial] = {}  # of a command tried more than once, the worst; to have tried it says more than not
    for trial in trials:
        known = told.get(trial.command)
        if known is None or known.error is None or (trial.error and not known.error):
            told[trial.command] = trial
    found = []
    untried = [trial.command for trial in told.values() if trial.error is None]
    for trial in told.values():
        check = f"permission {trial.command}"
        if trial.denied_key:
            advice = f"Keys begin with {{{namespace}: and {namespace}: alike: ACL SETUSER ... {key_patterns(namespace)}"
            found.append(Finding(check, Level.PROBLEM, cut(trial.error), advice))
        elif trial.denied:
            advice = f"Allow it: ACL SETUSER ... {_rule(trial.command)}"
            found.append(Finding(check, Level.PROBLEM, cut(trial.error), advice))
        elif trial.error:
            found.append(Finding(check, Level.PROBLEM, cut(trial.error), "The server does not have it."))
    if untried:
        advice = "Put right what stands above, then ask again."
        found.append(Finding("permissions", Level.WARNING, f"could not be tried: {', '.join(untried)}", advice))
    if found:
        return found
    return [Finding("permissions", Level.OK, f"{len(told)} commands tried, all allowed")]


def optional_permissions(trials: Iterable[Trial]) -> list[Finding]:
    """What only this report needs: a finding for each that is missing."""
    return _spared(trials, "Nothing; with it this report would tell more.")


def housekeeping(trials: Iterable[Trial]) -> list[Finding]:
    """What only the janitor needs: a finding for each that is missing."""
    advice = "Nothing, as long as some client may: those of this user do not clean up after killed processes."
    return _spared(trials, advice)


def keyed(trials: Iterable[Trial]) -> list[Finding]:
    """What only keyed calls, and counters that expire or get fewer shards, need: a finding for each that is missing."""
    return _spared(trials, "Nothing, unless incr_once, likes, expire_at or reshard is used: ACL SETUSER ... {rule}")


def stamping(trials: Iterable[Trial]) -> list[Finding]:
    """What counting needs only where regions exchange the namespace: a finding for each that is missing."""
    return _spared(trials, "Nothing, unless regions exchange what is counted here: ACL SETUSER ... {rule}")


def exchanging(trials: Iterable[Trial]) -> list[Finding]:
    """What only exchanges between regions need: a finding for each that is missing."""
    return _spared(trials, "Nothing, unless this user lets regions exchange what they have: ACL SETUSER ... {rule}")


def _spared(trials: Iterable[Trial], advice: str) -> list[Finding]:
    """Return a finding for each that is missing, and may be; ``{rule}`` in the advice is what would allow it."""
    return [
        Finding(
            f"permission {trial.command}",
            Level.OK,
            "not there, and not needed to count" if trial.lacking else "not allowed, and not needed to count",
            advice.replace("{rule}", _rule(trial.command)),
        )
        for trial in trials
        if trial.error
    ]


def retries(count: int | None, waits: float | None, timeout: float | None) -> Finding:
    """How often the client repeats by itself: harmless to counts, but a call may take long.

    ``waits``: seconds between all attempts together, at most; ``timeout``: that of one attempt.
    """
    if count is None:
        return Finding("client retries", Level.WARNING, "not known", "The client tells nothing of its retry policy.")
    if count == 0:
        return Finding("client retries", Level.OK, "none; flushes are repeated by the library")
    found = f"{count} by the client; harmless here, a repeated flush changes nothing"
    if count < 0:
        return Finding("client retries", Level.WARNING, "without end", "A flush blocks as long as the server is away.")
    if waits is None or timeout is None:
        return Finding("client retries", Level.OK, found)
    seconds = waits + (count + 1) * timeout
    return Finding("client retries", Level.OK, f"{found}; one call may block for {seconds:,.0f} s")


def connection(options: Facts) -> Finding:
    """The settings of the client that matter, or that people ask about."""
    timeout = options.get("socket_timeout")
    decoded = "on" if options.get("decode_responses") else "off"
    protocol = options.get("protocol") or "the client's default"
    found = f"socket_timeout {timeout}, decode_responses {decoded}, protocol {protocol}"
    if timeout is None:
        advice = "Set socket_timeout: a server that hangs would hold up flushes without end."
        return Finding("client connection", Level.WARNING, found, advice)
    return Finding("client connection", Level.OK, found)


def _rule(command: str) -> str:
    return "+" + command.lower().split()[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def cut(text: str | None) -> str:
    return (text or "")[:200]
