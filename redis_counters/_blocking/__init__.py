"""The blocking face, which `redis_counters` offers; generated from `redis_counters.asyncio` by `make blocking`."""
