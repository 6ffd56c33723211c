"""What is known of a shard that was sealed, until it is unsealed."""

from __future__ import annotations

from typing import NamedTuple


class Sealed(NamedTuple):
    """A shard that takes no counts at present (see `reshard`), and what has to be told where, to unseal it."""

    id: bytes
    registry0: bytes
    key0: bytes
    shards: int
    widened: bool = False  # that was told, since the id was learnt
