"""Deleting checkpoints and some of their files, with the task that does it played by the test."""

import uuid
from typing import Any

import pytest
from det_controlplane.db.schema import tasks
from det_controlplane.db.trials import trials
from det_controlplane.services import sealing
from sqlalchemy import select

from tests.support.api import Api, Caller, create, create_ended, report_checkpoint, trial_of

FILES = {"state": "1", "code/": "0", "code/m.py": "7"}


@pytest.fixture
def experiment_id(user: Caller) -> int:
    return create_ended(user)


@pytest.fixture
def checkpoint(user: Caller, experiment_id: int) -> str:
    return report_checkpoint(user, experiment_id, 2, **FILES)


def shown(caller: Caller, checkpoint: str) -> tuple[str, dict[str, str]]:
    stored_checkpoint = caller.get(f"/api/v1/checkpoints/{checkpoint}")["checkpoint"]
    return stored_checkpoint["state"], stored_checkpoint["resources"]


def report_left(caller: Caller, checkpoint: str, **files: str) -> None:
    body = {"uuid": checkpoint, "resources": {"resources": files}}
    caller.done("PATCH", "/api/v1/checkpoints", {"checkpoints": [body]})


def collections(api: Api) -> list[Any]:
    """Return the orders of the tasks that are queued to delete files."""
    queued = select(tasks.c.config).where(tasks.c.kind == "CHECKPOINT_GC")
    with api.ctx.db.begin() as tx:
        return [c["_files"][0]["content"] for c in tx.execute(queued).scalars()]


@pytest.mark.parametrize("globs", [[], ["**/*.py"], ["**/*"]])
def test_removal_task_receives_the_requested_globs(
    api: Api, user: Caller, checkpoint: str, globs: list[str]
) -> None:
    body = {"checkpointUuids": [checkpoint], "checkpointGlobs": globs}
    user.post("/api/v1/checkpoints/rm", body)
    (work,) = collections(api)
    assert (work["checkpoints"], work["globs"]) == ([checkpoint], globs)


