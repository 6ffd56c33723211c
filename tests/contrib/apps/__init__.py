"""Applications of each framework for tests: `/` counts a request, and is answered with the process that did."""
