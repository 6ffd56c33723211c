"""Where this process's randomness and time come from."""

from __future__ import annotations

import os
import random
import socket
import string

_ALPHABET = string.ascii_letters + string.digits


def mint() -> str:
    """Return a new owner token from the operating system's entropy: 12 characters, 71 bits."""
    return "".join(random.SystemRandom().choices(_ALPHABET, k=12))


def default_display() -> str:
    """Return a name for people: host and process id. Never an identity."""
    return f"{socket.gethostname()}:{os.getpid()}"
