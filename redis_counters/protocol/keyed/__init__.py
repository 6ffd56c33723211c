"""Calls that count once per key: `incr_once`, likes, `seed` and `adopt`; and calls of bounded counters."""
