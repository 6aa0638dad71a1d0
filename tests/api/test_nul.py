"""A NUL character, which PostgreSQL's text cannot hold, is the caller's mistake."""

import pytest

from tests.support.api import Caller, config_of, create, trial_of


@pytest.mark.parametrize(
    ("path", "query"),
    [("/api/v1/tasks/%00/logs", {}), ("/api/v1/experiments", {"name": ["a\0b"]})],
    ids=["path", "query"],
)
def test_rejects_nul_character_in_query(
    user: Caller, path: str, query: dict[str, list[str]]
) -> None:
    response = user.ask("GET", path, query=query)
    assert response.status == 400
    assert "must not contain a NUL character" in response.error


UNFIT = ["a\0b", "half \ud800 pair"]


@pytest.mark.parametrize("unfit", UNFIT, ids=["nul", "surrogate"])
def test_rejects_text_that_postgresql_cannot_store(user: Caller, unfit: str) -> None:
    answer = user.post("/api/v1/experiments", {"config": config_of(), "unmanaged": True})
    experiment_id = answer["experiment"]["id"]
    new = {"experimentId": experiment_id, "unmanaged": True}
    trial_id = user.post("/api/v1/trials", {**new, "hparams": {"lr": 1}})["trial"]["id"]
    of_trial = f"/api/v1/trials/{trial_id}"

    def metrics(group: str, values: dict[str, object]) -> dict[str, object]:
        report = {"trialRunId": 0, "stepsCompleted": 1, "metrics": {"avgMetrics": values}}
        return {"metrics": report, "group": group}

    responses = [
        user.ask("POST", f"{of_trial}/metrics", metrics(unfit, {"loss": 1})),
        user.ask("POST", f"{of_trial}/metrics", metrics("validation", {unfit: 1})),
        user.ask("POST", f"{of_trial}/metrics", metrics("training", {"note": unfit})),
        user.ask("POST", "/api/v1/trials", {**new, "hparams": {unfit: 1}}),
        user.ask("POST", "/api/v1/trials", {**new, "hparams": {"lr": unfit}}),
        user.ask("POST", f"{of_trial}/runner/metadata", {"state": unfit}),
        user.ask("PATCH", f"/api/v1/experiments/{experiment_id}", {"notes": unfit}),
        user.ask("POST", "/api/v1/auth/login", {"username": unfit, "password": unfit}),
    ]
    assert [response.status for response in responses if not 400 <= response.status < 500] == []
    assert user.get(of_trial)["trial"]["summaryMetrics"] == {}


def test_rejects_numbers_too_large_for_a_column(user: Caller) -> None:
    response = user.ask("POST", "/api/v1/trials", {"experimentId": 2**70, "unmanaged": True})
    assert response.status == 400
    assert "experimentId must be an integer of at most 64 bits" in response.error


def test_nul_bytes_in_log_lines_are_stored(user: Caller) -> None:
    task_id = trial_of(user, create(user))["taskId"]
    texts = ["a\0b\0", "half \ud800 pair", "plain"]
    user.post("/api/v1/task/logs", {"logs": [{"taskId": task_id, "log": x} for x in texts]})
    lines = user.lines(f"/api/v1/tasks/{task_id}/logs")
    assert [line["log"] for line in lines] == ["a\0b\0", "half \ufffd pair", "plain"]
    assert lines[0]["message"].endswith("|| a\0b\0\n")
