"""The resources that a task used: agents report them with their polls, and the API merges old ones."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.services.tasks import resources
from sqlalchemy import text

from tests.support.api import Api, Caller, create
from tests.support.interactive import V, launch, start
from tests.support.played_agent import PlayedAgent

GIB = 1 << 30


@pytest.fixture
def notebook(api: Api, user: Caller, agent: PlayedAgent) -> str:
    """Return the id of a notebook that runs."""
    id = str(launch(user, "notebook")["notebook"]["id"])
    start(api, agent)
    return id


@pytest.fixture
def report(api: Api, agent: PlayedAgent) -> Callable[..., None]:
    def send(*samples: dict[str, Any]) -> None:
        agent.caller.post("/agents/v1/poll", {**agent.sent, "resources": list(samples)})

    return send


def sample(agent: PlayedAgent, at: datetime, **values: Any) -> dict[str, Any]:
    (container_id,) = agent.containers
    return {"container_id": container_id, "start": at.timestamp(), "seconds": 60, **values}


def series(caller: Caller, task_id: str, **query: Any) -> dict[str, dict[str, Any]]:
    rows = caller.get(f"{V}/tasks/{task_id}/resources", **query)["series"]
    return {s["name"] if s["slotId"] is None else f"{s['name']} {s['slotId']}": s for s in rows}


def count(api: Api) -> int:
    with api.ctx.db.begin() as tx:
        return int(tx.execute(text("SELECT count(*) FROM resource_samples")).scalar_one())


def test_reported_values_become_series(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    now = api.ctx.now()
    gpus = [{"slot": 1, "util": 40, "memory": GIB, "memory_limit": 4 * GIB}]
    first = sample(agent, now - timedelta(minutes=2), cpu=1.5, cpu_limit=8, memory=GIB, gpus=gpus)
    report(first, sample(agent, now - timedelta(minutes=1), cpu=0.5, cpu_limit=8, memory=2 * GIB))
    found = series(user, notebook)
    assert set(found) == {"cpu", "memory", "gpu_util 1", "gpu_memory 1"}
    assert (found["cpu"]["values"], found["cpu"]["limit"]) == ([1.5, 0.5], 8)
    assert (found["cpu"]["unit"], found["cpu"]["agentId"]) == ("cores", "a1")
    assert found["memory"]["values"] == pytest.approx([GIB, 2 * GIB])
    assert (found["gpu_util 1"]["values"], found["gpu_util 1"]["limit"]) == ([40], 100)
    assert found["gpu_memory 1"]["limit"] == 4 * GIB
    times = [t[:19] for t in found["cpu"]["timestamps"]]
    assert times == [f"{now - timedelta(minutes=m):%Y-%m-%dT%H:%M:%S}" for m in (2, 1)]


def test_trials_have_resources_too(
    api: Api, user: Caller, agent: PlayedAgent, report: Callable[..., None]
) -> None:
    experiment_id = create(user, activate=True)
    start(api, agent)
    report(sample(agent, api.ctx.now(), cpu=1))
    (trial,) = user.get(f"{V}/experiments/{experiment_id}/trials")["trials"]
    assert series(user, trial["taskId"])["cpu"]["values"] == [1]


def test_repeated_sample_is_stored_once(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    one = sample(agent, api.ctx.now(), cpu=1)
    report(one)
    report(one)
    assert series(user, notebook)["cpu"]["values"] == [1]


def test_agent_cannot_report_for_containers_of_other_agents(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str
) -> None:
    other = PlayedAgent(api, "a2")
    other.join()
    other.poll()
    body = {**other.sent, "resources": [sample(agent, api.ctx.now(), cpu=1)]}
    other.caller.post("/agents/v1/poll", body)
    assert series(user, notebook) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"container_id": "unknown"},
        {"cpu": -1},
        {"memory": 1e30},
        {"seconds": 0},
        {"seconds": 1e6},
        {"start": 0},
        {"start": 1e12},
        {"gpus": [{"slot": 0, "memory": 1e300}]},
    ],
)
def test_impossible_sample_does_not_disturb_the_poll(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str, report: Callable[..., None], change: Any
) -> None:  # fmt: skip
    report({**sample(agent, api.ctx.now(), cpu=1), **change})
    assert series(user, notebook) == {}
    assert len(agent.poll()) == 1


def test_number_of_samples_in_a_poll_is_bounded(agent: PlayedAgent) -> None:
    agent.poll()
    body = {**agent.sent, "resources": [{}] * 1001}
    response = agent.caller.ask("POST", "/agents/v1/poll", body)
    assert response.status == 400
    assert "more than 1000 entries" in response.error


def hour_of(agent: PlayedAgent, begin: datetime) -> list[dict[str, Any]]:
    """Return a sample for each minute of an hour, with rising values."""
    gpu = {"slot": 0, "memory_limit": 100}
    return [
        sample(
            agent, begin + timedelta(minutes=m), cpu=m, memory=m, gpus=[{**gpu, "util": m, "memory": m}],
        )
        for m in range(60)
    ]  # fmt: skip


def test_long_series_is_merged_to_the_wanted_number_of_points(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    report(*hour_of(agent, api.ctx.now() - timedelta(hours=2)))
    found = series(user, notebook, maxDatapoints=6)
    assert 6 <= len(found["cpu"]["values"]) <= 7
    assert sum(found["cpu"]["seconds"]) == 3600
    total = sum(v * s for v, s in zip(found["cpu"]["values"], found["cpu"]["seconds"], strict=True))
    assert total / 3600 == pytest.approx(29.5)
    assert found["memory"]["values"][-1] == 59
    assert found["gpu_memory 0"]["values"][-1] == 59
    # The use is a mean, and the memory a maximum. The last part of an hour may have one sample only.
    assert sum(found["gpu_util 0"]["values"]) < sum(found["gpu_memory 0"]["values"])


def test_start_time_leaves_out_earlier_points(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    begin = api.ctx.now() - timedelta(hours=2)
    report(*hour_of(agent, begin))
    since = (begin + timedelta(minutes=57)).isoformat()
    assert series(user, notebook, startTime=since)["cpu"]["values"] == [57, 58, 59]


@pytest.mark.parametrize("most", [-1, 2001])
def test_wrong_number_of_points_is_refused(user: Caller, notebook: str, most: int) -> None:
    path = f"{V}/tasks/{notebook}/resources"
    response = user.ask("GET", path, query={"maxDatapoints": [str(most)]})
    assert (response.status, "from 1 to 2000" in response.error) == (400, True)


def test_unknown_task_has_no_resources(user: Caller) -> None:
    response = user.ask("GET", f"{V}/tasks/nothing/resources")
    assert (response.status, response.error) == (404, "task 'nothing' not found")


def test_samples_of_an_earlier_day_are_merged_to_ten_minutes(
    api: Api, user: Caller, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    begin = api.ctx.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)
    report(*hour_of(agent, begin), sample(agent, api.ctx.now(), cpu=3))
    before = series(user, notebook, maxDatapoints=2000)
    api.tick()
    assert count(api) == 7
    after = series(user, notebook, maxDatapoints=2000)
    assert after["cpu"]["values"] == [4.5, 14.5, 24.5, 34.5, 44.5, 54.5, 3]
    assert after["memory"]["values"] == [9, 19, 29, 39, 49, 59]
    assert after["gpu_util 0"]["values"] == [4.5, 14.5, 24.5, 34.5, 44.5, 54.5]
    assert after["cpu"]["seconds"] == [600] * 6 + [60]
    assert before["cpu"]["timestamps"][0] == after["cpu"]["timestamps"][0]


def test_merged_samples_are_merged_once(
    api: Api, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    begin = api.ctx.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)
    report(*hour_of(agent, begin))
    while resources.thin(api.ctx):
        pass
    assert count(api) == 6
    assert not resources.thin(api.ctx)


def keep(api: Api, days: int) -> None:
    policy = replace(api.ctx.config.retention_policy, resource_retention_days=days)
    api.ctx.config = replace(api.ctx.config, retention_policy=policy)


@pytest.mark.parametrize(("days", "left"), [(7, 0), (0, 0), (-1, 1)])
def test_samples_are_deleted_after_their_retention(
    api: Api, agent: PlayedAgent, notebook: str, report: Callable[..., None], days: int, left: int
) -> None:
    keep(api, days)
    report(sample(agent, api.ctx.now(), cpu=1))
    now = api.ctx.now()
    for passed in (2, 8):
        api.ctx.now = lambda passed=passed: now + timedelta(days=passed)  # type: ignore[misc]
        while resources.thin(api.ctx):
            pass
    assert count(api) == left


def test_samples_of_the_last_day_stay_whatever_the_retention_is(
    api: Api, agent: PlayedAgent, notebook: str, report: Callable[..., None]
) -> None:
    keep(api, 0)
    report(sample(agent, api.ctx.now() - timedelta(hours=2), cpu=1))
    api.tick()
    assert count(api) == 1
