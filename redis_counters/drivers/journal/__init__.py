"""The journal of a client: a SQLite file, its lock, its checksums, and what can be read of one that is damaged."""
