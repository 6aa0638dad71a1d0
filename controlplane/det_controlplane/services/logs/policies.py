"""Find patterns in the logs that change what happens to a trial (docs/reference/experiment-config.md#log_policies)."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from det_controlplane.db import logs
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
            if action == "cancel_retries":
                logs.cancel_retries(tx, trial.trial_id, policy.get("name") or policy["pattern"])
            elif action == "exclude_node" and hit.get("agent_id"):
                logs.exclude_agent(tx, trial.trial_id, hit["agent_id"])


def _action(policy: dict[str, Any]) -> str | None:
    action = policy.get("action")
    return action.get("type") if isinstance(action, dict) else action


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> "re.Pattern[str] | None":
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None
