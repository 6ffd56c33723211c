"""Bounded counters: stock, seats, quotas."""
