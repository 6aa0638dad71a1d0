"""What would happen: the course of a search, and what a retention policy would delete."""

from typing import Any

from sqlalchemy import text

from det_controlplane.core import config as configs
from det_controlplane.core import gc, hparams, search
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.views import time
from det_controlplane.services.checkpoints import collection
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing

_EXPERIMENT = text("SELECT config FROM experiments WHERE id = :id")
_DOOMED = text(f"""
    SELECT c.uuid::text AS uuid, c.trial_id, c.steps_completed, c.state::text AS state, c.resources,
           {time("c.reported_at")} AS report_time,
           (SELECT m.metrics FROM metrics m WHERE m.trial_id = c.trial_id AND m.metric_group = 'validation'
            AND m.total_batches = c.steps_completed AND NOT m.archived LIMIT 1) AS metrics
    FROM checkpoints c WHERE c.uuid = ANY(cast(:uuids AS uuid[])) ORDER BY c.trial_id, c.steps_completed
""")


def search_summary(ctx: Context, config: dict[str, Any]) -> dict[str, Any]:
    """How many trials a configuration's search trains for how long."""
    submitted = dict(config)
    submitted.setdefault("entrypoint", "none")  # a preview trains nothing
    pool = ctx.config.pool_for("", 1)
    if isinstance(pool, Problem):
        raise InvalidConfig([pool])
    sources = configs.sources_of(ctx.config, pool)
    resolved = configs.resolve(submitted, sources, name="preview", seed=0).config.to_json()
    space, problems = hparams.parse(resolved.get("hyperparameters") or {})
    if problems:
        raise InvalidConfig(list(problems))
    try:
        trials = search.preview(resolved["searcher"], space)
    except search.SearchFailed as e:
        raise Invalid(str(e)) from e
    return {"config": resolved["searcher"], "trials": [t.to_json() for t in trials]}


def collected(ctx: Context, experiment_id: int, policy: gc.Policy) -> dict[str, Any]:
    """The checkpoints that the policy would delete, with the names that the stock client reads."""
    with ctx.db.begin() as tx:
        config = tx.execute(_EXPERIMENT, {"id": experiment_id}).scalar()
        if config is None:
            raise Missing(f"experiment {experiment_id} not found")
        doomed = collection.to_delete(tx, experiment_id, config, policy)
        rows = tx.execute(_DOOMED, {"uuids": doomed}).all()
    shown = [
        {
            "TrialID": r.trial_id, "StepsCompleted": r.steps_completed, "State": r.state, "UUID": r.uuid,
            "Resources": r.resources, "ValidationMetrics": r.metrics or {}, "ReportTime": r.report_time,
        }
        for r in rows
    ]  # fmt: skip
    return {"checkpoints": shown, "metric_name": config["searcher"].get("metric") or ""}
