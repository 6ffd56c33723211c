"""What to do: decides, never acts (sans-I/O)."""
