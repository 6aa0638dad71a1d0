"""TensorBoards, with an agent that the test plays."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.adapters.aes_cipher import AesCipher
from sqlalchemy import text

from tests.support.api import Api, Caller, create, create_ended, trial_of
from tests.support.interactive import launch, somebody_else, start
from tests.support.played_agent import PlayedAgent

V = "/api/v1"


def test_tensorboard_reads_files_of_its_experiments(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    first, second = create(user), create(user, environment={"image": "newest"})
    trial = trial_of(user, first)["id"]
    body = {"experimentIds": [second], "trialIds": [trial], "config": {"tensorboard_args": ["--x"]}}
    answer = launch(user, "tensorboard", **body)
    tensorboard = answer["tensorboard"]
    assert (tensorboard["experimentIds"], tensorboard["trialIds"]) == ([second], [trial])
    assert answer["config"]["resources"]["slots"] == 0
    spec = start(api, agent)
    assert spec["image"] == "newest"
    (file,) = spec["files"]
    work = json.loads(base64.b64decode(file["content_b64"]))
    base = f"{api.ctx.cluster_id}/tensorboard/experiment"
    assert [(s["name"], s["path"]) for s in work["sources"]] == [
        (f"exp-{second}", f"{base}/{second}"),
        (f"exp-{first}/trial-{trial}", f"{base}/{first}/trial/{trial}"),
    ]
    assert work["args"] == ["--x"]
    assert work["sources"][0]["storage"]["container_path"] == str(api.checkpoints)
    assert 2600 <= int(spec["env"]["TENSORBOARD_PORT"]) < 2900


def test_tensorboard_mounts_shared_directory_read_only(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    storage = {"type": "shared_fs", "host_path": "/data/all", "storage_path": "mine"}
    api.ctx.config = replace(api.ctx.config, checkpoint_storage=storage)
    launch(user, "tensorboard", experimentIds=[create(user)])
    spec = start(api, agent)
    (mount,) = spec["mounts"]
    assert (mount["host_path"], mount["read_only"]) == ("/data/all", True)
    work = json.loads(base64.b64decode(spec["files"][0]["content_b64"]))
    stored_storage = work["sources"][0]["storage"]
    assert stored_storage == {
        "type": "directory",
        "container_path": f"{mount['container_path']}/mine",
    }


LOGIN = {"username": "ada", "password": "word-2"}
PRIVATE = {"image": "registry.example/private", "registry_auth": LOGIN}


def pulled_by(api: Api, agent: PlayedAgent, caller: Caller, **body: Any) -> tuple[str, Any]:
    """Launch a TensorBoard; return its image and the password that its agent gets for the image's registry."""
    launch(caller, "tensorboard", **body)
    spec = start(api, agent)
    return spec["image"], (spec["registry_auth"] or {}).get("password")


