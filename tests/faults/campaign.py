"""All faults, in the order of the table, and how one of them is run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tests.faults import losses, on_the_client, on_the_link, on_the_server
from tests.faults.sides import BLOCKING, SIDES
from tests.faults.world import Outcome, Place, World
from tests.servers import Kind


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table. ``wrong``: what this makes count wrong every time; if not, the run proves nothing."""

    title: str
    happen: Callable[[World], Place]
    wrong: tuple[str, ...] = ()
    sides: tuple[str, ...] = BLOCKING


BOTH = ("incr", "pipeline")
FAULTS = (
    Fault("1 in 100 replies is lost", on_the_link.replies_lost, BOTH),
    Fault("connection cut before 1 in 99 commands", on_the_link.cut_before_applying, ("pipeline",)),
    Fault("1 in 100 replies comes after the client's time-out", on_the_link.replies_late, BOTH),
    Fault("1 in 100 commands arrives twice", on_the_link.commands_doubled, BOTH),
    Fault("Redis away for 2 seconds, twice", on_the_link.server_away),
    Fault("asyncio tasks cancelled", on_the_link.tasks_cancelled, BOTH),
    Fault("SCRIPT FLUSH, again and again", on_the_server.scripts_flushed),
    Fault("server stopped (SIGSTOP) past the time-out, resumed", on_the_server.stopped_and_resumed),
    Fault("server killed (SIGKILL), restarted with its AOF", on_the_server.killed_with_aof),
    Fault("server killed, restarted empty", on_the_server.killed_without_persistence, BOTH),
    Fault("Sentinel: fail-over of a healthy pair", on_the_server.sentinel_fail_over),
    Fault("Sentinel: primary killed", on_the_server.sentinel_primary_killed),
    Fault("fail-over to a follower that was left behind", on_the_server.follower_left_behind, BOTH),
    Fault("primary demoted, connections to it stay open", on_the_server.demoted_with_open_connections),
    Fault("counter deleted by hand", on_the_server.key_deleted),
    Fault("process killed (SIGKILL) after a flush", on_the_client.killed_after_a_flush),
    Fault("process killed in a batch (with our journal)", on_the_client.killed_before_a_flush, ("pipeline",)),
    Fault("process frozen (SIGSTOP), resumed", on_the_client.frozen_and_resumed),
    Fault("process frozen until others folded its slots", on_the_client.frozen_until_folded),
    Fault("fork in the middle of a batch", on_the_client.forked_in_a_batch, ("pipeline",)),
    Fault("process replaced while counting", on_the_client.replaced),
    *(
        Fault(title, happen, BOTH, tuple(SIDES))
        for title, happen in (
            ("lagging follower promoted at the same address", losses.promoted_behind_the_address),
            ("lagging follower promoted, re-assert window over", losses.promoted_after_the_window),
            ("lagging follower promoted behind open connections", losses.switched_behind_open_connections),
            ("primary follows a lagging one, and leads again", losses.demoted_and_promoted_again),
            ("cluster: TAKEOVER by a lagging follower", losses.taken_over_in_a_cluster),
            ("Sentinel: lagging follower promoted, process idle", losses.promoted_by_sentinels_while_idle),
            ("FLUSHALL, process idle, then reads", losses.flushed_and_read),
            ("restarted empty, process idle, then reads", losses.restarted_and_read),
            ("FLUSHALL, process idle for good", losses.flushed_and_left_alone),
            ("FLUSHALL again and again, processes count and read", losses.flushed_under_busy_processes),
        )
    ),
)
FULL, SMALL = 3000, 300  # increments, about


def run(fault: Fault, side: str, kind: Kind, size: int) -> Outcome:
    """Let it happen to one way of counting."""
    assert side in SIDES
    with ExitStack() as stack:
        world = World(side, kind, size, stack)
        server = fault.happen(world)
        return world.outcome(fault.title, server)
