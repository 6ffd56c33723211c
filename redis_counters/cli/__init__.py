"""The command ``redis-counters``. Only ``main`` is public; typer and rich come with the extra ``cli``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and end it with the exit code: 0, 1 (failed) or 2 (usage)."""
    try:
        import rich  # noqa: F401  only to learn whether it is there
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer"}:
            raise
        print("redis-counters: the command line needs redis-counters with the extra `cli`", file=sys.stderr)
        sys.exit(2)
    from redis_counters.cli.app import run

    sys.exit(run(sys.argv[1:]))
