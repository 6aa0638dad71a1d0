"""Experiments with tokens for their own tasks only train on a whole cluster, and cannot reach other objects."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Layout, in_docker_on_demand, in_processes
from tests.support.cluster import Cluster

CODE = Path(__file__).parent / "boxed"
NARROW, WIDE = ({"det_token": word} for word in ("task", "owner"))


@pytest.fixture(scope="module")
def layout() -> Layout:
    """The cluster makes narrow tokens unless a configuration asks for others."""
    return Layout(agents=2, slots=1, task_defaults={"image": "det-test:latest", **NARROW})


@pytest.fixture(scope="module")
def other(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return objects of another experiment of the same user."""
    folder = tmp_path_factory.mktemp("other")
    config = folder / "other.yaml"
    config.write_text(
        "{name: other, entrypoint: 'true', searcher: {name: single, metric: loss}, max_restarts: 0}"
    )
    experiment = cluster.create(config, CODE)
    cluster.until_state(experiment, "COMPLETED", "ERROR")
    trial = cluster.trials(experiment)[0]
    return {"experiment": experiment, "trial": trial["id"], "task": trial["taskId"]}


def trained(
    cluster: Cluster, folder: Path, other: dict[str, Any], *options: str, **environment: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Train over both machines; return how requests for its own and for others were answered."""
    config = {
        "name": "boxed", "entrypoint": "python3 train.py", "max_restarts": 0, "environment": environment,
        "hyperparameters": {"other": other}, "searcher": {"name": "single", "metric": "loss"},
        "resources": {"slots_per_trial": 2},
    }  # fmt: skip
    path = folder / "boxed.yaml"
    path.write_text(yaml.safe_dump(config))
    experiment = cluster.create(path, CODE, *options)
    state = cluster.until_state(experiment, "COMPLETED", "ERROR")
    (trial,) = cluster.trials(experiment)
    log = cluster.logs(trial["id"])
    assert state == "COMPLETED", log
    assert (trial["checkpointCount"], trial["searcherMetricValue"]) == (1, 0.25)
    answers = (re.search(rf"{word}: (\{{.*\}})", log) for word in ("own", "others"))
    own, others = (json.loads(match[1]) for match in answers if match)
    return own, others


@in_docker_on_demand
def test_narrow_token_of_the_cluster_default_reaches_only_its_own_objects(
    cluster: Cluster, tmp_path: Path, other: dict[str, Any]
) -> None:
    own, others = trained(cluster, tmp_path, other)
    assert {path: status for path, status in own.items() if status != 200} == {}
    assert {path: status for path, status in others.items() if status != 403} == {}
    assert (len(own), len(others)) > (20, 20)


@in_processes
def test_wide_token_needs_a_configuration_and_a_workspace_policy_can_forbid_it(
    cluster: Cluster, tmp_path: Path, other: dict[str, Any]
) -> None:
    _, others = trained(cluster, tmp_path, other, **WIDE)
    assert others["GET api/v1/experiments"] == 200
    assert others["POST api/v1/tokens"] == 403
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"invariant_config": {"environment": NARROW}}))
    cluster.det("workspace", "create", "boxed")
    cluster.det("project", "create", "boxed", "work")
    demand = ("config-policies", "set", "experiment", policy, "-w", "boxed")
    result = cluster.run(*demand, environ={"DET_USER": "admin"})
    assert result.code == 0, result.err
    project = cluster.det("project", "describe", "boxed", "work", "--json").json()["id"]
    own, others = trained(cluster, tmp_path, other, "--project_id", str(project), **WIDE)
    assert set(own.values()) == {200}
    assert set(others.values()) == {403}
