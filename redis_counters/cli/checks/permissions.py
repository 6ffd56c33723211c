"""The findings of ``doctor`` about commands: what keeps all of them from working, and what the user may not do."""

from __future__ import annotations

from collections.abc import Iterable

from redis_counters.cli.checks.findings import OK, PROBLEM, WARNING, Finding, cut
from redis_counters.cli.checks.trials import Trial
from redis_counters.drivers.redis_py.errors import NO_SENTINEL
from redis_counters.protocol.wire.acl import key_patterns
from redis_counters.protocol.wire.commands import ErrorReply
from redis_counters.protocol.wire.refusals import IN_A_CLUSTER, error_for

# Errors of a command, whichever user sends it: a sign of each, and what to do.
_OBSTACLES = {
    IN_A_CLUSTER: "Use a URL with redis+cluster://, or a RedisCluster client.",
    NO_SENTINEL: "Use redis://host:port.",
    "CLUSTERDOWN": "See CLUSTER INFO.",
    "READONLY": "Connect to the primary.",
    "OOM": "Raise maxmemory, or remove what is not needed.",
    "MISCONF": "The server cannot write its disk: see its log.",
    "NOREPLICAS": "See min-replicas-to-write, and the followers.",
    "DB index": "Name another database in the URL: redis://host:port/0.",
}
# Advice for commands that counting does not need; {rule}: what would allow it.
HOUSEKEEPING = "Nothing, as long as some client may: those of this user do not clean up after killed processes."
KEYED = "Nothing, unless incr_once, likes, expire_at or reshard is used: ACL SETUSER ... {rule}"
STAMPING = "Nothing, unless regions exchange what is counted here: ACL SETUSER ... {rule}"
EXCHANGING = "Nothing, unless this user lets regions exchange what they have: ACL SETUSER ... {rule}"
REPORT = "Nothing; with it this report would tell more."


def obstacle(trials: Iterable[Trial], before: Iterable[Finding]) -> list[Finding] | None:
    """Return what keeps commands of any user from working: then nothing is known of permissions.

    One finding, or none if those before have reported it; None if there is no such thing.
    """
    texts = [trial.error for trial in trials if trial.error and not trial.denied and not trial.lacking]
    if not texts:
        return None
    signs = {"server": IN_A_CLUSTER, "replication": "READONLY"}
    if any(each.level is PROBLEM and signs.get(each.check) in (texts[0], texts[0][:8]) for each in before):
        return []
    text = error_for(ErrorReply(texts[0]), None)
    advice = next((advice for sign, advice in _OBSTACLES.items() if sign in texts[0]), "See the server's message.")
    return [Finding("commands", PROBLEM, cut(str(text)), advice)]


def permissions(trials: Iterable[Trial], namespace: str = "rc") -> list[Finding]:
    """Return one finding if the user may do all that is needed, else one for each command."""
    worst: dict[str, Trial] = {}  # of a command tried more than once, the worst; to have tried it says more than not
    for trial in trials:
        known = worst.get(trial.command)
        if known is None or known.error is None or (trial.error and not known.error):
            worst[trial.command] = trial
    found = []
    for trial in worst.values():
        if not trial.error:
            continue
        advice = "The server does not have it."
        if trial.denied_key:
            advice = f"Keys begin with {{{namespace}: and {namespace}: alike: ACL SETUSER ... {key_patterns(namespace)}"
        elif trial.denied:
            advice = f"Allow it: ACL SETUSER ... {_rule(trial)}"
        found.append(Finding(f"permission {trial.command}", PROBLEM, cut(trial.error), advice))
    if untried := [trial.command for trial in worst.values() if trial.error is None]:
        advice = "Put right what stands above, then ask again."
        found.append(Finding("permissions", WARNING, f"could not be tried: {', '.join(untried)}", advice))
    return found or [Finding("permissions", OK, f"{len(worst)} commands tried, all allowed")]


def dispensable(trials: Iterable[Trial], advice: str) -> list[Finding]:
    """Return a finding for each command that does not work, and that counting does not need."""
    return [
        Finding(
            f"permission {trial.command}",
            OK,
            f"not {'there' if trial.lacking else 'allowed'}, and not needed to count",
            advice.replace("{rule}", _rule(trial)),
        )
        for trial in trials
        if trial.error
    ]


def _rule(trial: Trial) -> str:
    return "+" + trial.command.lower().split()[0]
