"""What a journal is to keep, and what a killed process left in one. The file itself is in `drivers/journal/`."""
