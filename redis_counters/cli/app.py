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
from redis_counters.cli.actors import actors, fold
from redis_counters.cli.bench import bench
from redis_counters.cli.count import count
from redis_counters.cli.doctor import doctor
from redis_counters.cli.exchange import exchange
from redis_counters.cli.get import delete, get, incr, reset
from redis_counters.cli.inspect import inspect
from redis_counters.cli.regions import regions
from redis_counters.cli.reshard import reshard
from redis_counters.cli.verify import verify
from redis_counters.demo.command import demo
from redis_counters.drivers.redis_py.errors import translate, translate_reply
from redis_counters.errors import CounterError, Unavailable, UsageError

PROGRAM = "redis-counters"
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class _Help(TyperCommand):
    """A command whose help shows -h as what it is, a flag: new versions of typer say <bool>, as if it took a value."""

    def get_help_option(self, ctx: Any) -> Any:
        return _as_a_flag(super().get_help_option(ctx))


class _GroupHelp(TyperGroup):
    """The same of all commands together."""

    def get_help_option(self, ctx: Any) -> Any:
        return _as_a_flag(super().get_help_option(ctx))


def _as_a_flag(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


app = typer.Typer(
    name=PROGRAM,
    cls=_GroupHelp,
    help="Exact counters on Redis and Valkey: count, read, look inside, check the server.",
    epilog="Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted. 'redis-counters COMMAND --help' tells more.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(command: Callable[..., None], **settings: Any) -> None:
    """Make a function a command. Its docstring is the help: one line a paragraph, for typer keeps line breaks."""
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    app.command(cls=_Help, help=text, context_settings=settings)(command)


_add(count)
_add(get)
_add(incr, ignore_unknown_options=True)  # a negative amount looks like an option
_add(reset)
_add(delete)
_add(inspect)
_add(actors)
_add(fold)
_add(reshard)
_add(exchange)
_add(regions)
_add(verify)
_add(doctor)
_add(bench)
_add(demo)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        output.print_lines([f"{PROGRAM} {redis_counters.__version__}".encode()])
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
    context.default_map = dict.fromkeys(
        (command.callback.__name__ for command in app.registered_commands if command.callback), defaults
    )
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(USAGE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. A failure is one line on standard error, never a traceback."""
    # What the library logs is told by the error in the end; on the terminal it would stand beside it.
    logging.getLogger("redis_counters").addHandler(logging.NullHandler())
    output.open_closed_streams()
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
        return _failed(error, USAGE, before=_giver_of_url(arguments) if str(error).startswith("url ") else "")
    except redis.ResponseError as error:  # doctor and bench use a client of redis-py themselves
        return _failed(translate_reply(error), FAILED)
    except (redis.RedisError, RedisClusterException, Unavailable) as error:
        known = translate(error) or error
        said = options.URL_VARIABLE in os.environ or any(argument.startswith("--url") for argument in arguments)
        lost = "not reachable" in str(known) and not said and not str(known).startswith("region ")
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


def _giver_of_url(arguments: Sequence[str]) -> str:
    if any(argument.startswith("--url") for argument in arguments):
        return "--url: "
    return f"{options.URL_VARIABLE}: " if options.URL_VARIABLE in os.environ else ""


def _failed(error: Exception, code: int, hint: str = "", before: str = "") -> int:
    # The errors of the command-line parser, whose class typer does not export, tell their message by a method.
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    text = " ".join(text.split()) or type(error).__name__
    output.complain(before + (f"{text.rstrip('.')}; {hint}" if hint else text))
    return code
