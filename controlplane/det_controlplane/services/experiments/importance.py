"""The importance of an experiment's hyperparameters for its searcher metric."""

from typing import Any

from det_controlplane.core.schedule.wording import counted
from det_controlplane.core.search.importance import (
    CLEAR_FROM,
    FEWEST,
    Importances,
    ScoredTrial,
    importances,
)
from det_controlplane.db.experiments import searches
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

# Methods that try mostly variations of good trials.
_NOT_UNIFORM = ("model_asha", "local_asha", "pbt")


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
    metric = str(row.searcher.get("metric") or "")
    return {
        "metric": metric,
        "smallerIsBetter": smaller,
        "trials": result.trials,
        "best": result.best,
        "hyperparameters": [
            {"name": entry.name, "importance": round(entry.share, 4)} for entry in result.of
        ],
        "note": _note(result, str(row.searcher["name"]), metric),
    }


def _note(result: Importances, method: str, metric: str) -> str:
    """Return which trials were compared, or why none were, and the limits of the result."""
    reported = f"{counted(result.trials, 'trial')} reported a finite {metric}"
    if result.trials < FEWEST:
        return f"{reported}; at least {FEWEST} are necessary to compare the best with all."
    if not result.of:
        return f"{reported}, all with the same hyperparameters."
    if not result.best:
        return f"{reported}; too many values are equal to compare the best with all."
    sentences = [
        f"Difference between the best {result.best} of {result.trials} trials by {metric} and all of them, in each "
        "hyperparameter alone."
    ]
    if any(entry.share for entry in result.of):
        sentences.append("0 % is no difference beyond chance.")
    else:
        sentences.append("No difference is larger than by chance.")
    if result.trials < CLEAR_FROM:
        sentences.append(f"Fewer than {CLEAR_FROM} trials show only extreme differences.")
    if method in _NOT_UNIFORM:
        sentences.append(
            f"{method} tries mostly good values, so an important hyperparameter can show 0 %; trials of random show more."
        )
    return " ".join(sentences)
