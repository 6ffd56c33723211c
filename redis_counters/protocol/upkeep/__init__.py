"""Upkeep keeps Redis small and quick: folding actors that are gone, more shards for hot counters, fewer again."""
