local MOST_BASES = 16 -- fields of a shard that take what was folded, or counted by nobody: the next when one is full
