"""The frame of the command line: usage errors, exit codes, the missing extra, the reader that goes away."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import typer

import redis_counters
from redis_counters import Counters
from redis_counters.cli import options, output
from redis_counters.cli.app import app
from tests.cli.commands import COMMAND, TIMEOUT, environment, run, values
from tests.servers import NOWHERE, RealServer

ALL_COMMANDS = [each.callback.__name__ for each in app.registered_commands if each.callback]
COMMANDS = ["count", "get", "incr", "inspect", "doctor", "demo", "bench"]


def test_version() -> None:
    """--version prints the package's version."""
    result = run(None, "--version")
    assert (result.returncode, result.stdout) == (0, f"redis-counters {redis_counters.__version__}\n".encode())


def test_it_is_a_module() -> None:
    """``python -m redis_counters`` is the command too."""
    command = [sys.executable, "-m", "redis_counters", "--version"]
    result = subprocess.run(command, capture_output=True, timeout=TIMEOUT, env=environment(None))
    assert (result.returncode, result.stdout) == (0, f"redis-counters {redis_counters.__version__}\n".encode())


@pytest.mark.every(5, "a command each")
@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_help_names_what_a_number_is(command: str) -> None:
    """Seconds or a port: no option is shown as a range of a type of typer's."""
    assert b" range>" not in run(None, command, "--help").stdout.lower()


@pytest.mark.every(4, "a command each")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    """The list of commands names each, and each has a help text with a URL to set where it takes one."""
    assert f" {command} ".encode() in run(None, "--help").stdout
    result = run(None, command, "--help")
    assert result.returncode == 0
    assert b"Usage: redis-counters " + command.encode() in result.stdout


@pytest.mark.parametrize("asked", [[], *([name] for name in ALL_COMMANDS)], ids=" ".join)
def test_flags_take_no_value(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """No help, of all commands or of one, shows a flag as if it took a value, -h neither."""
    app(args=[*asked, "-h"], standalone_mode=False)
    told = capsys.readouterr().out
    assert "--help" in told
    assert "<bool>" not in told
    assert "BOOL" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["get"],
        ["get", "--nonsense"],
        ["incr", "a", "1.5"],
        ["incr", "a", "b"],
        ["incr", "a", "99999999999999999999"],
        ["incr", "a", "-9223372036854775808"],
        ["count", "--timeout", "-1"],
        ["demo", "--port", "5"],
        ["demo", "--host", "localhost"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    """What is wrong stands on one line of standard error."""
    result = run(None, *arguments)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith(b"redis-counters: ")
    assert result.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["get"], "Missing argument 'NAME'; redis-counters get --help tells more"),
        (["nonsense"], "No such command 'nonsense'; redis-counters --help tells more"),
        (["count", "--nonsense"], "No such option: --nonsense; redis-counters count --help tells more"),
    ],
)
def test_wrong_usage_names_the_help(arguments: list[str], line: str) -> None:
    """What the parser does not understand is told with the command that explains it."""
    assert run(None, *arguments).stderr.decode() == f"redis-counters: {line}\n"


@pytest.mark.every(5, "a command each")
@pytest.mark.parametrize("asked", [["get", "a"], ["incr", "a"], ["count"], ["doctor"]], ids=" ".join)
@pytest.mark.parametrize("said", ["nothing", "--url", "variable"])
def test_nobody_has_said_where_redis_is(said: str, asked: list[str]) -> None:
    """Where nothing answers at the default address, and only there, it is told how to name another."""
    away = f"redis://localhost:{NOWHERE}"
    code = f"import redis_counters.drivers.urls as urls; urls.DEFAULT_URL = '{away}'; import redis_counters.__main__"
    more = {"REDIS_COUNTERS_URL": away} if said == "variable" else {}
    command = [sys.executable, "-c", code, *asked, *(["--url", away] if said == "--url" else [])]
    result = subprocess.run(command, capture_output=True, input=b"a", timeout=TIMEOUT, env=environment(None, **more))
    assert result.returncode == 1
    told = result.stdout.partition(b"\nserver\tproblem\t")[2] if asked == ["doctor"] else result.stderr[16:]
    assert told.startswith(b"Redis is not reachable: ")
    assert told.count(b"\n") == 1
    assert (options.WHERE.encode() in told) == (said == "nothing")
    assert (b"; nothing was counted" in told) == (asked[0] in ("incr", "count"))


