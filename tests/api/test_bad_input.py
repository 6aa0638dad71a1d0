"""Bad input gets a status and a sentence with the field or id and the fix. It never leaves incomplete rows."""

import base64
import gzip
import uuid
from typing import Any

import pytest
from det_controlplane.api.http import FORM_BODY, MAX_BODY

from tests.support.api import (
    BOOTSTRAP,
    Api,
    Caller,
    config_of,
    create,
    create_ended,
    report_metrics,
    trial_of,
)

E = "/api/v1/experiments"
NOBODY = str(uuid.UUID(int=1))


def file_of(path: str, content: bytes = b"x", **more: Any) -> dict[str, Any]:
    text = base64.b64encode(content).decode()
    return {"path": path, "type": 48, "content": text, "mtime": "1", "mode": 420, **more}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("a: [1, 2", "YAML"),
        ("- a\n- list", "mapping"),
        (config_of(serchar={}), "serchar"),
        (config_of(max_restarts="many"), "max_restarts"),
        (config_of(searcher={"name": "single"}), "searcher.metric"),
        (config_of(entrypoint=None), "entrypoint"),
        (config_of(resources={"slots_per_trial": -1}), "resources.slots_per_trial"),
        (config_of(resources={"resource_pool": "gpu"}), "default, reserved"),
        (config_of(checkpoint_storage={"type": "floppy"}), "checkpoint_storage"),
    ],
    ids=["yaml", "list", "unknown", "type", "missing", "entrypoint", "negative", "pool", "storage"],
)
def test_error_names_the_wrong_field_of_a_configuration(
    reader: Caller, config: str, named: str
) -> None:
    response = reader.ask("POST", E, {"config": config})
    assert response.status == 400
    assert named in response.error
    assert reader.get(E)["experiments"] == []


def test_error_for_a_too_large_id_shows_the_id(reader: Caller) -> None:
    response = reader.ask("GET", f"{E}/99999999999")
    assert response.status == 400
    assert "must be a number of at most 9 digits, not 99999999999" in response.error


@pytest.mark.parametrize("path", ["../up.py", "/etc/passwd", "a/../../b", "", "nul\0byte"])
def test_rejects_files_outside_of_the_archive(reader: Caller, path: str) -> None:
    response = reader.ask("POST", E, {"config": config_of(), "modelDefinition": [file_of(path)]})
    assert response.status == 400
    assert reader.get(E)["experiments"] == []


def test_error_names_the_file_that_is_not_base64(reader: Caller) -> None:
    file = file_of("train.py") | {"content": "***"}
    response = reader.ask("POST", E, {"config": config_of(), "modelDefinition": [file]})
    assert response.status == 400
    assert "train.py" in response.error


def test_error_explains_a_missing_upload(user: Caller) -> None:
    answer = user.post("/api/v1/contexts", {"size": 10, "sha256": "0" * 64})
    response = user.ask("POST", E, {"config": config_of(), "contextId": answer["contextId"]})
    assert response.status == 400
    assert "PUT it" in response.error


