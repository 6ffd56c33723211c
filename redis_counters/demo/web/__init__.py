"""The demo in a browser: twenty posts to like, a crowd, and a link that loses replies.

One process owns the rest, and ends it (`stage`): a private server, the link before it, the crowd, and two web servers
(`worker`), which share a listening socket. They share the switches and the counts through
keys of their own (`board`). A click goes to redis-counters, and for comparison to plain INCR (`clicks`).
"""

from __future__ import annotations

from redis_counters.errors import UsageError

__all__ = ["check_installed"]


def check_installed() -> None:
    """Check that the extra `web` is installed. Raises: UsageError, which says how to get it."""
    try:
        import fastapi  # noqa: F401  only to learn whether it is there
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(f"demo --web needs redis-counters with the extra `web` ({error.name} is missing)") from None
