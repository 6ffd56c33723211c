"""A flush: one round of sending, and when all that a caller waits for is across."""
