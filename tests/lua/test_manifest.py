"""Header, manifest and behaviour of every script say the same; and no script breaks a rule of its language."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from redis_counters import Counters
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import CONTRACTS, Script
from tests.lua import names, source
from tests.lua.calls import HIGHEST, Answer, Bucket, key
from tests.lua.headers import Shape, header, parse
from tests.lua.scenarios import SCENARIOS, at_most, denied
from tests.servers import RealServer

every_script = pytest.mark.parametrize("script", Script, ids=lambda script: script.value)

# What may become a Lua number, a double: all of these stay far below 2^53.
TEN_DIGITS = "at most 10 digits of a count"
TIME = {
    "time[1]": "a time in seconds; a thousand times as much is below 2^53 too",
    "time[2]": "microseconds of a second",
}
NOTED = {
    "string.sub(score, 2)": "versions count up from 1",
    "call('HGET', registry, 'p') or '0'": "how many names are noted",
    "score": "a version",
    "its": "the same",
}
MOMENTS = {"at": "a time in seconds", "seconds": "the same"}
STAMPED = {
    **NOTED,
    **MOMENTS,
    "settled[2] or '0'": "numbers of actors and dots count up from 1",
    "stamp": "versions count up from 1",
    "settled[4] or '0'": "how many names are noted",
    "call('HGET', registry, 'p')": "the same",
}
NUMBERS: dict[Script, dict[str, str]] = {
    Script.NAMESPACE_OPEN: {},
    Script.ACTOR_OPEN: {
        "text": "inside `whole`",
        "ARGV[5]": "a duration in seconds",
        "now": "a time in seconds",
        "seen": "the same",
        "issued": "numbers of actors and dots count up from 1",
        "number": "the same, out of an actor's id",
        "cleaned": "the same",
        "seq": "a number of a flush counts up from 1",
    },
    Script.ACTOR_CLOSE: {
        "text": "inside `whole`",
        "ARGV[2]": "base, a number of a flush",
        "recorded": "a number of a flush",
    },
    Script.SLOTS_MERGE: {
        "text": "inside `whole`",
        "ARGV[2]": "seq, a number of a flush",
        "ARGV[3]": "base, a number of a flush",
        "ARGV[4 + kind] or ''": "how many items there are of a kind",
        "ARGV[v]": "the position of an item",
        "ARGV[v + 1]": "a time in milliseconds",
        "at": "the same",
        "now": "a time in seconds",
        "time[2]": "microseconds of it",
        "recorded": "a number of a flush",
        **STAMPED,
    },
    Script.SLOTS_FOLD: {
        "text": "inside `whole`",
        "ARGV[2]": "delay, seconds",
        "now": "a time in seconds",
        "seen": "the same",
    },
    Script.SLOTS_READ: {},
    Script.ACTORS_REAP: {
        "text": "inside `whole`",
        "ARGV[1]": "ttl, seconds",
        "now": "a time in seconds",
        "seen": "the same",
    },
    Script.ACTORS_CLEAN: {
        "text": "inside `whole`",
        "ARGV[1]": "walked, a time in seconds",
        "ARGV[2]": "retention, seconds",
        "now": "a time in seconds",
        "seen": "the same",
        "settled[2] or '0'": "numbers of actors count up from 1",
        "settled[3] or '0'": "a time in seconds",
        "number": "numbers of actors count up from 1",
    },
    Script.JANITOR_LEASE: {
        "text": "inside `whole`",
        "ARGV[1]": "period, seconds",
        "now": "a time in seconds",
        "settled[2] or '0'": "the same",
    },
    Script.KEYED_OPEN: STAMPED,
    Script.ONCE_APPLY: {
        "text": "inside `whole`",
        "ARGV[2]": "length, milliseconds",
        "ARGV[3]": "number of a slice: a time divided by that",
        "ARGV[4]": "ttl, milliseconds",
        "time[1]": "a time in seconds; a thousand times as much is below 2^53 too",
        "time[2]": "microseconds of a second",
        "after": "milliseconds of a slice",
        **STAMPED,
    },
    Script.LIKES_APPLY: STAMPED,
    Script.SLOTS_SEED: STAMPED,
    Script.BOUNDED_APPLY: {
        "text": "inside `whole`",
        "ARGV[2]": "length, milliseconds",
        "ARGV[3]": "number of a slice: a time divided by that",
        "ARGV[4]": "ttl, milliseconds",
        "ARGV[5]": "brief_length, milliseconds",
        "ARGV[6]": "brief_number: a time divided by that",
        "ARGV[7]": "brief_ttl, milliseconds",
        "after": "milliseconds of a slice",
        **TIME,
        **{text: why for text, why in STAMPED.items() if text in ("settled[2] or '0'", "settled[4] or '0'", "stamp")},
    },
    Script.SHARDS_WIDEN: STAMPED,
    Script.NARROW_OPEN: {"settled[2]": "numbers of actors and dots count up from 1"},
    Script.SHARD_SEAL: {},
    Script.SHARD_UNSEAL: {},
    Script.NARROW_APPLY: {},
    Script.SHARD_RESET: {
        "digits": "ten digits of a count, of which 900,000 are added up",
        "settled[2] or '0'": "numbers of actors and dots count up from 1",
        **NOTED,
        **MOMENTS,
    },
    Script.SHARD_FLOOR: {"version": "versions count up from 1", **NOTED, **MOMENTS},
    Script.SHARD_RENEW: {
        "digits": TEN_DIGITS,
        "call('HGET', registry, 'n') or '0'": "numbers of actors and dots count up from 1",
        **NOTED,
        **MOMENTS,
    },
    Script.CHANGES_LIST: {
        "text": "inside `whole`",
        "ARGV[3] or ''": "how many members are asked for",
        "settled[2]": "versions count up from 1",
        "reached": "a version",
        "wanted": "the same",
        "until_then": "the same",
        "found[i + 1]": "the same, as a score",
        "found[2]": "the same",
        "found[#found]": "the same",
        "found[2 * most + 2]": "the same",
        **NOTED,
    },
    Script.NOTES_ENTER: {
        "text": "inside `whole`",
        "ARGV[1] or ''": "how many names are to be entered",
        **NOTED,
    },
    Script.DOTS_SETTLE: MOMENTS,
    Script.ENTRIES_READ: {"digits": TEN_DIGITS, "count": TEN_DIGITS, **TIME},
    Script.ENTRIES_MERGE: {
        "digits": TEN_DIGITS,
        "expiry": "a time in milliseconds",
        **STAMPED,
        **TIME,
    },
    Script.ENTRIES_DIGEST: {
        "digits": TEN_DIGITS,
        "count": TEN_DIGITS,
        "sub(redis.sha1hex(text), 1, 11)": "44 bits of a hash",
    },
    Script.ENTRIES_DROP: {
        "text": "inside `whole`",
        "ARGV[1] or ''": "how many keys are indexes",
        "ARGV[2] or ''": "how many names follow",
        "ARGV[3 + peers] or ''": "the same",
        "settled[2]": "versions count up from 1",
        "version": "the same",
        "stamps[i] or ''": "the same, as a score",
        **NOTED,
    },
    Script.REGION_JOIN: {
        "settled[2] or ''": "versions count up from 1",
        "last or '0'": "the same",
        **NOTED,
    },
    Script.MEMBERS_SET: {},
    Script.MARKS_SET: {},
    Script.EXCHANGE_BEAT: {
        "text": "inside `whole`",
        "ARGV[3] or ''": "clock, a time in milliseconds",
        "ARGV[4] or ''": "every, milliseconds",
        "string.match(beats[i], '^%d+') or ''": "a time in milliseconds",
        **TIME,
    },
    Script.ENTRIES_FORGET: {},
}


# --- header and manifest -------------------------------------------------------------------------------------------


def test_a_script_is_a_file() -> None:
    """Every member has its file, every file its member and its contract."""
    files = {path.stem for path in scripts.folder().glob("*.lua")}
    assert files == {script.value for script in Script} == {script.value for script in CONTRACTS}
    assert {path.name for path in scripts.folder().iterdir()} == {f"{file}.lua" for file in files} | {"parts"}


@every_script
def test_the_header_is_the_contract(script: Script) -> None:
    """Keys and arguments by name and in order, what may follow them, and the words of the reply."""
    head, contract = header(script), CONTRACTS[script]
    assert head.purpose.startswith(f"{script.value}: ")
    assert (head.keys.leading, head.keys.more) == (contract.keys, contract.more_keys)
    assert (head.args.leading, head.args.more) == (contract.args, contract.more_args)
    assert tuple(head.replies) == contract.replies


@every_script
def test_the_header_tells_the_errors(script: Script) -> None:
    """Those the script makes itself start with BADARG and its name."""
    made = re.findall(r"error_reply\('(\w+) (\w+): ", source.code(text(script)))
    assert len(made) == text(script).count("error_reply")
    assert {name for _, name in made} <= {script.value}
    assert {word for word, _ in made} == set(header(script).errors) - {"WRONGTYPE"}


def test_the_form_of_headers_is_checked() -> None:
    """The parser of these tests refuses what it would misread."""
    good = text(Script.ACTOR_CLOSE)
    assert parse(good).replies["OK"] == Shape(1)
    assert header(Script.SLOTS_MERGE).replies["OK"] == Shape(1, 2)
    assert header(Script.SLOTS_MERGE).replies["MISSING"] == Shape(1, 1)
    for spoilt in (
        good[1:],
        good.replace("COST ", "TIME "),
        good.replace("       2 base", "       3 base"),
        good.replace("KEYS   1 registry", "KEYS   registry"),
    ):
        assert spoilt != good
        with pytest.raises(ValueError, match=r"expected|begin|sections"):
            parse(spoilt)


# --- header, manifest and behaviour --------------------------------------------------------------------------------


def test_every_word_has_a_scenario() -> None:
    assert set(SCENARIOS) == {(script, word) for script in Script for word in CONTRACTS[script].replies}


@pytest.mark.parametrize(("script", "word"), SCENARIOS, ids=lambda value: getattr(value, "value", value))
def test_every_word_is_answered(bucket: Bucket, script: Script, word: str) -> None:
    """By the script that the manifest says; that none answers another word, `Bucket.call` sees in all tests here."""
    assert SCENARIOS[script, word](bucket)[0] == word
    assert bucket.called is script


@every_script
def test_only_scripts_that_write_need_to(bucket: Bucket, script: Script) -> None:
    """A user without any writing command gets through exactly the others, and changes nothing."""
    call = at_most(bucket, script, 3)
    before = bucket.everything()
    with denied(bucket, "@write") as reader:
        if CONTRACTS[script].writes:
            with pytest.raises(Exception, match=r"NOPERM|ACL|can't"):
                call(reader)
        else:
            call(reader)
    assert bucket.everything() == before
    call(bucket)
    assert (bucket.everything() != before) == CONTRACTS[script].writes


@every_script
def test_the_cost_is_what_the_header_says(bucket: Bucket, script: Script) -> None:
    """In commands, where there is most to do; counted by the server."""
    said = re.match(r"O\((\w+)\); (?:up to )?(\d+) commands?( each| per shard)?\b", header(script).cost)
    assert said
    many = 101
    few, more = (commands(bucket, script, items) for items in (1, many))
    if said[1] == "1":
        assert few == more == int(said[2])
    else:
        assert said[3]
        assert (more - few) / (many - 1) == int(said[2])


def commands(bucket: Bucket, script: Script, items: int) -> int:
    """Return how many commands the script gives to Redis."""
    bucket.client.flushall()
    return counted(bucket, at_most(bucket, script, items))


def counted(bucket: Bucket, call: Callable[[Bucket], Answer]) -> int:
    """Return how many commands the server executes for the call, beside the call itself."""
    bucket.client.config_resetstat()
    call(bucket)
    stats = bucket.client.info("commandstats")
    names = {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}
    return sum(calls for name, calls in names.items() if not name.startswith(("eval", "config", "info", "client")))


@pytest.mark.parametrize("there", [False, True])
def test_a_group_of_keys_of_one_sort_costs_one_command_each(bucket: Bucket, there: bool) -> None:
    """All new, or all there without a slot of this actor: beside one EXISTS for the group, and the registry's."""
    items = [(key(i), 1) for i in range(250)]
    if there:
        bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=items)
    actor = bucket.actor()
    assert counted(bucket, lambda given: given.merge(actor, 1, fresh_plus=items)) <= 250 + 1 + 5


