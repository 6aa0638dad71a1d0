"""Series of profilers: reported as metrics by harnesses of today, posted by older ones, read back alike."""

from typing import Any

import pytest

from tests.support.api import Caller, create, trial_of

KIND = "PROFILER_METRIC_TYPE_"


@pytest.fixture
def trial_id(user: Caller) -> int:
    stored_trial_id: int = trial_of(user, create(user))["id"]
    return stored_trial_id


def sample(caller: Caller, trial_id: int, group: str, metrics: dict[str, Any]) -> None:
    """Report samples like a present harness, without a step."""
    values = {"trialId": trial_id, "trialRunId": 0, "metrics": {"avgMetrics": metrics}}
    body = {"group": group, "metrics": values}
    caller.post(f"/api/v1/trials/{trial_id}/metrics", body)


def batch(trial_id: int, name: str, values: list[Any], **more: Any) -> dict[str, Any]:
    labels = {"trialId": trial_id, "name": name, "agentId": "a1", **more}
    times = [f"2026-11-20T10:00:{i:02}Z" for i in range(len(values))]
    batches = list(range(1, len(values) + 1))
    return {"values": values, "batches": batches, "timestamps": times, "labels": labels}


def names(caller: Caller, trial_id: int) -> list[tuple[str, str, str, str]]:
    (message,) = caller.lines(f"/api/v1/trials/{trial_id}/profiler/available_series")
    return [
        (s["metricType"].removeprefix(KIND), s["name"], s["agentId"], s["gpuUuid"])
        for s in message["labels"]
    ]


def series(caller: Caller, trial_id: int, **labels: str) -> list[dict[str, Any]]:
    filters = {f"labels.{name}": [value] for name, value in labels.items()}
    lines = caller.lines(f"/api/v1/trials/{trial_id}/profiler/metrics", filters)
    return [message["batch"] for message in lines]


def test_machine_and_gpu_samples_form_series(user: Caller, trial_id: int) -> None:
    for util in (0.25, 0.75):
        sample(
            user, trial_id, "cpu", {"a1": {"cpu_util_simple": util}, "a2": {"cpu_util_simple": 1}}
        )
        sample(
            user, trial_id, "gpu", {"a1": {"GPU-1": {"gpu_util": util}, "GPU-2": {"gpu_util": 0}}}
        )
    sample(user, trial_id, "other", {"a1": {"unseen": 1}})
    assert names(user, trial_id) == [
        ("SYSTEM", "cpu_util_simple", "a1", ""), ("SYSTEM", "cpu_util_simple", "a2", ""),
        ("SYSTEM", "gpu_util", "a1", "GPU-1"), ("SYSTEM", "gpu_util", "a1", "GPU-2"),
    ]  # fmt: skip
    (cpu,) = series(user, trial_id, name="cpu_util_simple", agentId="a1")
    assert (cpu["values"], cpu["batches"], len(cpu["timestamps"])) == ([0.25, 0.75], [0, 0], 2)
    assert [s["labels"]["gpuUuid"] for s in series(user, trial_id, name="gpu_util")] == [
        "GPU-1",
        "GPU-2",
    ]
    (gpu,) = series(user, trial_id, name="gpu_util", gpuUuid="GPU-2")
    assert gpu["values"] == [0, 0]


def test_posted_points_are_returned_with_steps_and_times(user: Caller, trial_id: int) -> None:
    timing = batch(trial_id, "train_batch", [0.5, 0.25], metricType=f"{KIND}TIMING")
    system = batch(trial_id, "gpu_util", [9], gpuUuid="GPU-1", metricType=f"{KIND}SYSTEM")
    user.post("/api/v1/trials/profiler/metrics", {"batches": [timing, system]})
    assert names(user, trial_id) == [
        ("SYSTEM", "gpu_util", "a1", "GPU-1"),
        ("TIMING", "train_batch", "a1", ""),
    ]
    (point,) = series(user, trial_id, name="train_batch", metricType=f"{KIND}TIMING")
    assert (point["values"], point["batches"]) == ([0.5, 0.25], [1, 2])
    assert [t[:19] for t in point["timestamps"]] == ["2026-11-20T10:00:00", "2026-11-20T10:00:01"]
    assert series(user, trial_id, name="train_batch", metricType=f"{KIND}SYSTEM") == []


def test_long_series_is_sent_in_parts(user: Caller, trial_id: int) -> None:
    long = batch(trial_id, "n", [float(n) for n in range(60)])
    user.post("/api/v1/trials/profiler/metrics", {"batches": [long] * 20})
    parts = series(user, trial_id, name="n")
    assert [len(part["values"]) for part in parts] == [1000, 200]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": [1, 2]}, "of one length"),
        ({"values": ["NaN"]}, "finite numbers"),
        ({"values": [None]}, "must be a number"),
        ({"timestamps": ["noon"]}, "RFC 3339"),
        ({"timestamps": ["9999-12-31T23:59:59-23:00"]}, "RFC 3339"),
        ({"labels": {"trialId": 1, "name": ""}}, "labels.name"),
        (
            {"labels": {"trialId": 1, "name": "n", "metricType": "WORD"}},
            "metricType must be one of",
        ),
        ({"labels": {"trialId": 99, "name": "n"}}, "trials not found: 99"),
    ],
)
def test_rejects_invalid_series(
    user: Caller, trial_id: int, change: dict[str, Any], said: str
) -> None:
    body = {"batches": [batch(trial_id, "fine", [1]), {**batch(trial_id, "n", [1]), **change}]}
    response = user.ask("POST", "/api/v1/trials/profiler/metrics", body)
    assert response.status in (400, 404)
    assert said in response.error
    assert names(user, trial_id) == []
    unnamed = user.ask("GET", f"/api/v1/trials/{trial_id}/profiler/metrics")
    assert "labels.name is required" in unnamed.error