def test_no_command_prints_the_help() -> None:
    """Without a command the help is printed, and it is wrong usage."""
    result = run(None)
    assert (result.returncode, result.stderr) == (2, b"")
    assert b"doctor" in result.stdout


@pytest.mark.every(3, "a command each")
@pytest.mark.parametrize(
    "command",
    [["get", "a"], ["incr", "a"], ["inspect", "a"], ["count"], ["fold"], ["bench"]],
)
def test_server_away(command: list[str]) -> None:
    """A server that is away: exit code 1, one line, and no password in it."""
    result = run(None, *command, "--url", f"redis://user:sesame@127.0.0.1:{NOWHERE}/0")
    assert (result.returncode, result.stdout) == (1, b"")
    assert b"Redis is not reachable: " in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert b"sesame" not in result.stderr


@pytest.mark.every(4, "a command each")
@pytest.mark.parametrize(
    "command",
    ["get a", "incr a", "count", "inspect a", "actors", "fold", "doctor", "bench"],
    ids=str,
)
@pytest.mark.parametrize("there", [False, True], ids=["nothing", "a plain server"])
def test_no_cluster(any_server: RealServer, there: bool, command: str) -> None:
    """Where a cluster should be nothing answers, or a server of none: exit code 1, and one line."""
    address = f"user:sesame@127.0.0.1:{NOWHERE}" if not there else f"127.0.0.1:{any_server.port}"
    result = run(None, *command.split(), "--url", f"redis+cluster://{address}", stdin=b"a\n")
    told = result.stdout.partition(b"\n")[2] if command == "doctor" else result.stderr
    assert (result.returncode, told.count(b"\n")) == (1, 1)
    assert b"the cluster is not reachable: " in told
    assert (b"use redis:// for it" in told) == there
    assert b"sesame" not in told


@pytest.mark.parametrize("url", ["nonsense", "http://user:sesame@localhost", "redis://user:sesame@localhost:port"])
def test_bad_url(url: str) -> None:
    """A URL that is none: wrong usage, one line that says whose it is, and no password in it."""
    for arguments, variables in ((["--url", url], {}), ([], {"REDIS_COUNTERS_URL": url})):
        where = environment(None, **variables)
        result = subprocess.run([*COMMAND, "get", "a", *arguments], capture_output=True, timeout=TIMEOUT, env=where)
        assert (result.returncode, result.stdout) == (2, b"")
        assert result.stderr.startswith(f"redis-counters: {'REDIS_COUNTERS_URL' if variables else '--url'}: ".encode())
        assert result.stderr.count(b"\n") == 1
        assert b"sesame" not in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["get", "--help"]])
def test_help_does_not_show_a_password(arguments: list[str]) -> None:
    """Help shows no defaults that came from the environment or the command line."""
    secret = environment(None, REDIS_COUNTERS_URL="redis://:sesame@localhost")
    result = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=TIMEOUT, env=secret)
    before = run(None, "--url", "redis://:sesame@localhost", *arguments)
    assert (result.returncode, before.returncode) == (0, 0)
    assert b"sesame" not in result.stdout + before.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_missing_extra(missing: str) -> None:
    """Without the extra the command says what to install."""
    code = f"import sys; sys.modules['{missing}'] = None; from redis_counters.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=TIMEOUT, env=environment(None))
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"with the extra `cli`" in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_options_before_the_command(any_server: RealServer) -> None:
    """The options of every command may stand before it too; behind it they win."""
    run(any_server, "incr", "a", "5")
    away = f"redis://127.0.0.1:{NOWHERE}"
    assert run(None, "--url", any_server.url, "--json", "get", "a").stdout == b'{"a": 5}\n'
    assert run(None, "--url", away, "get", "a", "--url", any_server.url).stdout == b"a\t5\n"
    assert run(any_server, "--namespace", "other", "get", "a").stdout == b"a\t0\n"
    assert run(any_server, "--url", away, "get", "a").returncode == 1


REGIONAL: list[list[str]] = [
    ["count"],
    ["get", "a"],
    ["incr", "a"],
    ["reset", "b"],
    ["delete", "b"],
    ["inspect", "a"],
    ["actors"],
    ["fold"],
    ["reshard", "a", "2"],
    ["doctor"],
    ["bench", "--seconds", "0.05"],
]


