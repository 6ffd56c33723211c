"""Parts of ``doctor``: what it makes of the answers it got."""