def test_image_of_an_experiment_is_pulled_with_its_registry_login(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    ids = [create(user, environment=PRIVATE)]
    assert pulled_by(api, agent, user, experimentIds=ids) == (PRIVATE["image"], "word-2")
    assert "word-2" not in json.dumps(user.get(f"{V}/tensorboards"))


def test_registry_login_is_used_only_for_the_image_of_its_experiment(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    own = {"environment": {"image": "elsewhere.example/own"}}
    ids = [create(user, environment=PRIVATE)]
    outcome = pulled_by(api, agent, user, experimentIds=ids, config=own)
    assert outcome == ("elsewhere.example/own", None)


def test_other_users_do_not_get_image_or_login_of_an_experiment(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    ids = [create(user, environment=PRIVATE)]
    image, password = pulled_by(api, agent, somebody_else(api, admin), experimentIds=ids)
    assert (image != PRIVATE["image"], password) == (True, None)


def test_tensorboard_starts_without_an_undecryptable_login(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    ids = [create(user, environment=PRIVATE)]
    api.ctx.cipher = AesCipher(["another key of the tests"])
    assert pulled_by(api, agent, user, experimentIds=ids) == (PRIVATE["image"], None)


def test_rejects_tensorboard_with_credentials_of_another_user(
    api: Api, user: Caller, admin: Caller
) -> None:
    other = somebody_else(api, admin)
    storage = {"type": "s3", "bucket": "b", "access_key": "k", "secret_key": "s"}
    id = create(user, checkpoint_storage=storage)
    response = other.ask("POST", f"{V}/tensorboards", {"config": {}, "experimentIds": [id]})
    assert (response.status, "credentials of its owner" in response.error) == (403, True)
    launch(user, "tensorboard", experimentIds=[id])
    api.ctx.config = replace(api.ctx.config, checkpoint_storage=storage)
    launch(other, "tensorboard", experimentIds=[id])


def test_only_the_container_receives_storage_credentials(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    storage = {"type": "s3", "bucket": "b", "access_key": "key-1", "secret_key": "word-1"}
    launch(user, "tensorboard", experimentIds=[create(user, checkpoint_storage=storage)])
    spec = start(api, agent)
    work = json.loads(base64.b64decode(spec["files"][0]["content_b64"]))
    assert work["sources"][0]["storage"]["secret_key"] == "word-1"
    with api.ctx.db.begin() as tx:
        configs = tx.execute(text("SELECT config::text FROM tasks WHERE kind = 'TENSORBOARD'"))
        assert "word-1" not in configs.scalar_one()
    id = spec["task_id"]
    for path in (f"tasks/{id}", f"tensorboards/{id}", "tensorboards"):
        assert "word-1" not in json.dumps(user.get(f"{V}/{path}"))
        assert "_files" not in json.dumps(user.get(f"{V}/{path}"))


def test_a_tensorboard_waits_for_metrics_and_then_runs(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "tensorboard", experimentIds=[create(user)])["tensorboard"]["id"]
    spec = start(api, agent)
    task = api.with_token(spec["session_token"])

    def state() -> str:
        return str(user.get(f"{V}/tensorboards/{id}")["tensorboard"]["state"])

    task.post(f"{V}/allocations/{spec['allocation_id']}/waiting")
    assert state() == "STATE_WAITING"
    task.post(f"{V}/allocations/{spec['allocation_id']}/ready")
    assert state() == "STATE_RUNNING"


def test_why_lists_experiments_without_metrics(api: Api, user: Caller, agent: PlayedAgent) -> None:
    first, second = create(user), create(user)
    trials = [trial_of(user, second)["id"]]
    response = launch(user, "tensorboard", experimentIds=[first], trialIds=trials)["tensorboard"]
    spec = start(api, agent)
    task = api.with_token(spec["session_token"])
    task.post(f"{V}/allocations/{spec['allocation_id']}/waiting")
    for kind, id in (("task", response["id"]), ("job", response["jobId"])):
        (reason,) = user.get(f"{V}/why/{kind}/{id}")["reasons"]
        assert (reason["state"], reason["code"]) == ("WAITING", "NO_METRICS")
        assert reason["sentence"] == (
            f"runs on a1 and has no metrics to show yet for experiment {first} (PAUSED),"
            f" experiment {second} (PAUSED); waiting for the first ones"
        )


@pytest.mark.parametrize("asked", ["experimentIds", "trialIds"])
def test_rejects_tensorboard_of_an_experiment_being_deleted(user: Caller, asked: str) -> None:
    staying, leaving = create(user, labels=["a"]), create_ended(user, labels=["a"])
    ids = [leaving] if asked == "experimentIds" else [trial_of(user, leaving)["id"]]
    user.done("DELETE", f"{V}/experiments/{leaving}")
    response = user.ask("POST", f"{V}/tensorboards", {"config": {}, asked: ids})
    assert (response.status, f"leave out experiment {leaving}" in response.error) == (400, True)
    answer = launch(user, "tensorboard", filters={"labels": ["a"]})["tensorboard"]
    assert answer["experimentIds"] == [staying]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 400, "at least one experiment or trial"),
        ({"experimentIds": [99]}, 404, "experiment 99"),
        ({"trialIds": [98]}, 404, "trial 98"),
        ({"experimentIds": ["x"]}, 400, "must be an integer"),
        ({"experimentIds": list(range(2000))}, 400, "1000"),
    ],
)
def test_rejects_tensorboard_without_experiments(
    user: Caller, body: Any, status: int, sentence: str
) -> None:
    response = user.ask("POST", f"{V}/tensorboards", {"config": {}, **body})
    assert (response.status, sentence in response.error) == (status, True), response.body


def test_tensorboard_selects_experiments_by_filters(user: Caller) -> None:
    wanted_experiment, _ = create(user, labels=["a"]), create(user)
    response = launch(user, "tensorboard", filters={"labels": ["a"]})["tensorboard"]
    assert response["experimentIds"] == [wanted_experiment]
