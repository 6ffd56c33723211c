"""Redis Clusters: every operation, slots that move, primaries that fail; exact, and without anybody doing anything."""
