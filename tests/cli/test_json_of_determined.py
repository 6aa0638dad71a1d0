"""Hold the JSON that `--json` prints against the shape that Determined's own client prints."""

import json
from typing import Any

from tests.cli.conftest import Det
from tests.support.api import Api, create, report_checkpoint


def told(det: Det, *words: object) -> Any:
    return json.loads(det(*words, "--json").out)


def test_models_have_the_keys_of_determined_s_client(api: Api, det: Det) -> None:
    made = told(det, "model", "create", "m")
    assert told(det, "model", "list") == [made]
    shown = told(det, "model", "describe", "m")
    names = {
        "archived",
        "creation_time",
        "description",
        "id",
        "last_updated_time",
        "metadata",
        "name",
    }
    assert names <= made.keys() & shown.keys()
    assert shown["version"] is None


def test_versions_of_models_come_within_what_determined_s_client_prints(api: Api, det: Det) -> None:
    owner = api.signed_in("determined")
    uuid = report_checkpoint(owner, create(owner))
    det("model", "create", "m")
    made = told(det, "model", "register-version", "m", uuid)["modelVersion"]
    assert (made["version"], made["checkpoint"]["uuid"]) == (1, uuid)
    listed = told(det, "model", "list-versions", "m")
    assert (listed["model"]["name"], listed["modelVersions"][0]["version"]) == ("m", 1)
    assert told(det, "model", "describe", "m")["version"]["version"] == 1


def test_tasks_have_the_states_and_workspaces_that_determined_s_client_prints(
    api: Api, det: Det
) -> None:
    id = det("cmd", "run", "-d", "work").out.strip()
    (listed,) = told(det, "cmd", "list")
    described = told(det, "cmd", "describe", id)
    for shown in (listed, described):
        assert (shown["state"], shown["workspaceName"]) == ("QUEUED", "Uncategorized")


def test_workloads_of_a_trial_have_a_key_for_each_kind(api: Api, det: Det) -> None:
    owner = api.signed_in("determined")
    report_checkpoint(owner, create(owner))
    (workload,) = told(det, "trial", "describe", 1)["workloads"]
    assert (workload["training"], workload["validation"]) == (None, None)
    assert workload["checkpoint"]["state"] == "STATE_COMPLETED"


def test_usage_comes_within_what_determined_s_client_prints(api: Api, det: Det) -> None:
    api.signed_in("determined")
    days = ("2026-01-01", "2026-01-02")
    assert told(det, "resources", "raw", *days) == {"resourceEntries": []}
    assert told(det, "resources", "aggregated", *days) == {"resourceEntries": []}
