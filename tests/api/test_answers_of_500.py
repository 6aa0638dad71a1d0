"""Odd numbers and deep nesting are mistakes of the caller; a key of one user is no other's; hosts keep their files."""

import json
import uuid
from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.db.engine.errors import QueryFailed
from det_controlplane.services.experiments import listing
from sqlalchemy import text

from tests.support.api import POOLS, Api, ApiResponse, Caller, config_of, create

LONG = "9" * 5_000


@pytest.mark.parametrize("number", ["²", "١٢", LONG, "99999999999999999999", "1_0", "+1"])
def test_rejects_non_numeric_ids_on_every_route(user: Caller, number: str) -> None:
    experiment = create(user)
    path = f"/api/v1/experiments/{experiment}"
    responses = [
        user.ask("GET", f"/api/v1/experiments/{number}"),
        user.ask("GET", f"/api/v1/trials/{number}"),
        user.ask("GET", "/api/v1/experiments", query={"limit": [number]}),
        user.ask("GET", f"/api/v1/models/{number}/versions"),
        user.ask("GET", "/api/v1/costs/experiments", query={"ids": [number]}),
        user.ask("POST", "/api/v1/experiments/continue", {"id": number}),
        user.ask("POST", f"{path}/move", {"destinationProjectId": number}),
        user.ask("GET", f"/api/v1/why/experiment/{number}"),
        user.ask("PUT", "/api/v1/budgets", {"scope": "experiment", "of": number, "limitUsd": "1"}),
    ]
    assert [
        response.status for response in responses if response.status not in (400, 403, 404)
    ] == []


def test_rejects_json_numbers_too_large_for_a_column(user: Caller) -> None:
    for number in (LONG, "1e300", str(2**64)):
        body = f'{{"id": {number}}}'.encode()
        assert user.ask("POST", "/api/v1/experiments/continue", body).status == 400


def test_filters_of_bulk_actions_with_odd_values_cause_no_server_error(user: Caller) -> None:
    create(user)
    odd: list[dict[str, Any]] = [
        {"labels": [[-0.0, True], 10**30]}, {"userIds": ["x"]}, {"excludedExperimentIds": [{}]}, {"states": [[]]},
    ]  # fmt: skip
    for filters in odd:
        body = {"experimentIds": [], "filters": filters}
        response = user.ask("POST", "/api/v1/projects/1/experiments/archive", body)
        assert response.status in (200, 400), filters


def test_rejects_times_outside_of_the_calendar(admin: Caller) -> None:
    for time in ("9999-12-31T23:59:59.999999-23:59", "0001-01-01T00:00:00+23:59"):
        for path in ("costs/users", "costs/pools"):
            response = admin.ask("GET", f"/api/v1/{path}", query={"before": [time]})
            assert response.status == 400, path
        assert admin.ask("GET", "/api/v1/audit", query={"since": [time]}).status == 400
    assert admin.ask("GET", "/api/v1/audit", query={"since": ["99999999999h"]}).status == 400


def test_rejects_source_of_a_missing_trial(user: Caller) -> None:
    for trial in (0, 99999):
        source = {"trialId": trial, "checkpointUuid": str(uuid.uuid4()), "trialSourceInfoType": "x"}
        response = user.ask("POST", "/api/v1/trial-source-info", {"trialSourceInfo": source})
        assert response.status == 404


