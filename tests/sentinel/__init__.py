"""Counting on whichever server the Sentinels name."""
