"""Preview the course of a search, and the checkpoints that a garbage-collection policy would delete."""

from typing import Any

from det_controlplane.core import config as configs
from det_controlplane.core import hparams, search
from det_controlplane.core.checkpoints import gc
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.experiments import experiments
from det_controlplane.services.checkpoints import collection
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing


def search_summary(ctx: Context, config: dict[str, Any]) -> dict[str, Any]:
    """Return the number of trials that the search of a configuration trains, by length."""
    submitted = dict(config)
    submitted.setdefault("entrypoint", "none")  # a preview does not train
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
    """Return the checkpoints that the policy would delete, with the names that the stock client reads."""
    with ctx.db.begin() as tx:
        if not experiments.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
        config = experiments.config(tx, experiment_id)
        rows = checkpoints.doomed(tx, collection.to_delete(tx, experiment_id, config, policy))
    entries = [
        {
            "TrialID": r.trial_id, "StepsCompleted": r.steps_completed, "State": r.state, "UUID": r.uuid,
            "Resources": r.resources, "ValidationMetrics": r.metrics or {}, "ReportTime": r.report_time,
        }
        for r in rows
    ]  # fmt: skip
    return {"checkpoints": entries, "metric_name": config["searcher"].get("metric") or ""}