@pytest.mark.parametrize("depth", [300, 900, 5_000, 100_000])
def test_rejects_deeply_nested_values(user: Caller, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    experiment = create(user)
    responses = [
        user.ask("PATCH", f"/api/v1/experiments/{experiment}", f'{{"labels": {nested}}}'.encode()),
        user.ask("POST", "/api/v1/templates/deep", f'{{"config": {{"data": {nested}}}}}'.encode()),
        user.ask("POST", "/task-logs", nested.encode()),
        user.ask("POST", "/api/v1/experiments", {"config": f"data: {nested}"}),
    ]
    assert [t.status for t in responses] == [400] * len(responses)


def submit(caller: Caller, key: str, **more: Any) -> ApiResponse:
    request = {"config": config_of(**more), "activate": False}
    raw = json.dumps(request).encode()
    return caller.ask("POST", "/api/v1/experiments", raw, headers={"idempotency-key": key})


def test_idempotency_key_applies_to_one_user_and_one_body(admin: Caller, user: Caller) -> None:
    def id_of(response: ApiResponse) -> int:
        return int(response.json()["experiment"]["id"])

    first = submit(user, "key")
    assert id_of(submit(user, "key")) == id_of(first)
    others = submit(user, "key", name="other"), submit(admin, "key")
    assert len({id_of(reported_response) for reported_response in (first, *others)}) == 3


def mounting(caller: Caller, path: str) -> ApiResponse:
    mounts = [{"host_path": path, "container_path": "/there"}]
    request = {"config": config_of(bind_mounts=mounts), "activate": False}
    return caller.ask("POST", "/api/v1/experiments", request)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/etc", "/etc/../etc/ssl", "/var/run/docker.sock", "/run", "/proc/1", "/dev"),
        # Programs that the machine runs as root, and their data.
        *("/usr", "/usr/local/bin", "/bin", "/sbin", "/lib", "/lib64", "/opt/determined/venv"),
        *("/var/lib/docker", "/var/lib/determined", "/var/spool/cron", "/var/log"),
        # Directories that contain one of these.
        *("/var", "/var/", "/opt", "/var/lib/../../var"),
    ],
)
def test_only_administrators_can_mount_system_files(admin: Caller, user: Caller, path: str) -> None:
    response = mounting(user, path)
    assert response.status == 400
    assert "bind_mounts[0].host_path" in response.error
    assert mounting(admin, path).status == 200


def test_users_can_mount_other_directories(user: Caller) -> None:
    for path in ("/data", "/dev/shm", "/home/ada", "/opt/data", "/var/tmp/data", "/usr2", "/mnt"):
        assert mounting(user, path).status == 200


def test_cluster_can_restrict_mounts_to_a_list(api: Api, admin: Caller, user: Caller) -> None:
    api.ctx.config = load_cluster(
        {
            "security": {"allowed_host_paths": ["/data"]},
            "checkpoint_storage": {"type": "shared_fs", "host_path": "/checkpoints"},
            "task_container_defaults": {
                "bind_mounts": [{"host_path": "/scratch", "container_path": "/scratch"}]
            },
            "resource_pools": [{"pool_name": name} for name in POOLS],
        }
    )
    assert mounting(user, "/data/sets").status == 200
    assert mounting(user, "/data/../home").status == 400
    assert mounting(user, "/database").status == 400
    own = {"checkpoint_storage": {"type": "shared_fs", "host_path": "/elsewhere"}}
    request = {"config": config_of(**own), "activate": False}
    assert user.ask("POST", "/api/v1/experiments", request).status == 400


@pytest.mark.parametrize("word", ["null", "Null", "NULL"])
def test_label_named_null_is_stored_as_text(api: Api, user: Caller, word: str) -> None:
    """The driver wrote the label without quotes into an array, where PostgreSQL takes it for NULL."""
    path = f"/api/v1/experiments/{create(user)}"
    assert user.done("PUT", f"{path}/labels/{word}")["labels"] == [word]
    assert user.done("PUT", f"{path}/labels/other")["labels"] == sorted([word, "other"])
    (experiment,) = user.get("/api/v1/experiments", labels=word)["experiments"]
    assert sorted(experiment["labels"]) == sorted([word, "other"])
    with api.ctx.db.begin() as tx:  # as earlier versions stored it
        tx.execute(text("UPDATE experiments SET labels = ARRAY[NULL, 'kept']"))
    assert user.done("DELETE", f"{path}/labels/other")["labels"] == ["kept"]


