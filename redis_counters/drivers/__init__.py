"""Doing it: the only code that waits, sends, reads a clock or a random number."""