def test_rejects_announced_upload_above_the_limit(reader: Caller) -> None:
    response = reader.ask("POST", "/api/v1/contexts", {"size": 1 << 30, "sha256": "0" * 64})
    assert response.status == 413
    assert ".detignore" in response.error


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{E}/999"),
        ("PATCH", f"{E}/999"),
        ("DELETE", f"{E}/999"),
        ("POST", f"{E}/999/pause"),
        ("GET", f"{E}/999/trials"),
        ("GET", f"{E}/999/checkpoints"),
        ("GET", f"{E}/999/file_tree"),
        ("GET", "/experiments/999/model_def"),
        ("GET", "/experiments/999/preview_gc"),
        ("GET", "/api/v1/trials/999"),
        ("POST", "/api/v1/trials/999/kill"),
        ("GET", "/api/v1/trials/999/logs"),
        ("GET", f"/api/v1/checkpoints/{NOBODY}"),
        ("GET", f"/checkpoints/{NOBODY}"),
        ("GET", "/api/v1/checkpoints/not-a-uuid"),
        ("GET", "/api/v1/tasks/999"),
        ("GET", "/api/v1/agents/999"),
        ("GET", "/api/v1/users/999"),
        ("GET", "/api/v1/users/999/by-username"),
        ("GET", "/api/v1/groups/999"),
        ("GET", "/api/v1/workspaces/999"),
        ("GET", "/api/v1/workspaces/999/projects"),
        ("GET", "/api/v1/projects/999"),
        ("GET", "/api/v1/projects/key/999"),
        ("GET", "/api/v1/models/999"),
        ("GET", "/api/v1/models/999/versions"),
        ("GET", "/api/v1/templates/999"),
        ("GET", "/api/v1/notebooks/999"),
        ("GET", "/api/v1/trials/by-external-id/a/999"),
        ("GET", "/api/v1/config-policies/workspaces/999/experiment"),
    ],
)
def test_unknown_ids_are_not_found(reader: Caller, method: str, path: str) -> None:
    response = reader.ask(method, path)
    assert response.status == 404, response.body
    shown_id = next(x for x in (NOBODY, "not-a-uuid", "999") if x in path)
    assert shown_id in response.error
    assert response.json()["error"]["code"] == 5


@pytest.mark.parametrize("path", [f"{E}/abc", f"{E}/-1", f"{E}/99999999999999"])
def test_rejects_ids_that_are_not_numbers(reader: Caller, path: str) -> None:
    assert reader.ask("GET", path).status == 400


@pytest.mark.parametrize("token", ["", "forged", "a" * 4000])
def test_requests_without_a_valid_token_are_rejected(shared_api: Api, token: str) -> None:
    for path in (
        "/api/v1/me",
        E,
        "/api/v1/users",
        "/experiments/1/model_def",
        f"/checkpoints/{NOBODY}",
    ):
        response = shared_api.with_token(token).ask("GET", path)
        assert response.status == 401
        assert "sign in" in response.error


def test_rejects_expired_token(api: Api, user: Caller) -> None:
    from datetime import timedelta

    later = api.ctx.now() + timedelta(days=8)
    api.ctx.now = lambda: later
    response = user.ask("GET", "/api/v1/me")
    assert response.status == 401
    assert "expired" in response.error


def test_only_listed_routes_are_public(shared_api: Api) -> None:
    from det_controlplane.api import routes
    from det_controlplane.api.router import Access

    open_paths = {r.path for r in routes.every() if r.access is Access.PUBLIC}
    assert open_paths == {
        "/info", "/health", "/", "/api/v1/master", "/api/v1/master/telemetry", "/api/v1/auth/login",
        "/api/v1/auth/pipeline", "/api/v1/api.swagger.json", "/api/v1/openapi.json", "/agents/v1/join",
        "/api/v1/auth/oidc/providers",
        "/agents/v1/wheel", "/agents/v1/wheel/{name}", "/proxy/{service}/{path...}",
        "/api/v1/auth/oidc/begin", "/api/v1/auth/oidc/finish", "/api/v1/auth/oidc/device/begin",
        "/api/v1/auth/oidc/device/finish",
    }  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [b"{", b"[1]", b'"text"', b"\xff\xfe", b"nul"],
    ids=["cut", "list", "text", "bytes", "word"],
)
def test_rejects_body_that_is_not_an_object(reader: Caller, body: bytes) -> None:
    response = reader.ask("POST", E, body)
    assert response.status == 400
    assert "body" in response.error


def test_rejects_invalid_gzip_body(reader: Caller) -> None:
    response = reader.ask("POST", E, b"plain", headers={"content-encoding": "gzip"})
    assert response.status == 400
    compressed = gzip.compress(b'{"config": ""}')
    response = reader.ask("POST", E, compressed, headers={"content-encoding": "gzip"})
    assert "config" in response.error


def test_rejects_small_body_that_unpacks_to_a_large_one(reader: Caller) -> None:
    compressed = gzip.compress(bytes(MAX_BODY + 1), compresslevel=1)
    response = reader.ask("POST", E, compressed, headers={"content-encoding": "gzip"})
    assert response.status == 413
    assert "130 MiB" in response.error


