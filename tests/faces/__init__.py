"""What both faces promise, on real servers."""
