"""From `incr()` to the flush: the buffer, totals per slot, actors, and what each sends next."""
