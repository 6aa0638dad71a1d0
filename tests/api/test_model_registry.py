"""Models and their versions."""

import pytest

from tests.support.api import Api, Caller, create_ended, report_checkpoint


def test_model_is_returned_by_name_and_by_id(user: Caller) -> None:
    created_model = user.post(
        "/api/v1/models", {"name": "resnet", "labels": ["a"], "metadata": {"x": 1}}
    )
    by_name = user.get("/api/v1/models/resnet")["model"]
    assert by_name == user.get(f"/api/v1/models/{created_model['model']['id']}")["model"]
    assert by_name["metadata"] == {"x": 1}


def test_rejects_duplicate_model_name(user: Caller) -> None:
    user.post("/api/v1/models", {"name": "resnet"})
    response = user.ask("POST", "/api/v1/models", {"name": "resnet"})
    assert response.status == 409
    assert "resnet" in response.error


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\\b", "a  b", "123"])
def test_rejects_model_names_unusable_in_paths(user: Caller, name: str) -> None:
    assert user.ask("POST", "/api/v1/models", {"name": name}).status == 400


def test_model_versions_are_numbered_from_one(user: Caller) -> None:
    experiment_id = create_ended(user)
    user.post("/api/v1/models", {"name": "resnet"})
    for expected in (1, 2):
        uuid = report_checkpoint(user, experiment_id)
        model_version = user.post("/api/v1/models/resnet/versions", {"checkpointUuid": uuid})[
            "modelVersion"
        ]
        assert model_version["version"] == expected
        assert model_version["checkpoint"]["uuid"] == uuid
    response = user.get("/api/v1/models/resnet/versions")
    assert [v["version"] for v in response["modelVersions"]] == [1, 2]
    assert response["model"]["numVersions"] == 2


def test_registered_checkpoint_cannot_be_deleted_before_its_version(user: Caller) -> None:
    uuid = report_checkpoint(user, create_ended(user))
    user.post("/api/v1/models", {"name": "resnet"})
    user.post("/api/v1/models/resnet/versions", {"checkpointUuid": uuid})
    response = user.ask("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [uuid]})
    assert response.status == 400
    assert uuid in response.error
    user.done("DELETE", "/api/v1/models/resnet/versions/1")
    user.done("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [uuid]})


def test_archived_model_rejects_versions(user: Caller) -> None:
    uuid = report_checkpoint(user, create_ended(user))
    user.post("/api/v1/models", {"name": "resnet"})
    user.post("/api/v1/models/resnet/archive")
    response = user.ask("POST", "/api/v1/models/resnet/versions", {"checkpointUuid": uuid})
    assert response.status == 400
    assert "archived" in response.error


def test_only_its_owner_or_an_administrator_deletes_a_model(
    api: Api, admin: Caller, user: Caller
) -> None:
    admin.post("/api/v1/models", {"name": "resnet"})
    assert user.ask("DELETE", "/api/v1/models/resnet").status == 403
    admin.done("DELETE", "/api/v1/models/resnet")
    assert user.ask("GET", "/api/v1/models/resnet").status == 404


def test_metrics_of_trials_using_a_version_are_returned(user: Caller) -> None:
    first, second = create_ended(user), create_ended(user)
    uuid = report_checkpoint(user, first)
    user.post("/api/v1/models", {"name": "resnet"})
    version = user.post("/api/v1/models/resnet/versions", {"checkpointUuid": uuid})["modelVersion"]
    trial = user.get(f"/api/v1/experiments/{second}/trials")["trials"][0]["id"]
    source = {
        "trialId": trial, "checkpointUuid": uuid, "modelId": version["model"]["id"], "modelVersion": 1,
        "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE",
    }  # fmt: skip
    user.post("/api/v1/trial-source-info", {"trialSourceInfo": source})
    inner = {
        "trialId": trial,
        "trialRunId": 0,
        "stepsCompleted": 1,
        "metrics": {"avgMetrics": {"f1": 1}},
    }
    user.post(f"/api/v1/trials/{trial}/metrics", {"group": "inference", "metrics": inner})
    for path in ("/api/v1/models/resnet/versions/1/metrics", f"/api/v1/checkpoints/{uuid}/metrics"):
        (report,) = user.get(path)["metrics"]
        assert report["trialId"] == trial
        assert report["group"] == "inference"
