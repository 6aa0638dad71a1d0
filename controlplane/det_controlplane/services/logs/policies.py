"""Find patterns in the logs that change what happens to a trial (docs/reference/experiment-config.md#log_policies)."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from det_controlplane.db import logs
from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context


def match(ctx: Context, task_id: str, rows: Sequence[dict[str, Any]]) -> None:
    """Look for the policies of the task's trial in new lines."""
    with ctx.db.begin() as tx:
        trial = logs.policies(tx, task_id)
        if trial is None:
            return
        for policy in trial.policies:
            action = _action(policy)
            pattern = _compiled(policy.get("pattern") or "")
            if action is None or pattern is None:
                continue
            hit = next((r for r in rows if pattern.search(r["log"])), None)
            if hit is None:
                continue
            consequence = _act(tx, trial.trial_id, action, policy, hit)
            if consequence:
                told = f"(log {hit['log'].strip()!r}) matched the pattern {policy['pattern']!r} {consequence}"
                logs.add_line(tx, task_id, told, ctx.now())


def _act(
    tx: Tx, trial_id: int, action: str, policy: dict[str, Any], hit: dict[str, Any]
) -> str | None:
    """Return what follows, in the words that scripts look for; None where it was so before."""
    if action == "cancel_retries":
        is_new = logs.cancel_retries(tx, trial_id, policy.get("name") or policy["pattern"])
        return "therefore will not retry" if is_new else None
    agent_id = hit.get("agent_id")
    if action == "exclude_node" and agent_id:
        is_new = logs.exclude_agent(tx, trial_id, agent_id)
        return f"therefore will not schedule on {agent_id}" if is_new else None
    return None


def _action(policy: dict[str, Any]) -> str | None:
    action = policy.get("action")
    return action.get("type") if isinstance(action, dict) else action


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> "re.Pattern[str] | None":
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None
