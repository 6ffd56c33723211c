"""Parts of ``exchange``, ``regions`` and ``verify``: regions, what they say of each other, and how they differ."""
