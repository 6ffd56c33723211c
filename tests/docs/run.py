"""Runs the code blocks of one page, in order, in one process: ``python -m tests.docs.run PAGE``.

``REDIS_COUNTERS_URL`` names the server that stands for the one of the text, ``redis://localhost:6379``, and
``REDIS_COUNTERS_INSTEAD``, as JSON, what stands for other addresses. Blocks of one page share the names of Python and a
folder, which is the current one.

=========  ============================================================================================================
language   what is done with it
=========  ============================================================================================================
python     run; printed text must be the ``text`` block behind it; ``expression  # -> repr`` must hold. A block whose
           first line is ``# name.py`` is saved under this name, and a later block must run it.
shell      run by bash; ``make`` and ``pip install`` are looked up, not run; what starts a web server has to answer at
           ``/``, on a free port instead of its own, and is ended
console    lines after ``$`` are run by bash one by one, each must print the lines below it; what a line of its own
           exports is there in those that follow
redis      a command to the server a line
mermaid    a picture: not run; `test_diagrams` looks up what it names
=========  ============================================================================================================

An expected text may have ``...`` where anything may stand. Any other language is an error: nothing goes unchecked.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.metadata
import io
import json
import os
import re
import shlex
import string
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis

from tests.docs.pages import ROOT, Block, PageError, blocks
from tests.servers import HOST, free_port

WRITTEN = "localhost:6379"
_ARROW = re.compile(r"#\s*->\s*(.*?)\s*$")
_FILE = re.compile(r"# (\w+\.py)\n")
_TIMEOUT = 60
_SERVERS = {  # how each is told another port
    r"uvicorn ": "--port={port}",
    r"gunicorn ": "--bind={host}:{port}",
    r"flask .*\brun\b": "--port={port}",
    r"python \w+\.py runserver": "--noreload {port}",
}


class Runner:
    """Runs blocks against the server at ``url``, in ``folder``."""

    def __init__(self, url: str, folder: Path, others: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.instead = {WRITTEN: urlsplit(url).netloc or WRITTEN, **(others or {})}  # embedded:// has none
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.files: set[str] = set()  # saved, and not run yet
        commands = folder / "bin"
        commands.mkdir()
        for name, arguments in (("redis-counters", "-m redis_counters.cli"), ("python", "")):
            (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            (commands / name).chmod(0o755)
        (folder / "examples").symlink_to(ROOT / "examples")
        self.environment = {
            **os.environ,
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "REDIS_COUNTERS_URL": url,
        }
        if not importlib.metadata.entry_points(group="pytest11", name="redis-counters"):  # not installed, but on a path
            self.environment["PYTEST_PLUGINS"] = "_redis_counters_pytest"

    def run(self, block: Block) -> None:
        """Run a block. Raises: PageError where it does not do what the page says."""
        todo = {
            "python": self._python,
            "shell": self._shell,
            "console": self._console,
            "redis": self._redis,
            "mermaid": _no_run,
        }.get(block.language)
        if todo is None:
            raise PageError(f"line {block.line}: nobody checks the language {block.language!r}")
        todo(block)

    def run_page(self, text: str) -> int:
        """Run all blocks of a page and return how many. Raises: PageError, also for a file saved and never run."""
        found = blocks(text)
        for block in found:
            self.run(block)
        if self.files:
            raise PageError(f"saved, but never run: {', '.join(sorted(self.files))}")
        return len(found)

    def _here(self, text: str) -> str:
        for written, here in self.instead.items():
            text = text.replace(written, here)
        return text

    def _compare(self, line: int, expected: str | None, printed: str) -> None:
        for written, here in self.instead.items():
            printed = printed.replace(here, written)
        if expected is not None and not expected.replace("...", "").strip():
            raise PageError(f"line {line}: an output of nothing but '...' says nothing")
        if expected is None:
            if printed:
                raise PageError(f"line {line}: prints this, and the page does not show it:\n{printed}")
        elif not doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS):
            raise PageError(f"line {line}: expected:\n{expected}printed:\n{printed}")

    def _python(self, block: Block) -> None:
        text = self._here(block.text)
        if named := _FILE.match(text):
            (self.folder / named[1]).write_text(text)
            self.files.add(named[1])
            return
        lines = text.splitlines()
        arrows = sum(_ARROW.search(line) is not None for line in lines)
        tree = ast.parse("\n" * (block.line - 1) + text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for statement in tree.body:
                assert statement.end_lineno is not None
                arrow = _ARROW.search(lines[statement.end_lineno - block.line])
                if arrow is None or not isinstance(statement, ast.Expr):
                    exec(compile(ast.Module([statement], []), "page", "exec"), self.names)  # noqa: S102 - our own pages
                    continue
                arrows -= 1
                result = repr(eval(compile(ast.Expression(statement.value), "page", "eval"), self.names))  # noqa: S307
                self._compare(statement.end_lineno, arrow[1] + "\n", result + "\n")
        if arrows:
            raise PageError(f"line {block.line}: '# ->' stands behind something that is not an expression by itself")
        self._compare(block.line, block.output, printed.getvalue())

    def _shell(self, block: Block) -> None:
        script: list[str] = []
        for line in self._here(block.text).splitlines():
            if line.startswith(("make ", "pip ")):
                _look_up(block.line, line)
            elif port := next((port for server, port in _SERVERS.items() if re.match(server, line)), None):
                self._serve(block.line, line, port)
            else:
                script.append(line)
        if any(line.strip() for line in script):
            self._compare(block.line, block.output, self._bash(block.line, "\n".join(script)))
        elif block.output is not None:
            raise PageError(f"line {block.line}: nothing in this block is run, so its output cannot be checked")

    def _serve(self, line: int, command: str, port: str) -> None:
        """Start a web server, which has to answer, and end it."""
        free = free_port()
        program, *arguments = shlex.split(f"{command} {port.format(host=HOST, port=free)}")
        start = [sys.executable, *(["-m", program] if program != "python" else []), *arguments]
        with (
            (self.folder / "server.log").open("w+") as log,
            subprocess.Popen(start, cwd=self.folder, env=self.environment, stdout=log, stderr=log) as server,
        ):
            try:
                self._answers(line, server, f"http://{HOST}:{free}/")
            except PageError as error:
                raise PageError(f"{error}\n{command}\n{(self.folder / 'server.log').read_text()}") from None
            finally:
                server.terminate()
        self._has_run(command)

    @staticmethod
    def _answers(line: int, server: subprocess.Popen[bytes], url: str) -> None:
        end = time.monotonic() + _TIMEOUT
        while True:
            try:
                with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
                    assert answer.status == 200
                    return
            except urllib.error.HTTPError as error:
                error.close()
                raise PageError(f"line {line}: the server answers {error}") from None
            except OSError:
                if server.poll() is not None or time.monotonic() > end:
                    raise PageError(f"line {line}: the server does not answer, but ends: {server.poll()}") from None
            time.sleep(0.05)

    def _has_run(self, script: str) -> None:
        runs = r"(?:\bimport |\bpython (?:-m pytest (?:-\w+ )*)?|\bgunicorn |\buvicorn |\bflask --app )(\w+)"
        self.files -= {f"{name}.py" for name in re.findall(runs, script)}

    def _console(self, block: Block) -> None:
        parts = re.split(r"^\$ (.*\n)", self._here(block.text), flags=re.MULTILINE)
        if parts[0].strip() or len(parts) < 3:
            raise PageError(f"line {block.line}: a console block begins with '$ command'")
        for command, expected in zip(parts[1::2], parts[2::2], strict=True):
            self._compare(block.line, expected or None, self._bash(block.line, command))

    def _bash(self, line: int, script: str) -> str:
        self._has_run(script)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
        for name, value in re.findall(r"^export (\w+)=(.*)$", script, re.MULTILINE):
            self.environment[name] = string.Template(shlex.split(value)[0]).substitute(self.environment)
        if done.returncode:
            raise PageError(
                f"line {line}: exit code {done.returncode} of\n{script}\nprinted:\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout

    def _redis(self, block: Block) -> None:
        if block.output is not None:
            raise PageError(f"line {block.line}: nobody compares the answers of commands, show none")
        with redis.Redis.from_url(self.url) as client:
            for line in filter(None, block.text.splitlines()):
                send: Any = client.execute_command  # without types in redis-py
                try:
                    send(*line.split())
                except redis.RedisError as error:
                    raise PageError(f"line {block.line}: {line}: {error}") from error


def _look_up(line: int, command: str) -> None:
    """Raises: PageError for a make target or an extra that does not exist."""
    command = command.partition("#")[0]
    if target := re.fullmatch(r"make ([a-z]+)(?: [A-Z_]+=\S+)*\s*", command):
        if not re.search(rf"^{target[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
            raise PageError(f"line {line}: the Makefile has no target {target[1]!r}")
        return
    package = re.fullmatch(r"pip install '?(?:redis-counters|\.)(?:\[([a-z,]+)\])?'?((?: [a-z0-9-]+)*)\s*", command)
    if package is None:
        raise PageError(f"line {line}: cannot check {command!r}")
    project = (ROOT / "pyproject.toml").read_text()
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    for extra in filter(None, (package[1] or "").split(",")):
        if not re.search(rf"^{extra} = ", extras, re.MULTILINE):
            raise PageError(f"line {line}: there is no extra {extra!r}")
    for other in package[2].split():
        if not re.search(rf'"{other}[<>=;"]', project):
            raise PageError(f"line {line}: nothing here is tested with {other!r}")


def _no_run(block: Block) -> None: ...


def main() -> None:
    """Run a page's blocks; the first that fails ends it, with exit code 1 and a line on standard error."""
    page = Path(sys.argv[1])
    others = json.loads(os.environ.get("REDIS_COUNTERS_INSTEAD", "{}"))
    runner = Runner(os.environ["REDIS_COUNTERS_URL"], Path.cwd(), others)
    try:
        runner.run_page(page.read_text())
    except PageError as error:
        sys.exit(f"{page.name}, {error}")


if __name__ == "__main__":
    main()
