"""From `incr()` to the flush: the buffer, totals per slot, actors, and one round of flushing."""
