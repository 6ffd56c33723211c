"""For tests of code that counts: a link to a Redis server that loses exactly the messages that a test names.

A reply is lost after its command was applied (`LossyLink.drop_reply`) or comes late (`LossyLink.delay`) or byte by byte
(`LossyLink.drip`), a connection breaks before a command arrives (`LossyLink.cut_before`), a command arrives twice
(`LossyLink.duplicate`), the server goes away (`LossyLink.stop`) or is another one from now on (`LossyLink.lead_to`).
The link knows where each request and each reply ends: its counts say what the server applied.
"""

from redis_counters.testing.link import LossyLink

__all__ = ["LossyLink"]
