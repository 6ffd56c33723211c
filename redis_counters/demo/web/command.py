"""``demo --web``: prints the address of the page, and at the end the counts."""

from __future__ import annotations

import asyncio

from redis_counters.cli import output
from redis_counters.demo.web import check_installed


def run_web(host: str, port: int, as_json: bool) -> int:
    """Serve the page until Ctrl-C or SIGTERM; return the exit code: 0 if redis-counters was exact, else 1.

    ``as_json``: one object on standard output, as soon as the page can be opened.
    Raises: UsageError (something is not installed, the address is taken), CounterError.
    """
    check_installed()
    from redis_counters.demo.web.stage import play

    def opened(url: str, workers: tuple[int, ...]) -> None:
        if as_json:
            output.print_json({"url": url, "workers": workers})
        else:
            print(f"Open {url} in a browser, or in two. Ctrl-C ends it.", flush=True)

    def report(event: str) -> None:
        if not as_json:
            print(event, flush=True)

    facts = asyncio.run(play(host, port, opened, report))
    plain, ours = (f"{count:,} ({_error(count - facts.issued)})" for count in (facts.plain, facts.ours))
    if not as_json:
        print(f"\nIssued {facts.issued:,} likes, less those taken back. Plain INCR: {plain}. redis-counters: {ours}.")
    return 0 if facts.ours == facts.issued else 1


def _error(error: int) -> str:
    return f"{error:+,}" if error else "exact"
