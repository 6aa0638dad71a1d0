"""Train the trials of a search without agents."""

import math
from typing import Any

from tests.support.api import Caller, report_metrics

SPACE = {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}}
MODEL: dict[str, Any] = {
    "name": "model_asha", "metric": "loss", "time_metric": "batches", "max_time": 9, "divisor": 3,
    "max_trials": 300, "max_concurrent_trials": 4, "stop_when": {"expected_gain_below": 0.05},
}  # fmt: skip
_ENDED = ("STATE_COMPLETED", "STATE_STOPPING_COMPLETED")


def train(caller: Caller, experiment_id: int, most: int) -> int:
    """Train the trials of a search over SPACE, one after the other, until it ends. Return their number."""
    for _ in range(most):
        trials = caller.get(f"/api/v1/experiments/{experiment_id}/trials", limit=-1)["trials"]
        live = [trial for trial in trials if trial["state"] not in _ENDED]
        if not live:
            break
        trial = live[-1]
        for batches in (1, 3, 9):
            loss = abs(math.log10(trial["hparams"]["lr"]) + 2.5) + 1 / batches
            metrics = {"loss": loss, "batches": batches}
            report_metrics(caller, trial["id"], "validation", batches, metrics, run=1)
    return len(trials)
