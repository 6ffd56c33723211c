"""The algebra of counters: values in, values out. No I/O, no clock, no random choice.

The specification of the rest. At run time only the reading of a hash is used (`shard_fields`, `shard_copies`,
`slotmap.parse`); the types, their merge and their laws, `slotmap.raise_slots` and `slotmap.fold` are what the scripts
are tested against.
"""
