"""The tests. A test that needs a server gets a real one from ``conftest.py``."""
