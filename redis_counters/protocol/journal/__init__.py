"""A journal's content, and how it is sent when its process was killed. The file itself is in `drivers/journal/`."""