# --- the scripts as texts ------------------------------------------------------------------------------------------


@every_script
def test_texts_are_in_form(script: Script) -> None:
    """ASCII, lines of at most 120, a newline at the end, no tabs, no blanks at the end of a line."""
    content = scripts.text(script).decode("ascii")
    assert content.endswith("\n")
    assert not content.endswith("\n\n")
    assert "\t" not in content
    assert "\r" not in content
    assert [line for line in content.split("\n") if len(line) > 120 or line != line.rstrip()] == []


@every_script
def test_every_key_comes_from_keys(script: Script) -> None:
    """None is put together in Lua, so a cluster knows them all."""
    assert source.keys_not_from_keys(text(script)) == []
    assert list(source.calls(text(script), r"(?:redis\.)?p?call")) != []


@pytest.mark.parametrize(
    "line",
    [
        "redis.call('GET', 'x')",
        "call('HGET', KEYS[1] .. 'x', 'f')",
        "pcall('DEL', ARGV[1])",
        "local key = ARGV[1]",
        "local registry, actor = 'a' .. KEYS[1], ARGV[1]",
        "key = prefix .. name",
        "local function f(i, key) end\nf(1, name)",
        "local function f(registry) end\nf(name)",
        "local index = changes.name",
    ],
)
def test_a_key_that_is_made_up_is_seen(line: str) -> None:
    assert len(source.keys_not_from_keys(line)) == 1


