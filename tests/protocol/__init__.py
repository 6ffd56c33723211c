"""The protocol without drivers, its commands carried to a real server by hand."""
