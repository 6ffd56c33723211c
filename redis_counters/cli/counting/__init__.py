"""Parts of ``count``: lines in, counts out, and how far it got."""
