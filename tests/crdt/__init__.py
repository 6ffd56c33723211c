"""The algebra: its laws for every type, and types that break them, which the laws must notice."""
