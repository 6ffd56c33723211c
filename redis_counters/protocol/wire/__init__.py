"""What goes over the wire and what it means: keys, commands, replies, errors, rights; and the options that shape it."""
