"""The whole protocol against seeded schedules of everything that can go wrong, in one process and in simulated time."""
