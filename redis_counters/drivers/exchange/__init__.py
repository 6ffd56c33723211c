"""Driving an exchange: a thread or a task for each directed pair of regions, over the same core."""
