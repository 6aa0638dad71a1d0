"""The trial of tests/e2e/distributed on a whole cluster. Its ranks report losses and weights."""

import re
from collections import defaultdict
from pathlib import Path

import yaml

from tests.support.cluster import Cluster

CODE = Path(__file__).parents[1] / "e2e" / "distributed"
FOUR_SLOTS = ("--config", "resources.slots_per_trial=4")
SLOW_FIRST_RUN = ("--config", "hyperparameters.pause_s=3")

# Reports of every rank: batch -> digest of its weights, losses of the last batches.
Told = dict[int, dict[int, str]]


def start(cluster: Cluster, *options: str) -> tuple[int, int]:
    """Start an experiment. Return its id and the id of its trial."""
    experiment_id = cluster.create(CODE / "noisy.yaml", CODE, *options)
    trials = cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")
    return experiment_id, int(trials[0]["id"])


def finish(cluster: Cluster, experiment_id: int, restarts: int = 0) -> None:
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=480)
    trial = cluster.trials(experiment_id)[0]
    assert (state, trial["restarts"]) == ("COMPLETED", restarts), cluster.logs(trial["id"])


def lines(cluster: Cluster, trial_id: int, text: str) -> list[tuple[int, re.Match[str]]]:
    """Log lines of the training code that match, with their ranks."""
    found = []
    for entry in cluster.task_logs(trial_id):
        match = re.search(text, entry["log"])
        if match and entry.get("source") == "task":
            found.append((entry.get("rankId") or 0, match))
    return found


def told(cluster: Cluster, trial_id: int) -> Told:
    """Return the reports of the ranks without repetitions; a repeated batch must have the same values."""
    values: Told = defaultdict(dict)
    for rank, match in lines(cluster, trial_id, r"at batch (\d+): (.*)"):
        batch, result = int(match[1]), match[2]
        assert values[rank].setdefault(batch, result) == result, f"rank {rank}, batch {batch}"
    return values


def losses(cluster: Cluster, trial_id: int) -> dict[int, float]:
    """Return every batch's loss, however the reports were cut."""
    matching_values: dict[int, float] = {}
    for rank, match in lines(cluster, trial_id, r"at batch (\d+): \w+ (\[.*\])"):
        values = yaml.safe_load(match[2]) if rank == 0 else []
        first = int(match[1]) - len(values)
        for i, value in enumerate(values):
            assert matching_values.setdefault(first + i, value) == value, f"batch {first + i}"
    return matching_values


def weights(response: Told, rank: int, batch: int) -> str:
    return response[rank][batch].split()[0]


def until_batch(cluster: Cluster, trial_id: int, batch: int) -> None:
    cluster.until(
        lambda: any(
            batch in observed_losses for observed_losses in told(cluster, trial_id).values()
        ),
        f"batch {batch} of trial {trial_id}",
    )


def until_saved(cluster: Cluster, trial_id: int) -> None:
    path = f"/api/v1/trials/{trial_id}/checkpoints"
    cluster.until(lambda: cluster.get(path)["checkpoints"], "a checkpoint was saved")


def pause_and_resume(cluster: Cluster, experiment_id: int) -> None:
    cluster.det("experiment", "pause", str(experiment_id))
    cluster.until(
        lambda: not cluster.get("/api/v1/tasks")["allocationIdToSummary"], "its slots are free"
    )
    cluster.det("experiment", "activate", str(experiment_id))