@pytest.mark.parametrize("packed", [False, True])
def test_rejects_body_above_the_limit_of_its_route(reader: Caller, packed: bool) -> None:
    body = b'{"config": "%s"}' % (b"x" * FORM_BODY)
    headers = {"content-encoding": "gzip"} if packed else {}
    compressed = gzip.compress(body) if packed else body
    response = reader.ask("POST", "/api/v1/templates/large", compressed, headers=headers)
    assert response.status == 413
    assert "more than 1 MiB" in response.error or "larger than 1 MiB" in response.error


@pytest.mark.parametrize("body", [b'{"config": "\xed\xa0\x80"}', b"[" * 100_000])
def test_rejects_body_that_is_not_text_or_too_deep(reader: Caller, body: bytes) -> None:
    response = reader.ask("POST", E, body)
    assert response.status == 400
    assert "JSON" in response.error


def many(values: int) -> dict[str, bytes]:
    """Return bodies of more than a megabyte that would be read as many values each."""
    return {
        "lists": b'{"config":"x","modelDefinition":[' + b"[]," * values + b"[]]}",
        "texts": b'{"config":"x","modelDefinition":[' + b'"",' * values + b'""]}',
        "hidden": b'{"config":"\\\\","modelDefinition":[' + b"{}," * values + b'{}],"a":"\\""}',
        "packed": gzip.compress(b'{"config":"x","a":[' + b"1.5," * values + b"1]}"),
    }


@pytest.mark.parametrize("kind", ["lists", "texts", "hidden", "packed"])
def test_rejects_body_with_too_many_values_before_parsing(reader: Caller, kind: str) -> None:
    """Each takes a hundred bytes of memory and more, from three of the body."""
    headers = {"content-encoding": "gzip"} if kind == "packed" else {}
    response = reader.ask("POST", E, many(600_000)[kind], headers=headers)
    assert (response.status, "more than 500000 values" in response.error) == (413, True)
    few = reader.ask("POST", E, many(400)[kind], headers=headers)
    assert few.status == 400


def test_punctuation_in_strings_does_not_count_as_values(api: Api, user: Caller) -> None:
    """Lines of a log may be full of commas, and of quotes."""
    task = trial_of(user, create(user))["taskId"]
    line = {"taskId": task, "log": '1,[2],{"3":4},\\,' * 4000}
    user.post("/api/v1/task/logs", {"logs": [line] * 60})


def test_very_long_lists_are_accepted_or_rejected(admin: Caller) -> None:
    response = admin.ask("POST", "/api/v1/roles/search/by-ids", {"roleIds": [4] * 70_000})
    assert [role["role"]["name"] for role in response.json()["roles"]] == ["Viewer"]
    many: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/api/v1/checkpoints/rm", {"checkpointUuids": [NOBODY] * 10_001}),
        ("PATCH", "/api/v1/checkpoints", {"checkpoints": [{"uuid": NOBODY}] * 10_001}),
        ("POST", "/api/v1/runs/kill", {"runIds": list(range(10_001)), "projectId": 1}),
    ]
    for method, path, body in many:
        answer = admin.ask(method, path, body)
        assert (answer.status, "more than 10000 entries" in answer.error) == (400, True)


def test_fields_of_the_wrong_type_are_named(reader: Caller) -> None:
    response = reader.ask("POST", E, {"config": {"name": "x"}})
    assert (response.status, "config" in response.error) == (400, True)
    response = reader.ask("POST", "/api/v1/workspaces", {"name": 7})
    assert (response.status, "name" in response.error) == (400, True)


@pytest.mark.parametrize(
    "query", [{"limit": ["-3"]}, {"limit": ["many"]}, {"sortBy": ["SORT_BY_COLOR"]}]
)
def test_listings_reject_invalid_parameters(reader: Caller, query: dict[str, list[str]]) -> None:
    response = reader.ask("GET", E, query=query)
    assert response.status == 400
    assert next(iter(query)) in response.error


