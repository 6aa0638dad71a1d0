"""Long texts, batches, states, labels, metadata and series of one task do not make answers to other users large."""

from typing import Any

import pytest
from det_controlplane.core.documents import MOST_BYTES, MOST_LABELS
from det_controlplane.db.trials import metric_streams, profiles
from det_controlplane.services.trials import metric_curves

from tests.support.api import (
    Api,
    Caller,
    config_of,
    create,
    report_checkpoint,
    report_metrics,
    trial_of,
)

MIB = 1 << 20
LONG = "x" * MIB
CURVES = "/api/v1/trials/time-series"


@pytest.fixture
def experiment_id(user: Caller) -> int:
    return create(user)


@pytest.fixture
def trial_id(user: Caller, experiment_id: int) -> int:
    return int(trial_of(user, experiment_id)["id"])


def report(caller: Caller, trial_id: int, group: str, steps: int, **values: Any) -> None:
    inner = {"trialId": trial_id, "trialRunId": 0, "stepsCompleted": steps, "metrics": values}
    caller.post(f"/api/v1/trials/{trial_id}/metrics", {"group": group, "metrics": inner})


def unmanaged_experiment(user: Caller) -> int:
    body = {"config": config_of(), "unmanaged": True}
    return int(user.post("/api/v1/experiments", body)["experiment"]["id"])


def test_listings_omit_long_values_of_reports(
    user: Caller, experiment_id: int, trial_id: int
) -> None:
    metrics = {"loss": 0.5, "short": "a text", "long": LONG, "list": list(range(9_000))}
    batches = [{"loss": n} for n in range(20_000)]
    for group in ("training", "validation"):
        report(user, trial_id, group, 2, avgMetrics=metrics, batchMetrics=batches)
    uuid = report_checkpoint(user, experiment_id)
    trials = user.ask("GET", f"/api/v1/experiments/{experiment_id}/trials")
    assert len(trials.body) < MIB // 10
    shown_metrics = {"loss": 0.5, "short": "a text", "long": None, "list": None}
    (trial,) = trials.json()["trials"]
    assert trial["latestValidation"]["metrics"] == {"avgMetrics": shown_metrics, "batchMetrics": []}
    assert trial["bestValidation"] == trial["latestValidation"]
    training = user.get(f"/api/v1/checkpoints/{uuid}")["checkpoint"]["training"]
    assert training["trainingMetrics"]["avgMetrics"] == shown_metrics
    assert training["validationMetrics"]["avgMetrics"] == shown_metrics
    path = f"/api/v1/trials/{trial_id}/workloads"
    workloads = user.get(path, includeBatchMetrics=True)["workloads"]
    stored_metrics = next(w["validation"]["metrics"] for w in workloads if "validation" in w)
    assert stored_metrics == {"avgMetrics": metrics, "batchMetrics": batches}, "nothing is lost"


def test_listings_show_the_batches_of_a_short_report(user: Caller, trial_id: int) -> None:
    batches = [{"loss": 0.25}]
    report(
        user,
        trial_id,
        "validation",
        2,
        avgMetrics={"loss": 0.5, "none": None},
        batchMetrics=batches,
    )
    metrics = user.get(f"/api/v1/trials/{trial_id}")["trial"]["latestValidation"]["metrics"]
    assert metrics == {"avgMetrics": {"loss": 0.5, "none": None}, "batchMetrics": batches}


def test_stream_sends_long_reports_in_parts(
    user: Caller, trial_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_streams, "PART_BYTES", 3_000)
    for step in range(1, 6):
        report(user, trial_id, "training", step, avgMetrics={"text": "x" * 1_000})
    lines = user.lines("/api/v1/trials/metrics/training_metrics", {"trialIds": [str(trial_id)]})
    assert [len(part["metrics"]) for part in lines] == [3, 2]
    assert [r["totalBatches"] for part in lines for r in part["metrics"]] == [1, 2, 3, 4, 5]


