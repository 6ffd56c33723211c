"""The wire, and what goes over it: keys, commands, replies, errors, rights; and the options that shape it."""
