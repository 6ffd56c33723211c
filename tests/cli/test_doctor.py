"""``doctor``: what it makes of answers, told by hand, and of real servers and users with less than all permissions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_counters import Counters, NotPermitted
from redis_counters.cli.checks import findings, permissions
from redis_counters.cli.checks.findings import Facts, Finding, Level
from redis_counters.cli.checks.trials import (
    INSIDE,
    TRY_COMMANDS,
    Trial,
    try_commands,
    try_exchanging,
    try_keyed,
    try_stamping,
)
from redis_counters.cli.doctor import examine
from redis_counters.drivers.redis_py.wire import words
from redis_counters.protocol.wire.commands import Command, Script, hgetall, hmget
from tests.cli.commands import run
from tests.servers import NOWHERE, RealServer
from tests.topologies import Cluster, Sentinels

OK, WARNING, PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM
LUA = Path(__file__).parents[2] / "lua"
STAMPING = ("ZADD", "ZMSCORE", "ZREM", "ZREVRANGEBYSCORE", "ZSCORE")
EXCHANGING = ("HKEYS", "ZCOUNT", "ZRANGEBYSCORE", "ZREVRANGE", "ZSCAN")
DISPENSABLE = ("INFO", "PEXPIRETIME")  # without them a restart is not noticed at once, and times are less exact
KEYED = ("GET", "PEXPIREAT", "PTTL", "SADD", "SET", "SISMEMBER", "SMISMEMBER", "SREM", "TYPE")


@pytest.mark.parametrize(
    ("info", "level", "found"),
    [
        ({"redis_version": "7.0.15"}, OK, "Redis 7.0.15"),
        ({"redis_version": "6.2.5"}, OK, "Redis 6.2.5"),
        ({"redis_version": "6.0.16"}, PROBLEM, "Redis 6.0.16"),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"}, OK, "Valkey 8.1.0"),
        ({"redis_version": "7.4.0", "dragonfly_version": "df-v1.30"}, WARNING, "Dragonfly df-v1.30"),
        ({"redis_version": "6.3.4", "executable": "/usr/bin/keydb-server"}, WARNING, "KeyDB 6.3.4"),
        ({"redis_version": "8.0.0", "redis_mode": "cluster"}, PROBLEM, "Redis 8.0.0, in cluster mode"),
        ({"valkey_version": "8.1.0", "server_mode": "cluster"}, PROBLEM, "Valkey 8.1.0, in cluster mode"),
    ],
)
def test_server(info: Facts, level: Level, found: str) -> None:
    """Forks name a redis_version too; their own counts."""
    finding = findings.server(info)
    assert (finding.level, finding.found) == (level, found)


@pytest.mark.parametrize(
    ("info", "config", "level"),
    [
        ({"maxmemory_policy": "noeviction", "maxmemory": 0}, {}, OK),
        ({"maxmemory_policy": "noeviction", "maxmemory": 100}, {}, OK),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": 0}, {}, WARNING),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": 100}, {}, PROBLEM),
        ({"maxmemory_policy": "volatile-ttl", "maxmemory": 100}, {}, WARNING),
        ({}, {"maxmemory-policy": "allkeys-random", "maxmemory": "100"}, PROBLEM),
        ({}, {"maxmemory-policy": "noeviction", "maxmemory": "100"}, OK),
        ({}, {}, WARNING),
    ],
)
def test_eviction(info: Facts, config: Facts, level: Level) -> None:
    """INFO or CONFIG, whichever is allowed; a policy that may evict counters is never ok."""
    assert findings.eviction(info, config).level is level


@pytest.mark.parametrize(
    ("info", "config", "level", "found"),
    [
        ({"aof_enabled": 1}, {"appendfsync": "everysec"}, OK, "AOF, appendfsync everysec"),
        ({"aof_enabled": 1}, {"appendfsync": "no"}, WARNING, "AOF, appendfsync no"),
        ({"aof_enabled": 1}, {}, OK, "AOF"),
        ({"aof_enabled": 0}, {"save": "3600 1"}, WARNING, "RDB only (save 3600 1)"),
        ({"aof_enabled": 0}, {"save": ""}, WARNING, "none"),
        ({"aof_enabled": 0}, {}, WARNING, "no AOF; RDB not known"),
        ({"aof_enabled": 0, "rdb_last_bgsave_status": "err"}, {}, PROBLEM, "rdb_last_bgsave_status: err"),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, {}, PROBLEM, "aof_last_write_status: err"),
        ({}, {}, WARNING, "not known"),
    ],
)
def test_persistence(info: Facts, config: Facts, level: Level, found: str) -> None:
    """AOF is ok, less is a warning, a disk that cannot be written is a problem."""
    finding = findings.persistence(info, config)
    assert (finding.level, finding.found) == (level, found)


@pytest.mark.parametrize(
    ("info", "level", "found"),
    [
        ({"role": "master", "connected_slaves": 0}, OK, "primary without followers"),
        ({"role": "slave"}, PROBLEM, "this is a follower"),
        (
            {"role": "master", "connected_slaves": 1, "slave0": {"state": "online"}},
            OK,
            "primary with 1 follower, min-replicas-to-write 1",
        ),
        (
            {
                "role": "master",
                "connected_slaves": 2,
                "slave0": {"state": "online"},
                "slave1": {"state": "wait_bgsave"},
            },
            WARNING,
            "primary with 2 followers, 1 not online",
        ),
        ({}, WARNING, "not known"),
    ],
)
def test_replication(info: Facts, level: Level, found: str) -> None:
    """A follower cannot be written to; followers of a primary are counted."""
    finding = findings.replication(info, {"min-replicas-to-write": "1"})
    assert (finding.level, finding.found) == (level, found)


def test_permissions() -> None:
    """One finding if all is allowed, else one for each command that is not, and one for all that were not tried."""
    assert [finding.level for finding in permissions.permissions([Trial("HGET", ""), Trial("HSET", "")])] == [OK]
    trials = [
        Trial("HGET", "NOPERM User u has no permissions to run the 'hget' command"),
        Trial("HSET", None),
        Trial("HDEL", None),
        Trial("TIME", ""),
        Trial("EVALSHA", "NOPERM No permissions to access a key"),
        Trial("HGETALL", "READONLY You can't write against a read only replica."),
    ]
    found = permissions.permissions(trials)
    assert [(finding.check, finding.level) for finding in found] == [
        ("permission HGET", PROBLEM),
        ("permission EVALSHA", PROBLEM),
        ("permission HGETALL", PROBLEM),
        ("permissions", WARNING),
    ]
    assert "+hget" in found[0].advice
    assert found[1].advice == "Keys begin with {rc: and rc: alike: ACL SETUSER ... ~rc:* ~{rc:*}:*"
    assert "HSET, HDEL" in found[3].found


def test_a_command_tried_twice() -> None:
    """Of two trials of a command the one that failed counts, and one that could not be made does not."""
    denied = Trial("HGET", "NOPERM User u has no permissions to run the 'hget' command")
    for trials in ([denied, Trial("HGET", "")], [Trial("HGET", ""), denied], [Trial("HGET", None), denied]):
        assert [finding.check for finding in permissions.permissions(trials)] == ["permission HGET"]
    (finding,) = permissions.permissions([Trial("HGET", None), Trial("HGET", "")])
    assert (finding.level, finding.found) == (OK, "1 commands tried, all allowed")


@pytest.mark.parametrize(
    ("facts", "level", "part"),
    [
        ((None, None, None), WARNING, "not known"),
        ((0, None, None), OK, "none"),
        ((10, 5.0, 5.0), OK, "60 s"),
        ((3, None, None), OK, "3 by the client"),
        ((-1, None, None), WARNING, "without end"),
    ],
)
def test_retries(facts: tuple[int | None, float | None, float | None], level: Level, part: str) -> None:
    """Repetitions are harmless; how long they may take is told."""
    finding = findings.retries(*facts)
    assert finding.level is level
    assert part in finding.found


def test_every_command_of_the_scripts_is_tried() -> None:
    """Whatever a script calls is tried by the script of the report, and nothing else is demanded."""
    pattern = r"\bp?(?:call|try)\(\s*'([A-Z]+)'"
    called = {name for path in LUA.rglob("*.lua") for name in re.findall(pattern, path.read_text())}
    assert called
    assert set(re.findall(pattern, TRY_COMMANDS)) == set(INSIDE)
    assert called <= {*INSIDE, *KEYED, *STAMPING, *EXCHANGING, *DISPENSABLE}


def test_what_the_library_sends_is_tried() -> None:
    """The commands sent are those of the library: scripts by hash and by text, and two plain ones that read."""
    script = Command(Script.SLOTS_READ, (b"key",))
    by_library = [words(script), words(script, text=True), words(hgetall(b"key")), words(hmget(b"key", (b"f",)))]
    sent: list[str] = []

    class Recorder:
        def execute_command(self, command: str, *_arguments: object) -> list[bytes]:
            sent.append(command)
            return []

    recorder: Any = Recorder()
    tried = {trial.command for trial in try_commands(recorder, b"rc")}
    assert {command[0].decode() for command in by_library} == set(sent)
    assert tried == {*sent, *INSIDE}


def found_without(server: RealServer, *commands: str) -> dict[str, Finding]:
    """Return the findings, by check, for a user with all permissions but these commands."""
    admin: Any = server.client()
    admin.execute_command("ACL", "SETUSER", "partly", "on", "nopass", "~*", "+@all", *(f"-{c}" for c in commands))
    try:
        return {finding.check: finding for finding in examine(server.client(username="partly", password=""))}
    finally:
        admin.execute_command("ACL", "DELUSER", "partly")


def test_who_may_not_use_sets_may_count(server: RealServer) -> None:
    """What keyed calls need is tried too, leaves no key, and is not demanded."""
    admin: Any = server.client()
    tried = [trial.command for trial in try_keyed(admin, b"rc")]
    assert sorted(tried) == sorted(KEYED)
    assert admin.dbsize() == 0
    found = found_without(server, "sadd", "sismember")
    assert found["permissions"].level is OK
    assert {check for check in found if check.startswith("permission ")} == {"permission SADD", "permission SISMEMBER"}
    assert "+sadd" in found["permission SADD"].advice
    assert admin.dbsize() == 0


def test_what_regions_need_is_tried_too(server: RealServer) -> None:
    """It leaves no key, and is not demanded; the advice says for what it is."""
    admin: Any = server.client()
    assert sorted(trial.command for trial in try_stamping(admin, b"rc")) == sorted(STAMPING)
    assert sorted(trial.command for trial in try_exchanging(admin, b"rc")) == sorted(EXCHANGING)
    assert admin.dbsize() == 0
    found = found_without(server, "zadd", "zscan")
    assert found["permissions"].level is OK
    assert found["permission ZADD"].advice.startswith("Nothing, unless regions exchange what is counted here")
    assert found["permission ZSCAN"].advice.startswith("Nothing, unless this user lets regions exchange")
    assert {check for check in found if check.startswith("permission ")} == {"permission ZADD", "permission ZSCAN"}
    assert admin.dbsize() == 0


def test_what_stamps_changes_is_demanded_where_a_region_has_joined(server: RealServer) -> None:
    """There a user without it cannot count."""
    run(server, "incr", "likes")
    admin: Any = server.client()
    admin.hset("rc:meta", "id", "drawn by an exchange")
    found = found_without(server, "zadd", "zscan")
    assert found["permission ZADD"].level is PROBLEM
    assert "+zadd" in found["permission ZADD"].advice
    assert found["permission ZSCAN"].level is OK


def levels(found: list[Finding]) -> dict[str, Level]:
    return {finding.check: finding.level for finding in found}


def test_a_plain_server(server: RealServer) -> None:
    """All is allowed, nothing stays behind, only persistence is to be warned of."""
    client = server.client()
    found = examine(client)
    assert levels(found) == {
        "server": OK,
        "eviction": OK,
        "persistence": WARNING,
        "replication": OK,
        "permissions": OK,
        "namespace": OK,
        "clock": OK,
        "client retries": OK,
        "client connection": OK,
    }
    kind, _, version = server.kind.name.partition("-")
    assert found[0].found == f"{kind.capitalize()} {version}"
    assert client.dbsize() == 0


def acl(server: RealServer, *words: str) -> None:
    """Run an ACL command as the administrator."""
    send: Any = server.client().execute_command  # without types in redis-py
    send("ACL", *words)


@pytest.fixture
def user(server: RealServer) -> Iterator[redis.Redis]:
    """A client of a user with all permissions, which is to lose some."""
    acl(server, "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all")
    yield server.client(username="u", password="p")  # noqa: S106 - of this test
    acl(server, "DELUSER", "u")


@pytest.mark.parametrize("command", [*INSIDE, "EVALSHA", "EVAL"])
def test_a_missing_permission_is_named(server: RealServer, user: redis.Redis, command: str) -> None:
    """Without one command exactly that one is a problem, told as such, and nothing stays behind."""
    acl(server, "SETUSER", "u", f"-{command.lower()}")
    found = levels(examine(user))
    assert {check for check, level in found.items() if level is PROBLEM} == {f"permission {command}"}
    assert server.client().dbsize() == 0


@pytest.mark.parametrize("patterns", ["~team1:*", "~{team1:*}:*"])
def test_a_user_for_what_begins_with_the_namespace(server: RealServer, user: redis.Redis, patterns: str) -> None:
    """Keys begin with a brace, but for one: with either pattern alone the advice names both, in errors too."""
    acl(server, "SETUSER", "u", "resetkeys", patterns)
    needed = "~team1:* ~{team1:*}:*"
    advice = [finding.advice for finding in examine(user, "team1") if finding.level is PROBLEM]
    assert advice
    assert all(needed in each for each in advice)
    with Counters(user, namespace="team1") as counters:
        with pytest.raises(NotPermitted, match=r"keys of a namespace NS are those of ~NS:\* ~\{NS:\*\}:\*"):
            counters.incr_once("x", "key")
        acl(server, "SETUSER", "u", *needed.split())
        assert counters.incr_once("x", "key")
    assert [finding for finding in examine(user, "team1") if finding.level is PROBLEM] == []


@pytest.mark.parametrize("command", ["EVALSHA", "EVAL"])
def test_a_script_that_the_server_does_not_know(server: RealServer, user: redis.Redis, command: str) -> None:
    """Without EVAL it cannot be loaded, and what it calls is not tried. Without EVALSHA it runs by EVAL."""
    server.client().script_flush()
    acl(server, "SETUSER", "u", f"-{command.lower()}")
    found = {finding.check: finding for finding in examine(user) if finding.check.startswith("permission")}
    assert found.pop(f"permission {command}").advice.endswith(f" +{command.lower()}")
    untried = {check: finding.found for check, finding in found.items()}
    plain = {"HGETALL", "HMGET"}  # tried outside of scripts too
    names = ", ".join(name for name in INSIDE if name not in plain)
    assert untried == ({"permissions": f"could not be tried: {names}"} if command == "EVAL" else {})


def test_no_right_is_wanted_that_the_library_does_not_use(server: RealServer, user: redis.Redis) -> None:
    """SCRIPT is not tried: a script that the server does not know comes with EVAL."""
    server.client().script_flush()
    acl(server, "SETUSER", "u", "-script")
    assert PROBLEM not in levels(examine(user)).values()


@pytest.mark.parametrize(
    ("rules", "check"),
    [
        (["resetkeys", "~other:*"], "permission EVALSHA"),
        (["resetkeys", "~{rc:*"], "permission EVALSHA on rc:meta"),
    ],
)
def test_keys_are_not_allowed(server: RealServer, user: redis.Redis, rules: list[str], check: str) -> None:
    """For a user without access to the namespace the finding says that it is the keys."""
    acl(server, "SETUSER", "u", *rules)
    (problem,) = [finding for finding in examine(user) if finding.level is PROBLEM]
    assert problem.check == check
    assert "~rc:* ~{rc:*}:*" in problem.advice


def test_nothing_can_be_removed_so_nothing_is_written(server: RealServer, user: redis.Redis) -> None:
    """Without any command that removes a key the writing ones are not tried."""
    acl(server, "SETUSER", "u", "-hdel", "-del", "-unlink")
    found = {finding.check: finding for finding in examine(user)}
    assert found["permission HDEL"].level is PROBLEM
    assert found["permissions"].found == "could not be tried: HSET, HSETNX, HINCRBY"
    assert server.client().dbsize() == 0


def test_info_and_config_are_optional(server: RealServer, user: redis.Redis) -> None:
    """Without INFO and CONFIG it says what it does not know, and that is no problem."""
    acl(server, "SETUSER", "u", "-info", "-config")
    found = levels(examine(user))
    assert found["permission INFO"] is OK
    assert found["permission CONFIG GET"] is OK
    assert found["eviction"] is WARNING
    assert PROBLEM not in found.values()


@pytest.mark.parametrize("options", [{"decode_responses": True}, {"protocol": 3}, {"protocol": 2}, {"retry": None}])
def test_any_client(any_server: RealServer, options: dict[str, object]) -> None:
    """A client with other settings gets the same answers."""
    assert PROBLEM not in levels(examine(any_server.client(**options))).values()


@pytest.mark.slow("three commands")
def test_command_on_an_evicting_server(private_server: RealServer) -> None:
    """The command reports the policy, and fails for one that evicts counters."""
    client = private_server.client()
    assert run(private_server, "doctor").returncode == 0
    client.config_set("maxmemory-policy", "allkeys-lru")
    result = run(private_server, "doctor")
    assert result.returncode == 0
    assert b"eviction\twarning\tallkeys-lru" in result.stdout
    client.config_set("maxmemory", "100mb")
    result = run(private_server, "doctor", "--json")
    assert result.returncode == 1
    checks = {check["check"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["eviction"]["level"] == "problem"
    assert "noeviction" in checks["eviction"]["advice"]


def test_command_with_a_user_who_may_not(server: RealServer, user: redis.Redis) -> None:
    """The command names the permission that is missing, in a table, and fails."""
    acl(server, "SETUSER", "u", "-hset")
    result = run(server, "doctor", "--url", f"redis://u:p@{server.host}:{server.port}/0")
    assert result.returncode == 1
    assert re.search(rb"^permission HSET\tproblem\t.*\tAllow it: ACL SETUSER ... \+hset$", result.stdout, re.MULTILINE)


def test_a_follower(any_server: RealServer, private_server: RealServer) -> None:
    """A follower takes no writes: it is told as what it is."""
    follower = private_server.client()
    follower.replicaof(any_server.host, any_server.port)
    found = levels(examine(follower))
    assert found["replication"] is PROBLEM
    assert [check for check in found if check.startswith("permission")] == []


def test_the_janitor_s_permissions_are_optional(server: RealServer, user: redis.Redis) -> None:
    """Without SCAN and HSCAN counting works, and others clean up; with them nothing is said of it."""
    assert not {"permission SCAN", "permission HSCAN"} & levels(examine(user)).keys()
    acl(server, "SETUSER", "u", "-scan", "-hscan")
    found = levels(examine(user))
    assert (found["permission SCAN"], found["permission HSCAN"], found["permissions"]) == (OK, OK, OK)
    assert PROBLEM not in found.values()


def rows(server: RealServer | None, url: str) -> list[dict[str, str]]:
    result = run(server, "doctor", "--json", "--url", url)
    assert (result.returncode, result.stderr) == (1, b"")
    checks: list[dict[str, str]] = json.loads(result.stdout)["checks"]
    return checks


def obstacles(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """What is a problem; and nothing is said of permissions, for nothing is known of them."""
    assert [row for row in found if "not allowed, and" in row["found"] or row["check"].startswith("permission")] == []
    return [row for row in found if row["level"] == "problem"]


@pytest.mark.slow("four commands")
def test_what_fails_for_another_reason_is_not_forbidden(private_server: RealServer) -> None:
    """A database that is not there, no memory left: one problem, with its cause."""
    (row,) = obstacles(rows(None, f"redis://{private_server.host}:{private_server.port}/99"))
    assert ("DB index is out of range" in row["found"], "database" in row["advice"]) == (True, True)
    private_server.client().config_set("maxmemory", "1")
    (row,) = obstacles(rows(None, private_server.url))
    assert (row["check"], row["found"][:3], "maxmemory" in row["advice"]) == ("commands", "OOM", True)


@pytest.mark.slow("a cluster")
def test_a_server_of_a_cluster(any_cluster: Cluster) -> None:
    """By the URL of one server: what it does not have is not forbidden."""
    other = next(node for node in any_cluster.primaries() if node is not any_cluster.node_of("{rc:0}"))
    (row,) = obstacles(rows(None, other.url))
    assert "redis+cluster://" in row["advice"]


def test_an_obstacle_without_info() -> None:
    """Where INFO has not told the cause, the errors do; what is denied or not there is none."""
    denied = Trial("HGET", "NOPERM User u has no permissions to run the 'hget' command")
    renamed = Trial("CONFIG GET", "unknown command `CONFIG`, with args beginning with: `GET`")
    assert permissions.obstacle([denied, renamed], []) is None
    (spared,) = permissions.dispensable([renamed], permissions.REPORT)
    assert (spared.level, spared.found) == (OK, "not there, and not needed to count")
    readonly = Trial("HSET", "READONLY You can't write against a read only replica.")
    found = permissions.obstacle([denied, readonly, Trial("HDEL", readonly.error)], [findings.replication({}, {})])
    assert found is not None
    assert [(row.check, row.level, row.advice) for row in found] == [("commands", PROBLEM, "Connect to the primary.")]
    assert permissions.obstacle([readonly], [findings.replication({"role": "slave"}, {})]) == []


@pytest.mark.slow("Sentinels")
def test_sentinels(sentinels: Sentinels) -> None:
    """A Sentinel holds no counts, and a Redis is no Sentinel."""
    host, port = sentinels.addresses[0]
    (row,) = rows(None, f"redis://{host}:{port}")
    assert (row["level"], "Sentinel" in row["found"], "redis+sentinel://" in row["advice"]) == ("problem", True, True)
    primary = sentinels.pair.primary
    (row,) = obstacles(rows(None, f"redis+sentinel://{primary.host}:{primary.port}/counted"))
    assert "no Sentinel" in row["found"]


def test_no_server_is_a_finding() -> None:
    """In a table, and in JSON; the exit code is 1."""
    url = f"redis://127.0.0.1:{NOWHERE}"
    (row,) = rows(None, url)
    assert (row["check"], row["level"], row["found"][:23]) == ("server", "problem", "Redis is not reachable:")
    result = run(None, "doctor", "--url", url)
    assert (result.returncode, result.stderr) == (1, b"")
    assert b"server\tproblem\tRedis is not reachable:" in result.stdout
