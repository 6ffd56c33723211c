"""The command, run as its users run it: in a pipe, on a terminal, stopped in the middle."""
