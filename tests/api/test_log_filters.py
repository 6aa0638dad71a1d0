"""Filters of logs: by where a line is from, by its level, and by its time."""

from typing import Any

import pytest

from tests.support.api import Caller, create, trial_of

LINES: tuple[dict[str, Any], ...] = (
    {"log": "plain", "timestamp": "2026-01-01T00:00:01Z", "stdtype": "stdout"},
    {"log": "info", "timestamp": "2026-01-01T00:00:02Z", "level": "LOG_LEVEL_INFO", "rankId": 0},
    {"log": "error", "timestamp": "2026-01-01T00:00:03Z", "level": "LOG_LEVEL_ERROR", "rankId": 1,
     "agentId": "a2", "containerId": "c2", "allocationId": "x.2", "source": "master", "stdtype": "stderr"},
)  # fmt: skip


@pytest.fixture
def task_id(user: Caller) -> str:
    id = str(trial_of(user, create(user))["taskId"])
    user.post("/api/v1/task/logs", {"logs": [{"taskId": id, **line} for line in LINES]})
    return id


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({}, ["plain", "info", "error"]),
        ({"levels": ["LOG_LEVEL_ERROR"]}, ["error"]),
        ({"levels": ["LOG_LEVEL_UNSPECIFIED"]}, ["plain"]),
        ({"levels": ["LOG_LEVEL_UNSPECIFIED", "LOG_LEVEL_INFO"]}, ["plain", "info"]),
        ({"rankIds": ["1"]}, ["error"]),
        ({"rankIds": ["-1"]}, ["plain"]),
        ({"rankIds": ["-1", "0"]}, ["plain", "info"]),
        ({"agentIds": ["a2"]}, ["error"]),
        ({"agentIds": ["a3"]}, []),
        ({"containerIds": ["c2", "c3"]}, ["error"]),
        ({"allocationIds": ["x.2"]}, ["error"]),
        ({"sources": ["master"]}, ["error"]),
        ({"stdtypes": ["stdout"]}, ["plain"]),
        ({"stdtypes": ["stdout", "stderr"]}, ["plain", "error"]),
        ({"stdtypes": ["stdout"], "levels": ["LOG_LEVEL_ERROR"]}, []),
        ({"timestampAfter": ["2026-01-01T00:00:01Z"]}, ["info", "error"]),
        ({"timestampBefore": ["2026-01-01T00:00:03Z"]}, ["plain", "info"]),
    ],
)
def test_filter_returns_matching_log_lines(
    user: Caller, task_id: str, query: dict[str, list[str]], shown: list[str]
) -> None:
    lines = user.lines(f"/api/v1/tasks/{task_id}/logs", query)
    assert [line["log"] for line in lines] == shown


def test_filter_values_come_from_all_runs_of_a_trial(user: Caller) -> None:
    experiment = create(user)
    first = trial_of(user, experiment)
    say(user, first, "launcher")
    user.post(f"/api/v1/experiments/{experiment}/kill")
    user.post("/api/v1/experiments/continue", {"id": experiment})
    second = trial_of(user, experiment)
    say(user, second, "harness")
    assert first["taskId"] != second["taskId"]
    (line,) = user.lines(f"/api/v1/trials/{first['id']}/logs/fields", {})
    assert sorted({"launcher", "harness"} & set(line["sources"])) == ["harness", "launcher"]


def say(user: Caller, trial: dict[str, Any], source: str) -> None:
    line = {"taskId": trial["taskId"], "log": "here", "source": source}
    user.post("/api/v1/task/logs", {"logs": [line]})
