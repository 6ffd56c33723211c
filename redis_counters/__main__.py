"""``python -m redis_counters``: the command, where its script is not on PATH."""

from __future__ import annotations

from redis_counters.cli import main

main()
