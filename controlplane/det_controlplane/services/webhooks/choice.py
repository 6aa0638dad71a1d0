"""Check which webhooks an experiment names."""

from collections.abc import Mapping
from typing import Any

from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.cluster import webhooks
from det_controlplane.services.context import Context


def check(ctx: Context, config: Mapping[str, Any], workspace_id: int) -> None:
    """Raise InvalidConfig where a configuration names webhooks that its workspace does not have."""
    choice = (config.get("integrations") or {}).get("webhooks") or {}
    ids, names = choice.get("webhook_id") or [], choice.get("webhook_name") or []
    if not ids and not names:
        return
    with ctx.db.autocommit() as tx:
        unknown_ids, unknown_names = webhooks.unknown(tx, ids, names, workspace_id)
    problem = f"is no webhook of workspace {workspace_id} or of the cluster: see 'det webhook list'"
    problems = [
        *(Problem("integrations.webhooks.webhook_id", f"{i} {problem}") for i in unknown_ids),
        *(Problem("integrations.webhooks.webhook_name", f"{n!r} {problem}") for n in unknown_names),
    ]
    if problems:
        raise InvalidConfig(problems)
