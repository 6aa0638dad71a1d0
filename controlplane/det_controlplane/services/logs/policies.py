"""Patterns in the logs that change what happens to a trial (facts §3.1, log_policies)."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import text

from det_controlplane.services.context import Context

_POLICIES = text("""
    SELECT t.id, t.log_policy_matched, e.config->'log_policies' AS policies
    FROM tasks k JOIN trials t ON t.id = k.trial_id JOIN experiments e ON e.id = t.experiment_id
    WHERE k.id = :task_id AND t.ended_at IS NULL AND jsonb_array_length(coalesce(e.config->'log_policies', '[]')) > 0
""")
_MATCHED = text(
    "UPDATE trials SET log_policy_matched = :name WHERE id = :id AND log_policy_matched IS NULL"
)
_BLOCK = text("""
    UPDATE trials SET blocked_agents = array_append(blocked_agents, :agent)
    WHERE id = :id AND NOT :agent = ANY(blocked_agents)
""")


def match(ctx: Context, task_id: str, rows: Sequence[dict[str, Any]]) -> None:
    """Look for the policies of the task's trial in new lines."""
    with ctx.db.begin() as tx:
        trial = tx.execute(_POLICIES, {"task_id": task_id}).first()
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
                tx.execute(
                    _MATCHED, {"id": trial.id, "name": policy.get("name") or policy["pattern"]}
                )
            elif action == "exclude_node" and hit.get("agent_id"):
                tx.execute(_BLOCK, {"id": trial.id, "agent": hit["agent_id"]})


def _action(policy: dict[str, Any]) -> str | None:
    action = policy.get("action")
    return action.get("type") if isinstance(action, dict) else action


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> "re.Pattern[str] | None":
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None
