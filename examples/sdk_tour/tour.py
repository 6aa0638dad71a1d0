"""A tour of the Python SDK with precise types. `mypy --strict examples/sdk_tour/tour.py` accepts it.

DET_MASTER, DET_USER and DET_PASS name the cluster and the user. The tour removes everything that it creates.
"""

import sys
import uuid
from typing import Any

from determined.common.api import errors
from determined.experimental import client

CONFIG: dict[str, Any] = {
    "name": "sdk tour",
    "entrypoint": "python3 -m nothing",
    "labels": ["tour"],
    "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
}


def show_experiment(experiment: client.Experiment) -> None:
    state: client.ExperimentState | None = experiment.state
    labels: list[str] = sorted(experiment.labels or [])
    progress: float | None = experiment.progress
    print(f"experiment {experiment.id}: {experiment.name} {state} {labels} {progress}")
    for trial in experiment.iter_trials(order_by=client.OrderBy.DESCENDING):
        show_trial(trial)
    for checkpoint in experiment.list_checkpoints(max_results=3):
        names: list[str] = sorted(checkpoint.resources or {})
        print(f"checkpoint {checkpoint.uuid}: {checkpoint.state}, {names}")


def show_trial(trial: client.Trial) -> None:
    print(f"trial {trial.id} of {trial.experiment_id}: {trial.state}, {trial.hparams}")
    for line in trial.iter_logs(tail=2, min_level=client.LogLevel.WARNING):
        print(f"  {line.rstrip()}")
    for report in trial.iter_metrics("validation"):
        steps: int = report.steps_completed
        print(f"  {report.group} after {steps} batches: {report.metrics}")


def experiments() -> None:
    """Create an experiment, change it, list it and end it."""
    experiment = client.create_experiment(CONFIG, model_dir=None)
    experiment.pause()
    experiment.set_name("sdk tour, renamed")
    experiment.set_description("made by the tour")
    experiment.add_label("typed")
    experiment.reload()
    show_experiment(experiment)
    same: list[client.Experiment] = client.list_experiments(
        labels=["typed"],
        sort_by=client.ExperimentSortBy.ID,
        order_by=client.OrderBy.DESCENDING,
        name="sdk tour, renamed",
    )
    print(f"{len(same)} experiment with this name")
    experiment.kill()
    ended: client.ExperimentState = experiment.wait(interval=0.1)
    print(f"ended as {ended.name}")
    experiment.archive()
    experiment.unarchive()
    experiment.delete()


def models(name: str) -> None:
    """Create a model, change it, find it and delete it."""
    model = client.create_model(name, "of the tour", {"typed": True}, labels=["tour"])
    model.add_metadata({"steps": 3})
    model.set_labels(["tour", "typed"])
    found: client.Model = client.get_model(name)
    versions: list[client.ModelVersion] = list(found.list_versions())
    version: client.ModelVersion | None = found.get_version()
    print(f"model {found.name}: {found.metadata}, {len(versions)} versions, newest {version}")
    model.delete()


def workspaces(name: str) -> None:
    """Create a workspace with a project, and delete both."""
    workspace: client.Workspace = client.create_workspace(name)
    project: client.Project = workspace.create_project("tour", "of the tour")
    project.set_description("changed")
    names: list[str | None] = [p.name for p in workspace.list_projects()]
    print(f"workspace {workspace.name} with {names}")
    workspace.delete_project("tour")
    client.delete_workspace(name)


def main() -> int:
    me: client.User = client.whoami()
    print(f"signed in as {me.username}, administrator: {me.admin}")
    suffix = uuid.uuid4().hex[:8]
    experiments()
    models(f"tour-{suffix}")
    workspaces(f"tour-{suffix}")
    try:
        client.get_experiment(999_999_999)
    except errors.NotFoundException as e:
        print(f"status {e.status}: {e.message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