@every_script
def test_what_a_script_calls_is_known(script: Script) -> None:
    """Where a server denies a command and does not say which, it is found among these."""
    called = {arguments[0].strip("'") for arguments in source.calls(text(script), r"(?:redis\.)?p?call")}
    assert called == set(scripts.calls(script))


@every_script
def test_no_count_becomes_a_number(script: Script) -> None:
    """Doubles are exact up to 2^53: only what is listed with its reason may become one."""
    converted = {arguments[0] for arguments in source.calls(text(script), "tonumber|whole")}
    assert converted == set(NUMBERS[script])


@every_script
def test_no_name_is_global(script: Script) -> None:
    assert names.imported(text(script)) == set()


@pytest.mark.parametrize(
    "line", ["total = 1", "local a = 1\nb = a", "for i = 1, 2 do c = i end", "function f() end", "local a = prnt(1)"]
)
def test_a_global_is_seen(line: str) -> None:
    assert len(names.imported(line)) == 1


def test_texts_never_contain_values(server: RealServer) -> None:
    """However many names and amounts a client counts, Redis has one text a script in its cache, each a file's."""
    client = server.client()
    client.script_flush()
    cached = []
    for run in range(3):
        with Counters(client, namespace=f"ns{run}", region=f"region-{run}", actor=f"actor {run}") as counters:
            for i in range(20):
                counters.incr(f"name {run} {i}", 10**run + i)
                counters.decr(f"name {run} {i}", HIGHEST - run)
            counters.flush()
            counters.get_many([f"name {run} {i}" for i in range(20)], max_age=0)
        cached.append(int(client.info("memory")["number_of_cached_scripts"]))
    known = client.script_exists(*(scripts.digest(script).decode() for script in Script))
    assert cached == [sum(known)] * 3
    assert sum(known) >= 5


def text(script: Script) -> str:
    return scripts.text(script).decode()
