"""Unused uploads are collected. A cluster that cannot write reports it."""

import base64
import hashlib
import uuid
from datetime import timedelta

import pytest
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.services.checkpoints import collection
from det_controlplane.services.code import model_definitions
from sqlalchemy import text

from tests.support.api import Api, Caller, config_of, create, create_ended, trial_of
from tests.support.played_agent import PlayedAgent

CONTENT = b"an archive"
FILE = {"path": "work.py", "type": 48, "content": "", "mtime": "1", "mode": 420, "uid": 0, "gid": 0}
_FULL = (
    """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$""",
    """CREATE TRIGGER full_disk BEFORE UPDATE ON cluster FOR EACH STATEMENT
    EXECUTE FUNCTION full_disk()""",
)


def announced(user: Caller) -> str:
    digest = hashlib.sha256(CONTENT).hexdigest()
    body = {"size": len(CONTENT), "sha256": digest}
    return str(user.post("/api/v1/contexts", body)["contextId"])


def contexts(api: Api) -> set[str]:
    with api.ctx.db.begin() as tx:
        return set(tx.execute(text("SELECT id::text FROM contexts")).scalars())


def clean_up(api: Api, days: float) -> None:
    later = api.ctx.now() + timedelta(days=days)
    api.ctx.now = lambda: later
    create_ended(api.signed_in("determined"))
    for _ in range(2):
        api.tick()


def test_interrupted_uploads_are_deleted(api: Api, user: Caller) -> None:

    create(user)
    context_ids = contexts(api)
    cut_off, whole = announced(user), announced(user)
    api.ctx.objects.put(f"contexts/{whole}.tar.gz", CONTENT)
    clean_up(api, 0.5)
    assert {cut_off, whole} <= contexts(api), "they may still be on their way"
    clean_up(api, 2)
    assert contexts(api) & {cut_off, whole} == set()
    assert context_ids <= contexts(api)
    assert api.ctx.objects.get(f"contexts/{whole}.tar.gz") is None