@pytest.mark.parametrize("depth", [900, 100_000])
def test_rejects_deeply_nested_json_within_a_string(user: Caller, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    body = {"requestId": str(uuid.uuid4()), "hyperparams": f'{{"a": {nested}}}'}
    operations = {"searcherOperations": [{"createTrial": body}]}
    own = user.get("/api/v1/me")["user"]["id"]
    responses = [
        user.ask("POST", f"/api/v1/experiments/{create(user)}/searcher_operations", operations),
        user.ask("POST", f"/api/v1/users/{own}/password", nested.encode()),
    ]
    assert [t.status for t in responses] == [400, 400]


def test_rejects_names_too_long_for_an_index(admin: Caller) -> None:
    """PostgreSQL's indexes hold 2,704 bytes of a name, packed; chance does not pack."""
    name = "".join(uuid.uuid4().hex for _ in range(400))
    user = {"user": {"username": name, "active": True}}
    responses = [
        admin.ask("POST", "/api/v1/models", {"name": name}),
        admin.ask("POST", f"/api/v1/templates/{name}", {"config": {}}),
        admin.ask("POST", "/api/v1/users", user),
        admin.ask("POST", "/api/v1/groups", {"name": name}),
    ]
    assert [t.status for t in responses] == [400] * len(responses)


HUGE = "1" + "0" * 400
LONG_NAME = {"x" * 600: {"y" * 600: 1}}


def unmanaged_trial(user: Caller, hparams: str) -> ApiResponse:
    request = {"config": config_of(), "unmanaged": True}
    experiment = user.post("/api/v1/experiments", request)["experiment"]["id"]
    body = f'{{"experimentId": {experiment}, "hparams": {hparams}}}'
    return user.ask("POST", "/api/v1/trials", body.encode())


def custom_trial(user: Caller, hparams: str) -> ApiResponse:
    searcher = {"name": "custom", "metric": "loss"}
    experiment = create(user, searcher=searcher)
    fields = {"requestId": str(uuid.uuid4()), "hyperparams": hparams}
    body = {"searcherOperations": [{"createTrial": fields}]}
    return user.ask("POST", f"/api/v1/experiments/{experiment}/searcher_operations", body)


def described(user: Caller, metadata: str) -> ApiResponse:
    (trial,) = user.get(f"/api/v1/experiments/{create(user)}/trials")["trials"]
    body = f'{{"metadata": {metadata}}}'.encode()
    return user.ask("POST", f"/api/v1/runs/{trial['id']}/metadata", body)


def submitted(user: Caller, hparams: str) -> ApiResponse:
    request = {"config": config_of(hyperparameters=json.loads(hparams)), "activate": False}
    return user.ask("POST", "/api/v1/experiments", request)


@pytest.mark.parametrize("told_of", [unmanaged_trial, custom_trial, described, submitted])
def test_rejects_metadata_and_hyperparameters_too_large_for_columns(
    user: Caller, told_of: Any
) -> None:
    """Tables of everybody that sort by it would fail, or have columns with names of kilobytes."""
    many = json.dumps({"inner": {str(n): n for n in range(20_000)}})
    assert told_of(user, f'{{"a": {{"lr": {HUGE}}}}}').status == 400
    assert told_of(user, json.dumps(LONG_NAME)).status == 400
    if told_of is not submitted:  # a configuration has a bound of its own
        assert told_of(user, many).status == 400
    assert told_of(user, '{"a": {"lr": 0.5, "n": 12}}').status == 200
    sort = {"sort": "hp.a.lr=desc,metadata.a.lr=asc", "limit": 10}
    assert user.ask("POST", "/api/v1/runs", sort).status == 200


@pytest.mark.parametrize("weight", ['"NaN"', '"Infinity"', "NaN", "1e300", HUGE, "0"])
def test_rejects_weights_unusable_for_shares(user: Caller, weight: str) -> None:
    path = f"/api/v1/experiments/{create(user)}"
    body = f'{{"resources": {{"weight": {weight}}}}}'.encode()
    assert user.ask("PATCH", path, body).status == 400
    user.done("PATCH", path, {"resources": {"weight": 2.5}})


def test_lock_timeout_returns_503_with_retry_after(
    user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is being built holds a lock of its table, for example the audit log."""

    def locked(*_: object) -> None:
        raise QueryFailed("55P03", "canceling statement due to lock timeout")

    monkeypatch.setattr(listing, "experiments", locked)
    answer = user.ask("GET", "/api/v1/experiments")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "lock timeout" in answer.error
