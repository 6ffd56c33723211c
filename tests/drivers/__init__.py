"""What the two drivers promise: with any client, through outages, forks and exits, on real servers."""
