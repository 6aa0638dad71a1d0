"""Find patterns in logs that change the future of a trial (docs/reference/experiment-config.md#log_policies).

Agents search the lines of their containers and report matches with the line. Lines of other senders are searched
here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from det_controlplane.core import patterns
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import log_policies, logs
from det_controlplane.services.context import Context
from det_controlplane.services.searching import LogSearch

CANCEL_RETRIES = "cancel_retries"
Line = Mapping[str, Any]
"""A log line. `matched` has the matching patterns if its sender checked them."""


@dataclass(frozen=True, slots=True)
class Match:
    """A policy of a trial, and the line that it is about."""

    task_id: str
    trial_id: int
    name: str
    pattern: str
    action: str | None
    # Names of the trial's policies that do not cancel retries: the name of one that does replaces them.
    labels: Collection[str]
    log: str
    agent_id: str | None


def patterns_of(config: Mapping[str, Any]) -> list[str]:
    policies = config.get("log_policies") or ()
    return [p["pattern"] for p in policies if p.get("pattern")]


def cancels_retries(tx: Tx, trial_id: int, matched: str | None) -> bool:
    """Return whether the policy that a trial shows as matched makes its failure final."""
    if matched is None:
        return False
    policies = log_policies.of_trial(tx, trial_id)
    return any(_action(p) == CANCEL_RETRIES for p in policies if _name(p) == matched)


def find(ctx: Context, task_id: str, lines: Sequence[Line], searching: LogSearch) -> list[Match]:
    """Return the first line for each policy of the task's trial that matches; outside of transactions, as it may take a while."""
    if all(line.get("matched") == () for line in lines):
        return []
    with ctx.db.autocommit() as tx:
        trial = log_policies.of_task(tx, task_id)
    if trial is None:
        return []
    labels = [_name(p) for p in trial.policies if _action(p) != CANCEL_RETRIES]
    matches = []
    for policy in trial.policies:
        action, pattern = _action(policy), policy.get("pattern")
        if not pattern or not (action or trial.matched is None):
            continue
        name, matching = _name(policy), partial(_matches, pattern)
        first = searching.first(task_id, pattern, f"log policy {name!r}", lines, matching)
        if first is not None:
            about = (labels, first["log"], first["agent_id"])
            matches.append(Match(task_id, trial.trial_id, name, pattern, action, *about))
    return matches


def _matches(pattern: str, line: Line) -> bool:
    agent_matches = line.get("matched")
    return (
        patterns.matches(pattern, line["log"])
        if agent_matches is None
        else pattern in agent_matches
    )


def act(tx: Tx, matches: Sequence[Match], now: datetime) -> None:
    """Apply the actions of matched policies and write each into the log of its task."""
    if matches:
        log_policies.lock_experiments(tx, {match.trial_id for match in matches})
    for match in matches:
        _act(tx, match, now)


def _act(tx: Tx, match: Match, now: datetime) -> None:
    consequence = _consequence(tx, match)
    if consequence:
        message = f"(log {match.log.strip()!r}) matched the pattern {match.pattern!r} {consequence}"
        logs.add_line(tx, match.task_id, message, now)


def _consequence(tx: Tx, match: Match) -> str | None:
    """Return the consequence of a match, in the words that scripts look for; None where it holds already."""
    agent_id, cancels = match.agent_id, match.action == CANCEL_RETRIES
    replaceable = match.labels if cancels else ()
    is_new = log_policies.mark(tx, match.trial_id, match.name, replaceable=replaceable)
    if cancels:
        return "therefore will not retry" if is_new else None
    if match.action == "exclude_node" and agent_id:
        is_new = log_policies.exclude_agent(tx, match.trial_id, agent_id)
        return f"therefore will not schedule on {agent_id}" if is_new else None
    return None


def _name(policy: Mapping[str, Any]) -> str:
    return str(policy.get("name") or policy.get("pattern"))


def _action(policy: Mapping[str, Any]) -> str | None:
    action = policy.get("action")
    return action.get("type") if isinstance(action, dict) else action
