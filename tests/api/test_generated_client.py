"""A public generator makes a typed client from the OpenAPI 3 description, and a program uses the API through it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.openapi import description
from det_controlplane.api.openapi3 import openapi3

from tests.support.api import PASSWORD, Api, Caller, create, trial_of
from tests.support.peers import peer_python
from tests.support.served_api import served

# The environment of the generator has the libraries of the client, and no package of this repository.
PROGRAM = """
import json, sys
from client import AuthenticatedClient, Client
from client.api.auth import post_auth_login
from client.api.experiments import (
    get_experiments, get_experiments_experiment_id, get_experiments_experiment_id_trials, post_experiments,
    post_experiments_id_kill,
)
from client.api.me import get_me
from client.api.trials import get_trials_time_series
from client.models import Error, OneExperiment, PostAuthLoginBody, PostExperimentsBody, SignedIn

url, password, experiment_id = sys.argv[1], sys.argv[2], int(sys.argv[3])
refused = post_auth_login.sync(
    client=Client(url), body=PostAuthLoginBody(username="admin", password="wrong"))
assert isinstance(refused, Error), refused
signed_in = post_auth_login.sync(
    client=Client(url), body=PostAuthLoginBody(username="admin", password=password))
assert isinstance(signed_in, SignedIn), signed_in
api = AuthenticatedClient(url, token=signed_in.token)
config = json.dumps({
    "name": "generated", "entrypoint": "true",
    "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
    "checkpoint_storage": {"type": "shared_fs", "host_path": "/tmp"},
})
created = post_experiments.sync(client=api, body=PostExperimentsBody(config=config, activate=False))
names = [e.name for e in get_experiments.sync(client=api, limit=10).experiments]
(trial,) = get_experiments_experiment_id_trials.sync(experiment_id, client=api).trials
compared = get_trials_time_series.sync(
    client=api, trial_ids=[trial.id], metric_names=["loss"], group="validation")
(curve,) = compared.trials[0].metrics
post_experiments_id_kill.sync(created.experiment.id, client=api)
killed = get_experiments_experiment_id.sync(created.experiment.id, client=api)
assert isinstance(killed, OneExperiment), killed
print(json.dumps({
    "user": get_me.sync(client=api).user.username, "created": created.experiment.name, "listed": sorted(names),
    "points": [[p.batches, p.values.to_dict()] for p in curve.data], "state": killed.experiment.state,
}))
"""
# The routes that most programs use. A generated client has a model for each of their answers.
MAIN = ("agents", "auth/login", "checkpoints", "experiments", "job-queues", "me", "models", "projects",
        "trials", "users", "workspaces")  # fmt: skip


@pytest.fixture(scope="module")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate the client from the description. Return the folder above it."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_text(json.dumps(openapi3(description(routes.every()))))
    generator = Path(peer_python()).with_name("openapi-python-client")
    output = str(folder / "client")
    options = ["--path", str(document), "--output-path", output, "--meta", "none"]
    command = [str(generator), "generate", *options]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    # It formats the client with ruff, if that is installed.
    assert "WARNING" not in result.stdout.replace("ruff is not in PATH", ""), result.stdout
    return folder


def test_a_generated_client_creates_reads_and_kills(
    api: Api, admin: Caller, client_folder: Path
) -> None:
    experiment = create(admin, activate=True)
    trial = trial_of(admin, experiment)
    report = {"trialRunId": 1, "stepsCompleted": 2, "metrics": {"avgMetrics": {"loss": 0.5}}}
    admin.post(f"/api/v1/trials/{trial['id']}/metrics", {"group": "validation", "metrics": report})
    (client_folder / "program.py").write_text(PROGRAM)
    with served(api) as url:
        result = subprocess.run(
            [peer_python(), str(client_folder / "program.py"), url, PASSWORD, str(experiment)],
            env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "user": "admin",
        "created": "generated",
        "listed": sorted(
            ["generated", admin.get(f"/api/v1/experiments/{experiment}")["experiment"]["name"]]
        ),
        "points": [[2, {"loss": 0.5}]],
        "state": "STATE_CANCELED",
    }


def test_main_lists_and_objects_have_models() -> None:
    """A generator gives answers without a schema the type Any."""
    paths = openapi3(description(routes.every()))["paths"]
    wrong = []
    for place in MAIN:
        for path, operations in paths.items():
            name = path.removeprefix("/api/v1/")
            if name == place or (
                name.startswith(f"{place}/{{") and name.endswith("}") and name.count("/") == 1
            ):
                wrong += [f"{method} {name}" for method, operation in operations.items()
                          if method in ("get", "post") and "content" not in operation["responses"]["200"]]  # fmt: skip
    assert wrong == []


def test_openapi_3_has_no_words_of_swagger_2() -> None:
    document = openapi3(description(routes.every()))
    words = json.dumps(document)
    for word in ("#/definitions/", "x-nullable", "collectionFormat", '"in": "body"'):
        assert word not in words
    operations: list[dict[str, Any]] = [o for p in document["paths"].values() for o in p.values()]
    assert len(operations) == len({o["operationId"] for o in operations}) > 300


def test_the_api_serves_the_description_to_everyone(api: Api) -> None:

    served_document = Caller(api.app, "").done("GET", "/api/v1/openapi.json")
    assert served_document["openapi"] == "3.0.3"
    assert "/api/v1/openapi.json" in served_document["paths"]
