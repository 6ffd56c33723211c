"""Exact counters on Redis and Valkey that thousands of processes bump at once."""

from __future__ import annotations

__version__ = "0.1.0"
