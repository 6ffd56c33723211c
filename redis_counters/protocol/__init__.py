"""The protocol: it decides and never acts (sans-I/O)."""
