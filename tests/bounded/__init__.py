"""Bounded counters: in both faces, through lost replies and repetitions, never below the floor or above the cap."""
