"""A sealed shard, until it is unsealed."""

from __future__ import annotations

from typing import NamedTuple


class Sealed(NamedTuple):
    """A shard that takes no counts at present (see `reshard`), and what unsealing it takes."""

    id: bytes
    registry0: bytes
    key0: bytes
    shards: int
    widened: bool = False  # that was told, since the id was learnt
