"""How processes begin, fork and end, and what signals and event loops do to a client meanwhile."""