def test_reports_of_a_checkpoint_are_sent_in_parts(
    user: Caller, experiment_id: int, trial_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = report_checkpoint(user, experiment_id)
    source = {"trialId": trial_id, "checkpointUuid": uuid, "trialSourceInfoType": "X"}
    user.post("/api/v1/trial-source-info", {"trialSourceInfo": source})
    for step in (1, 2, 3):
        report(user, trial_id, "training", step, avgMetrics={"loss": step})
    path = f"/api/v1/checkpoints/{uuid}/metrics"
    whole = user.get(path)
    assert [r["totalBatches"] for r in whole["metrics"]] == [1, 2, 3]
    monkeypatch.setattr("det_controlplane.db.engine.pages.PART", 1)
    assert user.get(path) == whole


def test_curves_of_many_metrics_have_fewer_points(
    user: Caller, trial_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(1, 21):
        report(user, trial_id, "training", step, avgMetrics={"loss": 1.0, "text": "x" * 200})
    all_metrics, loss = {"trialIds": trial_id}, {"trialIds": trial_id, "metricNames": "loss"}

    def steps(query: dict[str, Any]) -> int:
        (curve,) = user.get(CURVES, group="training", **query)["trials"][0]["metrics"]
        assert curve["data"][0]["values"] in ({"loss": 1.0, "text": None}, {"loss": 1.0})
        return len(curve["data"])

    assert steps(all_metrics) == 20
    monkeypatch.setattr(metric_curves, "MOST_BYTES", 500)
    assert (steps(all_metrics), steps(loss)) == (5, 11)
    monkeypatch.setattr(metric_curves, "MOST_BYTES", 80)
    answer = user.ask("GET", CURVES, query={"trialIds": [str(trial_id)]})
    assert (answer.status, "ask for fewer trials" in answer.error) == (400, True)


def test_a_long_state_of_a_trial_is_shortened(user: Caller, trial_id: int) -> None:
    path = f"/api/v1/trials/{trial_id}/runner/metadata"
    assert user.ask("POST", path, {"state": LONG}).status == 200
    runner_state = user.get(f"/api/v1/trials/{trial_id}")["trial"]["runnerState"]
    assert runner_state == "x" * 500 + "…"


def test_metadata_and_hyperparameters_have_a_size_limit(user: Caller, trial_id: int) -> None:
    path = f"/api/v1/runs/{trial_id}/metadata"
    answer = user.ask("POST", path, {"metadata": {"text": "x" * MOST_BYTES}})
    assert answer.status == 400
    assert "262,144 are the most" in answer.error
    assert user.ask("POST", path, {"metadata": {"text": "x" * (MOST_BYTES - 20)}}).status == 200
    unmanaged = unmanaged_experiment(user)
    body = {"experimentId": unmanaged, "hparams": {"x" * 999: "y" * MOST_BYTES}}
    assert user.ask("POST", "/api/v1/trials", body).status == 400


def test_number_of_hyperparameter_and_metadata_columns_is_limited(user: Caller) -> None:
    """Twelve unmanaged trials have names of the maximum length; a small trial keeps its columns."""
    experiment_id = unmanaged_experiment(user)
    names = [{f"{n}-{m}-".ljust(900, "x"): 1 for m in range(280)} for n in range(12)]
    small: dict[str, Any] = {"lr": 0.1}
    for hparams in (small, *names):
        body = {"experimentId": experiment_id, "hparams": hparams}
        trial = user.post("/api/v1/trials", body)["trial"]["id"]
        user.post(f"/api/v1/runs/{trial}/metadata", {"metadata": {**hparams, "team": "a"}})
    columns = user.ask("GET", "/api/v1/projects/1/columns", query={"tableType": ["TABLE_TYPE_RUN"]})
    assert len(columns.body) < 1.5 * MIB
    listed = {column["column"] for column in columns.json()["columns"]}
    assert {"hp.lr", "metadata.lr", "metadata.team"} <= listed


def test_long_metadata_values_are_not_offered(user: Caller) -> None:
    experiment_id = unmanaged_experiment(user)
    for value in ("short", "x" * 1_001):
        body = {"experimentId": experiment_id, "hparams": {}}
        trial = user.post("/api/v1/trials", body)["trial"]["id"]
        user.post(f"/api/v1/runs/{trial}/metadata", {"metadata": {"team": value}})
    assert user.get("/api/v1/projects/1/metadata/team")["values"] == ["short"]


def test_labels_have_a_limit(api: Api, user: Caller, experiment_id: int) -> None:
    many, long = [f"l-{n}" for n in range(MOST_LABELS + 1)], ["x" * 201]
    path = f"/api/v1/experiments/{experiment_id}"
    for labels in (many, long):
        body = {"config": config_of(labels=labels)}
        assert user.ask("POST", "/api/v1/experiments", body).status == 400
        assert user.ask("PATCH", path, {"labels": labels}).status == 400
        assert user.ask("POST", "/api/v1/models", {"name": "m", "labels": labels}).status == 400
    user.done("PATCH", path, {"labels": many[1:]})
    answer = user.ask("PUT", f"{path}/labels/one-more")
    assert (answer.status, "100 are the most" in answer.error) == (400, True)
    assert len(user.done("DELETE", f"{path}/labels/l-7")["labels"]) == MOST_LABELS - 1


def test_number_of_listed_labels_is_limited(user: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("det_controlplane.db.experiments.experiments.MOST_LISTED_LABELS", 2)
    for n in range(3):
        create(user, labels=["used by all", f"l-{n}"])
    assert user.get("/api/v1/experiment/labels")["labels"] == ["used by all", "l-0"]


def test_profiler_series_have_a_limit(user: Caller, trial_id: int) -> None:
    many = {f"agent-{n:04}": {"cpu": 1.0} for n in range(profiles.MOST_SERIES // 2)}
    long = {"agent-0": {f"{n}-".ljust(900, "x"): 1.0 for n in range(300)}}
    for group in ("cpu", "memory", "disk"):
        report(user, trial_id, group, 1, avgMetrics={**many, "b": {group: 1.0}})
    report(user, trial_id, "network", 1, avgMetrics=long)
    answer = user.ask("GET", f"/api/v1/trials/{trial_id}/profiler/available_series")
    assert answer.body.count(b'"agentId"') <= profiles.MOST_SERIES
    assert b"xxxxxx" not in answer.body
    assert len(answer.body) < MIB
    labels = {"trialId": trial_id, "name": "x" * 201, "agentId": "a"}
    series = {"values": [1.0], "batches": [1], "timestamps": ["2026-11-20T10:00:00Z"]}
    body = {"batches": [{**series, "labels": labels}]}
    response = user.ask("POST", "/api/v1/trials/profiler/metrics", body)
    assert (response.status, "200 characters" in response.error) == (400, True)


def test_the_names_of_series_count_as_metric_names(user: Caller, trial_id: int) -> None:
    for n in range(3):
        names = {f"agent-{n}-{m}": {"cpu": 1.0} for m in range(900)}
        answer = report_metrics(user, trial_id, "cpu", n, names)
    assert "new names are stored up to 2,000 names" in answer.json()["warning"]
