"""The output of `--json` has the keys that Determined's own client prints."""

import json
from typing import Any

from tests.cli.conftest import Det
from tests.support.api import Api, create, report_checkpoint


def output(det: Det, *words: object) -> Any:
    return json.loads(det(*words, "--json").out)


def test_models_have_determined_keys(api: Api, det: Det) -> None:
    document = output(det, "model", "create", "m")
    assert output(det, "model", "list") == [document]
    stored_document = output(det, "model", "describe", "m")
    names = {
        "archived",
        "creation_time",
        "description",
        "id",
        "last_updated_time",
        "metadata",
        "name",
    }
    assert names <= document.keys() & stored_document.keys()
    assert stored_document["version"] is None


def test_model_versions_have_determined_keys(api: Api, det: Det) -> None:
    owner = api.signed_in("determined")
    uuid = report_checkpoint(owner, create(owner))
    det("model", "create", "m")
    document = output(det, "model", "register-version", "m", uuid)["modelVersion"]
    assert (document["version"], document["checkpoint"]["uuid"]) == (1, uuid)
    listed_document = output(det, "model", "list-versions", "m")
    assert (listed_document["model"]["name"], listed_document["modelVersions"][0]["version"]) == (
        "m",
        1,
    )
    assert output(det, "model", "describe", "m")["version"]["version"] == 1


def test_tasks_have_determined_states_and_workspace_names(api: Api, det: Det) -> None:
    id = det("cmd", "run", "-d", "work").out.strip()
    (command,) = output(det, "cmd", "list")
    document = output(det, "cmd", "describe", id)
    for shown_command in (command, document):
        assert (shown_command["state"], shown_command["workspaceName"]) == (
            "QUEUED",
            "Uncategorized",
        )


def test_workloads_have_a_key_per_kind(api: Api, det: Det) -> None:
    owner = api.signed_in("determined")
    report_checkpoint(owner, create(owner))
    (workload,) = output(det, "trial", "describe", 1)["workloads"]
    assert (workload["training"], workload["validation"]) == (None, None)
    assert workload["checkpoint"]["state"] == "STATE_COMPLETED"


def test_usage_has_determined_keys(api: Api, det: Det) -> None:
    api.signed_in("determined")
    days = ("2026-01-01", "2026-01-02")
    assert output(det, "resources", "raw", *days) == {"resourceEntries": []}
    assert output(det, "resources", "aggregated", *days) == {"resourceEntries": []}