def test_every_command_that_has_a_namespace_has_a_region() -> None:
    """So the next test has all of them; but for those that are told all regions, with their URLs."""
    group: Any = typer.main.get_command(app)
    options = {name: {o for p in command.params for o in p.opts} for name, command in group.commands.items()}
    of_all = {"exchange", "regions", "verify"}
    assert {name for name, has in options.items() if "--namespace" in has} - of_all == {name for name, *_ in REGIONAL}


@pytest.mark.every(6, "a command each")
@pytest.mark.parametrize("command", REGIONAL, ids=lambda command: command[0])
def test_region(any_server: RealServer, command: list[str]) -> None:
    """Of a namespace in some region: with that, or none, a command works; with another it says which one it has."""
    with Counters.from_url(any_server.url, region="east") as counters:
        counters.incr("a", 5)
        counters.flush()
    here = run(any_server, "--region", "east", *command, stdin=b"a\n")
    assert here.returncode == 0, here.stderr
    assert run(any_server, *command, "--region", "east", stdin=b"a\n").returncode == 0
    assert run(any_server, *command, stdin=b"a\n").returncode == 0
    there = run(any_server, *command, "--region", "west", stdin=b"a\n")
    if command[0] == "bench":  # counts in a namespace of its own
        assert there.returncode == 0
    else:
        assert there.returncode == 1
        assert b"belongs to region 'east'" in there.stdout + there.stderr
    counted = {"count": 3, "incr": 3}.get(command[0], 0)
    assert run(any_server, "get", "a", "--region", "east").stdout == b"a\t%d\n" % (5 + counted)


def test_reader_goes_away(any_server: RealServer) -> None:
    """Nobody reads the output to its end: no traceback, no complaint."""
    names = [f"{number:0100d}" for number in range(10_000)]
    command = [*COMMAND, "get", *names]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(any_server)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10) == names[0].encode()[:10]
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(TIMEOUT)


PRINTING = [
    ["get", "a"],
    ["get", "a", "--json"],
    ["incr", "a"],
    ["inspect", "a"],
    ["actors"],
    ["doctor"],
    ["--version"],
]


@pytest.mark.every(4, "a command each")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [*PRINTING, ["count", "--json"]], ids=" ".join)
def test_nothing_can_be_written(any_server: RealServer, arguments: list[str]) -> None:
    """What is printed cannot be written, as on a full disk: one line that says so, exit code 1, and no traceback."""
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*COMMAND, *arguments],
            input=b"",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            env=environment(any_server),
        )
    assert result.stderr == b"redis-counters: cannot write to standard output: No space left on device\n"
    assert result.returncode == 1


@pytest.mark.every(4, "a command each")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_standard_output_is_closed(any_server: RealServer, arguments: list[str]) -> None:
    """Without a standard output, what would be printed there is missed: one line that says so, and exit code 1."""
    result = _without(any_server, ">&-", *arguments)
    assert result.stderr == b"redis-counters: cannot write to standard output: Bad file descriptor\n"
    assert (result.returncode, result.stdout) == (1, b"")


def test_standard_output_is_closed_and_not_needed(any_server: RealServer) -> None:
    """A command that prints nothing does its work without a standard output."""
    result = _without(any_server, ">&-", "count", stdin=b"a\nb\na\n")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert values(any_server, [b"a", b"b"]) == {b"a": 2, b"b": 1}


@pytest.mark.parametrize("arguments", [["get"], ["get", "a"], ["count"], ["fold"], ["doctor"]], ids=" ".join)
@pytest.mark.slow("a command each")
def test_standard_error_is_closed(any_server: RealServer, arguments: list[str]) -> None:
    """Without a standard error the messages of a command are lost, and appear nowhere else."""
    result = _without(any_server, "2>&-", *arguments)
    assert (result.returncode, result.stdout) == (2 if arguments == ["get"] else 0, run(any_server, *arguments).stdout)


def _without(
    server: RealServer, closed: str, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a shell that closes one of its standard streams."""
    script = ["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, *arguments]
    return subprocess.run(script, input=stdin, capture_output=True, timeout=TIMEOUT, env=environment(server))


def test_a_complaint_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads may complain at once, and each line is one of them."""
    written: list[str] = []

    class Recorder:
        def write(self, text: str) -> None:
            written.append(text)

        def flush(self) -> None:
            written.append("flushed")

    monkeypatch.setattr(sys, "stderr", Recorder())
    output.complain("no")
    assert written == ["redis-counters: no\n", "flushed"]
