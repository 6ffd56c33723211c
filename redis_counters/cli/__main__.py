"""``python -m redis_counters.cli``."""

from __future__ import annotations

from redis_counters.cli import main

main()
