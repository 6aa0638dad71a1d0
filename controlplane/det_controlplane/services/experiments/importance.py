"""The importance of an experiment's hyperparameters for its searcher metric."""

from typing import Any

from det_controlplane.core.search.importance import ScoredTrial, importances
from det_controlplane.db.experiments import searches
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing


def of(ctx: Context, experiment_id: int) -> dict[str, Any]:
    """Return the hyperparameters that vary, the most important first, and how many trials are compared."""
    with ctx.db.autocommit() as tx:
        row = searches.searching(tx, experiment_id)
        if row is None:
            raise Missing(f"experiment {experiment_id} not found")
        scored = searches.scored(tx, experiment_id)
    smaller = row.searcher.get("smaller_is_better", True) is not False
    sign = 1 if smaller else -1
    result = importances([ScoredTrial(hparams, sign * value) for hparams, value in scored])
    return {
        "metric": row.searcher.get("metric") or "",
        "smallerIsBetter": smaller,
        "trials": result.trials,
        "best": result.best,
        "hyperparameters": [
            {"name": entry.name, "importance": round(entry.share, 4)} for entry in result.of
        ],
    }
