"""What docs/explanation/actors.md says of an actor's phases: ``python -m tests.docs.actor_page`` prints it anew."""

from __future__ import annotations

from redis_counters.protocol.write.states import TRANSITIONS, ActorEvent, Doubt, Phase


def diagram() -> str:
    """Return the phases as a mermaid diagram: an arrow for each two, with its events."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, event), step in TRANSITIONS.items():
        if phase is not step.to:
            arrows.setdefault((phase, step.to), []).append(event.name)
    lines = [f"    {a.name} --> {b.name}: {', '.join(events)}" for (a, b), events in arrows.items()]
    ends = [f"    {phase.name} --> [*]" for phase in (Phase.DONE, Phase.MOVED)]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> NEW", *lines, *ends, "```"])


def tables() -> str:
    """Return what each phase sends, what each event is and does, and what each doubt means."""
    doubts = {event: _doubts(event) for event in ActorEvent}
    return "\n".join(
        [
            "| phase | sends |",
            "|---|---|",
            *(f"| {phase.name} | {phase.value} |" for phase in Phase),
            "",
            "| event | when | doubts |",
            "|---|---|---|",
            *(f"| {event.name} | {event.value} | {doubts[event]} |" for event in ActorEvent),
            "",
            "| doubt | means |",
            "|---|---|",
            *(f"| {doubt.name} | {doubt.value} |" for doubt in Doubt),
        ]
    )


def _doubts(event: ActorEvent) -> str:
    steps = {step[1:] for (_, each), step in TRANSITIONS.items() if each is event}
    ((raises, clears),) = steps  # the same in every phase
    return ", ".join([f"+{doubt.name}" for doubt in raises] + [f"-{doubt.name}" for doubt in clears])


if __name__ == "__main__":
    print(diagram(), tables(), sep="\n\n")
