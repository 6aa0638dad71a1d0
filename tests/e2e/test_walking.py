"""Everything a user can do at the end of the first day, on a whole cluster of real processes and containers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Held, Start, default_clusters, in_docker_on_demand
from tests.support.cluster import ROOT, Cluster


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Stop, kill and start parts of clusters that no other file has."""
    with default_clusters(tmp_path_factory) as start:
        yield start


def trial_of(cluster: Cluster, experiment_id: int) -> int:
    trials = cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")
    return int(trials[0]["id"])


def until_step(cluster: Cluster, trial_id: int, line: str) -> None:
    cluster.until(
        lambda: any(line in entry["log"] for entry in cluster.task_logs(trial_id)),
        f"trial {trial_id} prints {line!r}",
    )


def start(cluster: Cluster, holder: Held) -> tuple[int, int]:
    """Create an experiment, and return it with its trial."""
    experiment_id = cluster.create(holder.config, holder.code)
    return experiment_id, trial_of(cluster, experiment_id)


def let_on(
    cluster: Cluster, holder: Held, experiment_id: int, trial_id: int, *, restarts: int
) -> str:
    """Let the trial train to its end, check that it ends as an undisturbed one; return its log."""
    holder.let_on()
    assert cluster.until_state(experiment_id, "COMPLETED", "ERROR") == "COMPLETED"
    until_step(cluster, trial_id, "finished at step 60: exact")
    assert cluster.trials(experiment_id)[0]["restarts"] == restarts
    return cluster.logs(trial_id)


def test_search_of_an_example_has_a_best_trial(cluster: Cluster) -> None:
    example = ROOT / "examples/numpy_digits"
    experiment_id = cluster.create(
        example / "adaptive.yaml", example, "--config", "searcher.max_trials=4"
    )
    cluster.det("experiment", "wait", str(experiment_id), timeout_s=360)
    best = cluster.experiment(experiment_id)["bestTrialId"]
    trials = {t["id"]: t for t in cluster.trials(experiment_id)}
    assert len(trials) == 4
    metric = {i: t["searcherMetricValue"] for i, t in trials.items()}
    assert metric[best] == min(metric.values())
    assert trials[best]["bestCheckpoint"]["state"] == "STATE_COMPLETED"


def test_paused_trial_resumes_in_a_new_container_with_its_exact_state(
    cluster: Cluster, held: Held
) -> None:
    experiment_id, trial_id = start(cluster, held)
    until_step(cluster, trial_id, "saved step 20")
    cluster.det("experiment", "pause", str(experiment_id))
    until_step(cluster, trial_id, "preempted at step")
    cluster.until(
        lambda: not cluster.get("/api/v1/tasks")["allocationIdToSummary"], "its slots are free"
    )
    assert cluster.trials(experiment_id)[0]["state"] == "STATE_PAUSED"
    cluster.det("experiment", "activate", str(experiment_id))
    logs = let_on(cluster, held, experiment_id, trial_id, restarts=0)
    preemption = re.search(r"preempted at step (\d+)", logs)
    assert preemption is not None
    assert f"resumed at step {preemption.group(1)}" in logs


def test_killed_container_restarts_from_its_checkpoint_and_counts(
    cluster: Cluster, held: Held
) -> None:
    experiment_id, trial_id = start(cluster, held)
    until_step(cluster, trial_id, "saved step 20")
    cluster.kill_containers_of(trial_id)
    logs = let_on(cluster, held, experiment_id, trial_id, restarts=1)
    assert "resumed at step 20" in logs


def test_trial_survives_an_agent_restart_without_a_counted_restart(
    cluster: Cluster, held: Held
) -> None:
    experiment_id, trial_id = start(cluster, held)
    until_step(cluster, trial_id, "saved step 20")
    cluster.kill("det_agent", "--agent-id")
    let_on(cluster, held, experiment_id, trial_id, restarts=0)


def test_trial_survives_an_api_restart(cluster: Cluster, held: Held) -> None:
    experiment_id, trial_id = start(cluster, held)
    until_step(cluster, trial_id, "saved step 20")
    cluster.kill("api_server")
    cluster.until(lambda: cluster.run("master", "info").code == 0, "the API is back")
    logs = let_on(cluster, held, experiment_id, trial_id, restarts=0)
    assert "resumed" not in logs


def test_trial_resumes_after_a_cluster_restart_at_its_preemption_step(
    cluster: Cluster, held: Held
) -> None:
    experiment_id, trial_id = start(cluster, held)
    until_step(cluster, trial_id, "saved step 20")
    cluster.down()
    cluster.up_again()
    logs = let_on(cluster, held, experiment_id, trial_id, restarts=0)
    preemption = re.search(r"preempted at step (\d+)", logs)
    assert preemption is not None
    assert f"resumed at step {preemption.group(1)}" in logs


@in_docker_on_demand
def test_checkpoint_can_be_downloaded(cluster: Cluster, exact: Path, tmp_path: Path) -> None:
    experiment_id = cluster.create(
        exact / "single.yaml", exact, "--config", "searcher.max_length.batches=5"
    )
    cluster.det("experiment", "wait", str(experiment_id))
    checkpoints = cluster.get(f"/api/v1/experiments/{experiment_id}/checkpoints")["checkpoints"]
    uuid = checkpoints[0]["uuid"]
    assert uuid in cluster.det("experiment", "list-checkpoints", str(experiment_id)).out
    cluster.det("checkpoint", "download", uuid, "-o", tmp_path / "ck")
    assert (tmp_path / "ck/state.json").read_text().startswith("{")


def test_killed_experiment_is_canceled_and_its_processes_end(cluster: Cluster, held: Held) -> None:
    experiment_id, trial_id = start(cluster, held)
    until_step(cluster, trial_id, "saved step 10")
    cluster.det("experiment", "kill", str(experiment_id))
    assert cluster.until_state(experiment_id, "CANCELED") == "CANCELED"
    cluster.until(lambda: not cluster.containers_of(trial_id), "its processes are gone")


@in_docker_on_demand
def test_failing_code_ends_in_error_after_its_restarts(cluster: Cluster, tmp_path: Path) -> None:
    context = tmp_path / "failing"
    context.mkdir()
    (context / "fail.yaml").write_text(
        "name: fails\nentrypoint: [bash, -c, 'echo trying; exit 7']\n"
        "searcher: {name: single, metric: loss}\nmax_restarts: 1\n"
    )
    answer = cluster.run("experiment", "create", context / "fail.yaml", context, "--follow")
    assert answer.code == 1
    experiment_id = int(re.findall(r"xperiment (\d+)", answer.out + answer.err)[0])
    trial = cluster.trials(experiment_id)[0]
    assert (trial["state"], trial["restarts"]) == ("STATE_ERROR", 1)
    assert cluster.logs(trial["id"]).count("trying") == 2
    assert "exit code: 7" in cluster.det("why", str(experiment_id)).out
