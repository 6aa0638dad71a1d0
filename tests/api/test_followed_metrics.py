"""The streams of measurements continue while their experiments run."""

import json
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.api.http import Request, Stream

from tests.support.api import Api, Caller, create, report_metrics, trial_of

LOSS = {"metricName": "loss", "group": "validation"}


class Follower:
    """Reads a stream as a host does; a minute passes before each look."""

    def __init__(self, api: Api, user: Caller, path: str, query: dict[str, Any]) -> None:
        self._api = api
        request = Request(
            "GET", f"/api/v1/experiments/{path}",
            query={name: [str(value)] for name, value in query.items()},
            headers={"authorization": f"Bearer {user.token}"},
        )  # fmt: skip
        answer = api.app.handle(request)
        assert isinstance(answer, Stream), answer
        self._stream, self._cursor, self.ended = answer, answer.cursor, False

    def look(self) -> list[dict[str, Any]]:
        now = self._api.ctx.now() + timedelta(minutes=1)
        self._api.ctx.now = lambda: now
        batch = self._stream.fetch(self._cursor)
        self._cursor, self.ended = batch.cursor, batch.done
        return [json.loads(text)["result"] for text in batch.lines]


@pytest.fixture
def experiment_id(user: Caller) -> int:
    return create(user)


@pytest.fixture
def trial_id(user: Caller, experiment_id: int) -> int:
    return int(trial_of(user, experiment_id)["id"])


def follow(api: Api, user: Caller, experiment_id: int, name: str, **query: Any) -> Follower:
    return Follower(api, user, f"{experiment_id}/metrics-stream/{name}", {**LOSS, **query})


def test_stream_sends_reported_steps_until_the_experiment_ends(
    api: Api, user: Caller, experiment_id: int, trial_id: int
) -> None:
    steps = follow(api, user, experiment_id, "batches")
    assert steps.look() == [{"batches": []}], "asked right after the submission"
    report_metrics(user, trial_id, "validation", 2, {"loss": 0.5})
    report_metrics(user, trial_id, "validation", 4, {"loss": 0.4})
    assert steps.look() == [{"batches": [2, 4]}]
    assert (steps.look(), steps.ended) == ([], False)
    report_metrics(user, trial_id, "validation", 6, {"loss": 0.3})
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    assert (steps.look(), steps.ended) == ([{"batches": [6]}], True)


def test_stream_of_an_ended_experiment_has_one_message(
    api: Api, user: Caller, experiment_id: int, trial_id: int
) -> None:
    report_metrics(user, trial_id, "validation", 2, {"loss": 0.5})
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    steps = follow(api, user, experiment_id, "batches")
    assert (steps.look(), steps.ended) == ([{"batches": [2]}], True)


def test_stream_with_once_has_one_message(
    api: Api, user: Caller, experiment_id: int, trial_id: int
) -> None:
    steps = follow(api, user, experiment_id, "batches", once="true")
    assert (steps.look(), steps.ended) == ([{"batches": []}], True)


def test_stream_ends_when_its_experiment_is_deleted(
    api: Api, user: Caller, experiment_id: int, trial_id: int
) -> None:
    steps = follow(api, user, experiment_id, "batches")
    steps.look()
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    user.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    assert (steps.look(), steps.ended) == ([], True)


def test_stream_sends_new_metric_names(
    api: Api, user: Caller, experiment_id: int, trial_id: int
) -> None:
    report_metrics(user, trial_id, "training", 1, {"loss": 0.5})
    names = Follower(api, user, "metrics-stream/metric-names", {"ids": experiment_id})
    (first,) = names.look()
    assert first["searcherMetrics"] == ["loss"]
    report_metrics(user, trial_id, "training", 2, {"loss": 0.5, "rate": 0.5})
    report_metrics(user, trial_id, "validation", 2, {"loss": 0.5})
    (second,) = names.look()
    assert (second["trainingMetrics"], second["validationMetrics"]) == (["rate"], ["loss"])
    report_metrics(user, trial_id, "validation", 3, {"loss": 0.5})
    assert names.look() == []


def test_stream_sends_changed_snapshots(
    api: Api, user: Caller, experiment_id: int, trial_id: int
) -> None:
    report_metrics(user, trial_id, "validation", 2, {"loss": 0.5})
    values = follow(
        api, user, experiment_id, "trials-snapshot", batchesProcessed=4, batchesMargin=2
    )
    assert [t["metric"] for t in values.look()[0]["trials"]] == [0.5]
    report_metrics(user, trial_id, "validation", 4, {"loss": 0.4})
    assert [t["metric"] for t in values.look()[0]["trials"]] == [0.4]
    report_metrics(user, trial_id, "validation", 8, {"loss": 0.3})
    assert values.look() == []


def test_stream_sends_points_of_best_trials_and_names_displaced_ones(
    api: Api, user: Caller
) -> None:
    searcher = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 9}}
    experiment_id = create(user, searcher=searcher)
    trials = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    first, second = sorted(int(trial["id"]) for trial in trials)
    report_metrics(user, first, "validation", 2, {"loss": 0.5})
    best = follow(api, user, experiment_id, "trials-sample", maxTrials=1)
    (message,) = best.look()
    assert (message["promotedTrials"], message["demotedTrials"]) == ([first], [])
    report_metrics(user, first, "validation", 4, {"loss": 0.4})
    (message,) = best.look()
    assert [p["batches"] for p in message["trials"][0]["data"]] == [4]
    assert (message["promotedTrials"], message["demotedTrials"]) == ([], [])
    report_metrics(user, second, "validation", 2, {"loss": 0.1})
    (message,) = best.look()
    assert (message["promotedTrials"], message["demotedTrials"]) == ([second], [first])
    assert [(t["trialId"], len(t["data"])) for t in message["trials"]] == [(second, 1)]
