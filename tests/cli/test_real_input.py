"""Real input from four processes at once, checked by an independent tool: ``sort | uniq -c``."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, TIMEOUT, environment, start, values
from tests.servers import RealServer

TEXT = Path("/usr/share/common-licenses/GPL-3")
DOCUMENTATION = Path("/usr/share/doc")
EXAMPLE = Path(__file__).parents[2] / "examples" / "count_words.sh"

needs_text = pytest.mark.skipif(not TEXT.exists(), reason=f"no {TEXT}: not a Debian")
needs_documentation = pytest.mark.skipif(not DOCUMENTATION.is_dir(), reason=f"no {DOCUMENTATION}: not a Debian")


def shell(script: str, stdin: bytes = b"") -> bytes:
    """Run a pipeline of the system's own tools."""
    return subprocess.run(
        ["sh", "-c", script], input=stdin, capture_output=True, check=True, timeout=TIMEOUT, env={"LC_ALL": "C"}
    ).stdout


def uniq(lines: bytes) -> Counter[bytes]:
    """What ``sort | uniq -c`` says of the lines."""
    counted = shell("PATH=/usr/bin:/bin; sort | uniq -c", lines).splitlines()
    matches = [re.fullmatch(rb" *(\d+) (.*)", line) for line in counted]
    return Counter({match[2]: int(match[1]) for match in matches if match})


def words() -> bytes:
    return shell(f"PATH=/usr/bin:/bin; tr -cs 'A-Za-z' '\\n' <{TEXT}")


def extensions() -> bytes:
    return shell(f"PATH=/usr/bin:/bin; find {DOCUMENTATION} -type f | sed -n 's/.*\\.//p'")


@pytest.mark.parametrize(
    "source",
    [pytest.param(words, marks=needs_text), pytest.param(extensions, marks=needs_documentation)],
    ids=["words of a licence", "extensions of the documentation"],
)
@pytest.mark.slow("four processes, thousands of lines")
def test_four_processes_count_what_uniq_counts(any_server: RealServer, source: Callable[[], bytes]) -> None:
    """Each of four processes gets every fourth line; every count is that of ``sort | uniq -c``."""
    text = source()
    lines = text.splitlines(keepends=True)
    processes = [start(any_server, "count") for _ in range(4)]
    for number, process in enumerate(processes):
        assert process.stdin is not None
        process.stdin.writelines(lines[number::4])
        process.stdin.close()
    for process in processes:
        assert process.wait(TIMEOUT) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        if process.stdout is not None:
            process.stdout.close()
    wanted = uniq(text)
    assert len(wanted) > 10
    assert wanted.total() == len(lines)
    assert values(any_server, list(wanted)) == wanted


@needs_text
@needs_documentation
@pytest.mark.slow("the example runs twice")
def test_example(any_server: RealServer) -> None:
    """The example says that all are equal, for both inputs."""
    variables = environment(any_server, REDIS_COUNTERS=shlex.join(COMMAND))
    result = subprocess.run(["sh", EXAMPLE], capture_output=True, text=True, timeout=2 * TIMEOUT, env=variables)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(re.findall(r"all equal to sort \| uniq -c", result.stdout)) == 2
    assert re.search(r"^word:the\t[1-9]\d+$", result.stdout, re.MULTILINE)
