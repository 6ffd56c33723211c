"""The exchange between regions against seeded schedules of everything that can go wrong, in simulated time."""
