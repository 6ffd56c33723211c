"""The commands put together, and the one place that turns an exception into a line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Annotated, Any

import redis
import typer
from redis.exceptions import RedisClusterException
from typer.core import TyperCommand, TyperGroup

import redis_counters
from redis_counters.cli import options, output
from redis_counters.cli.actors import actors
from redis_counters.cli.bench import bench
from redis_counters.cli.count import count
from redis_counters.cli.delete import delete
from redis_counters.cli.demo import demo
from redis_counters.cli.doctor import doctor
from redis_counters.cli.exchange import exchange
from redis_counters.cli.fold import fold
from redis_counters.cli.get import get
from redis_counters.cli.incr import incr
from redis_counters.cli.inspect import inspect
from redis_counters.cli.regions import regions
from redis_counters.cli.reset import reset
from redis_counters.cli.reshard import reshard
from redis_counters.cli.verify import verify
from redis_counters.drivers.redis_py.errors import translate, translate_reply
from redis_counters.errors import CounterError, Unavailable, UsageError

PROGRAM = "redis-counters"
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
COMMANDS: list[Callable[..., None]] = [
    *(count, get, incr, reset, delete, inspect),
    *(actors, fold, reshard),
    *(exchange, regions, verify),
    *(doctor, bench, demo),
]


class _Command(TyperCommand):
    """A command whose help shows -h as a flag: new versions of typer say <bool>, as if it took a value."""

    def get_help_option(self, ctx: Any) -> Any:
        return _as_a_flag(super().get_help_option(ctx))


class _Group(TyperGroup):
    """The same for all commands together."""

    def get_help_option(self, ctx: Any) -> Any:
        return _as_a_flag(super().get_help_option(ctx))


def _as_a_flag(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


app = typer.Typer(
    name=PROGRAM,
    cls=_Group,
    help="Exact counters on Redis and Valkey: count, read, look inside, check the server.",
    epilog="Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted. 'redis-counters COMMAND --help' tells more.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in COMMANDS:
    # The docstring is the help: one line a paragraph, for typer keeps line breaks.
    _paragraphs = [" ".join(text.split()) for text in cleandoc(_command.__doc__ or "").split("\n\n")]
    # A negative amount of incr looks like an option.
    _settings = {"ignore_unknown_options": _command is incr}
    app.command(cls=_Command, help="\n\n".join(_paragraphs), context_settings=_settings)(_command)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        output.print_lines([f"{PROGRAM} {redis_counters.__version__}"])
        raise typer.Exit


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option("--url", envvar=options.URL_VARIABLE, show_envvar=False, hidden=True)
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", hidden=True)] = None,
    region: Annotated[str | None, typer.Option("--region", hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    _version: Annotated[
        bool, typer.Option("--version", metavar="", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if region is not None and "=" in region:
        raise UsageError("--region NAME=URL stands after the command")
    given = {"url": url, "namespace": namespace, "region": region, "as_json": as_json or None}
    defaults = {name: value for name, value in given.items() if value is not None}
    context.default_map = {command.__name__: defaults for command in COMMANDS}
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. A failure is one line on standard error, never a traceback."""
    # The library's log repeats the error that is printed in the end.
    logging.getLogger("redis_counters").addHandler(logging.NullHandler())
    output.open_closed_streams()
    url_from = "--url" if any(each.startswith("--url") for each in arguments) else ""
    url_from = url_from or (options.URL_VARIABLE if options.URL_VARIABLE in os.environ else "")
    try:
        code = app(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
        with output.standard_output():
            sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except BrokenPipeError:  # the reader of the pipe is gone, and that is no error
        output.forget_standard_output()
        return FAILED
    except output.NotWrittenError as error:
        output.forget_standard_output()
        return _failed(error, FAILED)
    except UsageError as error:
        return _failed(error, USAGE, before=f"{url_from}: " if url_from and str(error).startswith("url ") else "")
    except redis.ResponseError as error:  # doctor and bench use a client of redis-py themselves
        return _failed(translate_reply(error), FAILED)
    except (redis.RedisError, RedisClusterException, Unavailable) as error:
        known = translate(error) or error
        lost = "not reachable" in str(known) and not url_from and not str(known).startswith("region ")
        return _failed(known, FAILED, options.WHERE if lost else "")
    except (CounterError, OSError) as error:
        return _failed(error, FAILED)
    except (KeyboardInterrupt, typer.Abort):
        output.complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        return _failed(error, USAGE, f"{context.command_path if context else PROGRAM} --help tells more")


def _failed(error: Exception, code: int, hint: str = "", before: str = "") -> int:
    # Errors of the command-line parser, whose class typer does not export, give their message by a method.
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    text = " ".join(text.split()) or type(error).__name__
    output.complain(before + (f"{text.rstrip('.')}; {hint}" if hint else text))
    return code
