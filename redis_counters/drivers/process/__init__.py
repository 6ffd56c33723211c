"""The life of a process: its end, forks of any kind, clients that are dropped, child processes."""
