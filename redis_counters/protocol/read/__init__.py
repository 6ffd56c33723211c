"""Values: the cache, fetching the shards of a counter, `inspect`, `reset` and `delete`."""