def test_removal_task_has_the_expected_name(
    user: Caller, experiment_id: int, checkpoint: str
) -> None:
    user.done("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]})
    (queued,) = user.get("/api/v1/tasks")["allocationIdToSummary"].values()
    assert queued["name"] == f"Checkpoint GC (Experiment {experiment_id})"
    (line,) = user.lines(f"/api/v1/tasks/{queued['taskId']}/logs")
    assert line["log"] == f"Scheduling {queued['name']} (id: {queued['allocationId']})"


def test_complete_checkpoint_does_not_change(user: Caller, checkpoint: str) -> None:
    report_left(user, checkpoint, **{**FILES, "metadata.json": "90"})
    assert shown(user, checkpoint) == ("STATE_COMPLETED", FILES)


def test_partially_deleted_checkpoint_lists_its_remaining_files(
    user: Caller, experiment_id: int, checkpoint: str
) -> None:
    report_left(user, checkpoint, state="1")
    assert shown(user, checkpoint) == ("STATE_PARTIALLY_DELETED", {"state": "1"})
    assert trial_of(user, experiment_id)["totalCheckpointSize"] == "1"


def test_deleted_checkpoint_still_lists_files_but_counts_no_bytes(
    user: Caller, experiment_id: int, checkpoint: str
) -> None:
    report_left(user, checkpoint)
    assert shown(user, checkpoint) == ("STATE_DELETED", FILES)
    assert trial_of(user, experiment_id)["totalCheckpointSize"] == "0"


def elsewhere(caller: Caller, experiment_id: int, steps: int) -> str:
    """Report a checkpoint in a storage that the training code chose."""
    storage = {"type": "directory", "container_path": "/elsewhere"}
    storage_id = caller.post("/api/v1/runs/start", {"runId": 1, "checkpointStorage": storage})
    report = {
        "uuid": str(uuid.uuid4()), "taskId": trial_of(caller, experiment_id)["taskId"],
        "resources": FILES, "metadata": {"steps_completed": steps}, **storage_id,
    }  # fmt: skip
    caller.post("/api/v1/checkpoints", report)
    return str(report["uuid"])


def places(api: Api) -> dict[str, list[str]]:
    """Return the checkpoints that are deleted from each storage."""
    return {work["storage"]["container_path"]: work["checkpoints"] for work in collections(api)}


def test_files_are_deleted_from_the_storage_chosen_by_the_code(
    api: Api, user: Caller, experiment_id: int, checkpoint: str
) -> None:
    both = [checkpoint, elsewhere(user, experiment_id, 3)]
    user.post("/api/v1/checkpoints/rm", {"checkpointUuids": both, "checkpointGlobs": ["state"]})
    assert places(api) == {str(api.checkpoints): both[:1], "/elsewhere": both[1:]}


def test_ended_experiment_deletes_checkpoints_from_each_storage(api: Api, user: Caller) -> None:
    experiment_id = create(user)
    here = [report_checkpoint(user, experiment_id, steps) for steps in (1, 3)]
    there = [elsewhere(user, experiment_id, steps) for steps in (2, 4)]
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    api.tick()
    assert places(api) == {str(api.checkpoints): here, "/elsewhere": there[:1]}
    names = user.get("/api/v1/tasks")["allocationIdToSummary"].values()
    assert {task["name"] for task in names} == {f"Checkpoint GC (Experiment {experiment_id})"}


def test_experiment_is_deleted_after_all_its_storages_are_cleared(
    api: Api, user: Caller, experiment_id: int
) -> None:
    api.tick()
    here, there = report_checkpoint(user, experiment_id), elsewhere(user, experiment_id, 3)
    user.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    api.tick()
    assert places(api) == {str(api.checkpoints): [here], "/elsewhere": [there]}
    assert all(work["delete_tensorboards"] for work in collections(api))
    report_left(user, here)
    report_left(user, there)
    first, second = (
        task["taskId"] for task in user.get("/api/v1/tasks")["allocationIdToSummary"].values()
    )
    end(api, first)
    assert user.ask("GET", f"/api/v1/experiments/{experiment_id}").status == 200
    end(api, second)
    assert user.ask("GET", f"/api/v1/experiments/{experiment_id}").status == 404


def end(api: Api, task_id: str) -> None:
    """End a task that deletes files, and continue the waiting effects."""
    with api.ctx.db.begin() as tx:
        trials.end_task(tx, task_id, api.ctx.now())
    api.retry_deletions()


def test_removal_task_mounts_only_the_directory_of_the_checkpoints(api: Api, user: Caller) -> None:
    mounts = [{"host_path": f"/mnt/{name}", "container_path": f"/{name}"} for name in ("a", "b")]
    storage = {"type": "directory", "container_path": "/a/checkpoints"}
    experiment_id = create(user, checkpoint_storage=storage, bind_mounts=mounts, activate=True)
    checkpoint = report_checkpoint(user, experiment_id, 2, **FILES)
    user.done("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]})
    queued = select(tasks.c.config).where(tasks.c.kind == "CHECKPOINT_GC")
    with api.ctx.db.begin() as tx:
        (config,) = tx.execute(queued).scalars()
    assert [mount["container_path"] for mount in config["bind_mounts"]] == ["/a"]


def test_removal_task_has_only_environment_variables_of_the_storage(api: Api, user: Caller) -> None:
    variables = [
        "PYTHONPATH=/mine", "LD_PRELOAD=/mine.so", "DET_PYTHON_EXECUTABLE=/mine/python", "AWS_REGION=eu-west-1",
        "https_proxy=http://proxy:3128", "AZURE_CLIENT_ID", "HOME",
    ]  # fmt: skip
    environment = {
        "image": "mine", "environment_variables": variables, "add_capabilities": ["SYS_PTRACE"], "ports": {"x": 1234},
    }  # fmt: skip
    experiment_id = create(user, environment=environment, activate=True)
    checkpoint = report_checkpoint(user, experiment_id, 2, **FILES)
    user.done("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]})
    with api.ctx.db.begin() as tx:
        task = select(tasks.c.config, tasks.c.sealed).where(tasks.c.kind == "CHECKPOINT_GC")
        ((config, sealed),) = tx.execute(task)
    own = sealing.unsealed(api.ctx, config, sealed)["environment"]
    kept_variables = ["AWS_REGION=eu-west-1", "https_proxy=http://proxy:3128", "AZURE_CLIENT_ID"]
    assert own["environment_variables"] == {
        "cpu": kept_variables,
        "cuda": kept_variables,
        "rocm": kept_variables,
    }
    assert own["image"]["cpu"] == "mine"
    assert own.keys() == {"image", "environment_variables", "force_pull_image"}