@pytest.fixture
def stored(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take any context for a large one; return the keys of their objects."""
    keys: list[str] = []
    put = api.ctx.objects.put

    def noting(key: str, content: bytes) -> None:
        put(key, content)
        keys.append(key)

    monkeypatch.setattr(model_definitions, "INLINE_LIMIT", 0)
    monkeypatch.setattr(api.ctx.objects, "put", noting)
    return keys


def test_large_context_of_a_rejected_launch_is_deleted(
    api: Api, user: Caller, stored: list[str]
) -> None:
    body = {"config": "entrypoint: [ls]\nresources: {slots: 0}\n", "contextDirectory": [FILE]}
    parent = user.post("/api/v1/generic-tasks", body)["taskId"]
    user.post(f"/api/v1/tasks/{parent}/kill", {"taskId": parent})
    response = user.ask("POST", "/api/v1/generic-tasks", {**body, "parentId": parent})
    assert (response.status, "can have no more children" in response.error) == (400, True)
    used, refused = stored
    clean_up(api, 2)
    assert api.ctx.objects.get(used) is not None
    assert api.ctx.objects.get(refused) is None


def test_unused_large_context_of_a_fork_is_deleted(
    api: Api, user: Caller, stored: list[str]
) -> None:
    body = {"config": config_of(), "modelDefinition": [FILE], "activate": False}
    parent = user.post("/api/v1/experiments", body)["experiment"]["id"]
    fork = user.post("/api/v1/experiments", {**body, "parentId": parent})["experiment"]["id"]
    own, others = stored
    clean_up(api, 2)
    assert api.ctx.objects.get(others) is None
    for id in (parent, fork):
        code = user.get(f"/api/v1/experiments/{id}/model_def")["b64Tgz"]
        assert base64.b64decode(code) == api.ctx.objects.get(own)


def test_cluster_with_a_full_disk_is_unhealthy(api: Api) -> None:
    assert api.anonymous().ask("GET", "/health").status == 200
    with api.ctx.db.begin() as tx:
        for statement in _FULL:
            tx.execute(text(statement))
    later = api.ctx.now() + timedelta(minutes=1)
    api.ctx.now = lambda: later
    response = api.anonymous().ask("GET", "/health")
    assert (response.status, response.json()["database"]) == (503, "down")


def test_request_failed_by_a_full_disk_makes_the_cluster_unhealthy(api: Api, user: Caller) -> None:
    with api.ctx.db.begin() as tx:
        tx.execute(text(_FULL[0]))
        tx.execute(text(_FULL[1].replace("UPDATE ON cluster", "INSERT ON experiments")))
    response = user.ask("POST", "/api/v1/experiments", {"config": config_of(), "activate": False})
    assert (response.status, "the disk of the database is full" in response.error) == (503, True)
    assert api.anonymous().ask("GET", "/health").status == 503
    later = api.ctx.now() + timedelta(minutes=2)
    api.ctx.now = lambda: later
    assert api.anonymous().ask("GET", "/health").status == 200


def upload(task: Caller, task_id: str, allocation: str, state: str = "ACTIVE") -> str:
    """Report a checkpoint as a container does: its announcement, or its completion."""
    checkpoint = str(uuid.uuid4())
    body = {
        "uuid": checkpoint,
        "taskId": task_id,
        "allocationId": allocation,
        "state": f"STATE_{state}",
    }
    whole = {"resources": {"a": "1"}, "metadata": {"steps_completed": 2}}
    task.post("/api/v1/checkpoints", body if state == "ACTIVE" else body | whole)
    return checkpoint


class Uploading:
    """A trial that runs on an agent and begins to upload checkpoints."""

    def __init__(self, api: Api, owner: Caller) -> None:
        self.api, self.owner = api, owner
        self.experiment = create(owner, activate=True)
        self.agent = PlayedAgent(api, "agent-of-uploads")
        self.agent.join()
        api.tick()
        (order,) = self.agent.poll()
        self.task = api.with_token(order["spec"]["session_token"])
        self.task_id = trial_of(owner, self.experiment)["taskId"]
        self.allocation = order["allocation_id"]

    def upload(self, state: str = "ACTIVE") -> str:
        return upload(self.task, self.task_id, self.allocation, state)

    def state(self, checkpoint: str) -> str:
        response = self.owner.get(f"/api/v1/checkpoints/{checkpoint}")
        return str(response["checkpoint"]["state"])

    def collections(self) -> list[list[str]]:
        """Return the checkpoints of every task that deletes files."""
        with self.api.ctx.db.begin() as tx:
            rows = tx.execute(
                text("SELECT config FROM tasks WHERE kind = 'CHECKPOINT_GC' ORDER BY started_at")
            )
            return [row.config["_files"][0]["content"]["checkpoints"] for row in rows]


@pytest.fixture
def uploading(api: Api, user: Caller) -> Uploading:
    return Uploading(api, user)


def test_checkpoints_of_interrupted_uploads_are_deleted(api: Api, uploading: Uploading) -> None:
    whole, cut_off = uploading.upload("COMPLETED"), uploading.upload()
    with api.ctx.db.begin() as tx:
        later = api.ctx.now() + timedelta(days=2)
        assert checkpoints.interrupted_uploads(tx, later, timedelta(0), 1, 1) == [], (
            "its allocation is still there"
        )
    uploading.owner.post(f"/api/v1/experiments/{uploading.experiment}/kill")
    uploading.agent.poll("terminated", exit_code=1)
    clean_up(api, 0.5)
    assert uploading.collections() == [], "an agent out of reach may still upload"
    clean_up(api, 2)
    assert uploading.collections() == [[cut_off]]
    clean_up(api, 2)
    assert uploading.collections() == [[cut_off]], "it is tried once at a time"
    assert uploading.state(whole) == "STATE_COMPLETED"


@pytest.mark.parametrize("ended", [False, True])
def test_early_collections_do_not_count_as_attempts(
    api: Api, uploading: Uploading, ended: bool
) -> None:
    cut_off, other = uploading.upload(), uuid.UUID(uploading.upload("COMPLETED"))

    def end() -> None:
        uploading.owner.post(f"/api/v1/experiments/{uploading.experiment}/kill")
        uploading.agent.poll("terminated", exit_code=1)

    if ended:
        end()
    with api.ctx.db.begin() as tx:
        experiment = checkpoints.owner(tx, uploading.experiment)
    assert experiment is not None
    for number in range(7):
        collection.launch(api.ctx, experiment, [other], key=f"cut off {number}")
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE tasks SET ended_at = started_at WHERE kind = 'CHECKPOINT_GC'"))
    if not ended:
        end()
    clean_up(api, 2)
    assert uploading.collections() == [[str(other)]] * 7 + [[cut_off]]


def test_checkpoint_row_without_files_is_marked(
    api: Api, admin: Caller, uploading: Uploading
) -> None:
    cut_off = uploading.upload()
    body = {"checkpoints": [{"uuid": cut_off, "resources": {"resources": {}}}]}
    admin.done("PATCH", "/api/v1/checkpoints", body)
    assert uploading.state(cut_off) == "STATE_DELETED"


def test_only_complete_checkpoints_are_listed(uploading: Uploading) -> None:
    checkpoint = uploading.upload()
    of_experiment = f"/api/v1/experiments/{uploading.experiment}/checkpoints"
    assert uploading.owner.get(of_experiment)["checkpoints"] == []
    response = uploading.owner.ask("GET", of_experiment, query={"states": ["STATE_ACTIVE"]})
    assert [c["uuid"] for c in response.json()["checkpoints"]] == [checkpoint]
    answer = uploading.owner.ask("GET", f"/checkpoints/{checkpoint}")
    assert (answer.status, "incomplete" in answer.error) == (400, True)
    uploading.task.post(
        "/api/v1/checkpoints",
        {
            "uuid": checkpoint, "taskId": uploading.task_id, "allocationId": uploading.allocation,
            "resources": {"a": "7"}, "metadata": {"steps_completed": 3}, "state": "STATE_COMPLETED",
        },
    )  # fmt: skip
    (listed_checkpoint,) = uploading.owner.get(of_experiment)["checkpoints"]
    assert (listed_checkpoint["uuid"], listed_checkpoint["resources"]) == (checkpoint, {"a": "7"})
    with uploading.api.ctx.db.begin() as tx:
        steps = text("SELECT steps_completed FROM checkpoints")
        assert tx.execute(steps).scalar() == 3


def test_rejects_deletion_of_a_checkpoint_during_its_upload(uploading: Uploading) -> None:
    checkpoint = uploading.upload()
    body = {"checkpointUuids": [checkpoint]}
    response = uploading.owner.ask("DELETE", "/api/v1/checkpoints", body)
    assert (response.status, "is being uploaded" in response.error) == (400, True)


def test_deleting_an_experiment_deletes_interrupted_uploads(uploading: Uploading) -> None:
    cut_off = uploading.upload()
    uploading.owner.post(f"/api/v1/experiments/{uploading.experiment}/kill")
    uploading.agent.poll("terminated", exit_code=1)
    uploading.owner.done("DELETE", f"/api/v1/experiments/{uploading.experiment}")
    uploading.api.tick()
    assert uploading.collections() == [[cut_off]]