def test_missing_path_returns_404_and_wrong_method_501(reader: Caller) -> None:
    assert reader.ask("GET", "/api/v1/wishes").status == 404
    response = reader.ask("PUT", "/api/v1/me")
    assert response.status == 501
    assert "GET" in response.error


def join(api: Api, key: str) -> Any:
    return api.anonymous().ask(
        "POST",
        "/agents/v1/join",
        {
            "agent_id": "a1", "agent_key": key, "incarnation": str(uuid.uuid4()), "pool": "default",
            "slots": [{"id": 0, "type": "cpu"}], "proof": {"kind": "bootstrap_token", "token": BOOTSTRAP},
        },
    )  # fmt: skip


def test_rejects_second_agent_with_the_same_id(api: Api) -> None:
    assert join(api, "first").status == 200
    response = join(api, "second")
    assert response.status == 409
    assert "a1" in response.error
    assert join(api, "first").status == 200


def test_rejects_polls_of_a_replaced_agent_process(api: Api) -> None:
    first = join(api, "same").json()["agent_token"]
    join(api, "same")
    assert polled(api.with_token(first), str(uuid.uuid4())).status == 401


def test_rejects_poll_with_a_token_of_another_agent_process(api: Api) -> None:
    token = join(api, "same").json()["agent_token"]
    response = polled(api.with_token(token), str(uuid.uuid4()))
    assert response.status == 409
    assert "agent a1" in response.error


def test_only_agents_can_poll(api: Api, user: Caller) -> None:
    incarnation = str(uuid.uuid4())
    for caller in (user, api.anonymous(), api.with_token("agent-nobody")):
        assert polled(caller, incarnation).status == 401
    assert "for agents" in polled(user, incarnation).error


def polled(caller: Caller, incarnation: str) -> Any:
    return caller.ask("POST", "/agents/v1/poll", {"incarnation": incarnation, "containers": []})


def test_rejects_report_of_a_replaced_run(user: Caller) -> None:
    experiment_id = create(user, activate=True)
    trial = trial_of(user, experiment_id)
    response = report_metrics(user, trial["id"], "training", 1, {"loss": 1}, run=0)
    assert response.status == 400
    assert "replaced" in response.error


def test_rejects_contradictory_metrics_of_one_step(user: Caller) -> None:
    trial_id = trial_of(user, create(user))["id"]
    report_metrics(user, trial_id, "training", 1, {"loss": 1})
    assert report_metrics(user, trial_id, "training", 1, {"loss": 1}).status == 200
    response = report_metrics(user, trial_id, "training", 1, {"loss": 2})
    assert response.status == 400
    assert "loss" in response.error
    assert report_metrics(user, trial_id, "a.b", 1, {"loss": 2}).status == 400


def test_rejects_long_metric_name(user: Caller) -> None:
    trial_id = trial_of(user, create(user))["id"]
    answer = report_metrics(user, trial_id, "training", 1, {"x" * 1001: 1.0})
    assert (answer.status, "at most" in answer.error) == (400, True)


def test_repeated_creation_with_the_same_key_returns_the_experiment(user: Caller) -> None:
    headers = {"idempotency-key": "from this submission"}
    ids = [
        user.ask("POST", E, {"config": config_of()}, headers=headers).json()["experiment"]["id"]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]
    assert len(user.get(E)["experiments"]) == 1


@pytest.mark.parametrize("command", ["kill", "cancel", "archive", "unarchive"])
def test_commands_can_be_repeated(user: Caller, command: str) -> None:
    experiment_id = create_ended(user)
    for _ in range(2):
        user.post(f"{E}/{experiment_id}/{command}")


@pytest.mark.parametrize(
    ("path", "query"),
    [("/api/v1/tasks/%00/logs", {}), (E, {"name": "a\0b"})],
    ids=["path", "query"],
)
def test_rejects_nul_character(user: Caller, path: str, query: dict[str, str]) -> None:
    response = user.ask("GET", path, query=query)
    assert response.status == 400
    assert "must not contain a NUL character" in response.error
