"""The job queue through the API: its order, and changing it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.api import Api, Caller, create
from tests.support.played_agent import PlayedAgent

QUEUES = "/api/v1/job-queues"


def activated(user: Caller) -> int:
    experiment_id = create(user)
    user.post(f"/api/v1/experiments/{experiment_id}/activate")
    return experiment_id


def queued(user: Caller) -> list[int]:
    """Ids of the default pool's queued experiments, next first."""
    jobs = user.get(f"{QUEUES}-v2", resourcePool="default")["jobs"]
    assert [j["full"]["summary"]["jobsAhead"] for j in jobs] == list(range(len(jobs)))
    return [int(j["full"]["entityId"]) for j in jobs]


def job_of(user: Caller, experiment_id: int) -> str:
    job_id: str = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["jobId"]
    return job_id


def update(user: Caller, experiment_id: int, **change: Any) -> None:
    user.post(QUEUES, {"updates": [{"jobId": job_of(user, experiment_id), **change}]})


def test_queued_experiment_has_the_number_of_jobs_ahead(user: Caller) -> None:
    activated(user)
    second = activated(user)
    summary = user.get(f"/api/v1/experiments/{second}")["jobSummary"]
    assert summary == {"state": "STATE_QUEUED", "jobsAhead": 1}


def test_queue_has_wait_reasons_and_counts_jobs(api: Api, user: Caller) -> None:
    experiment_id = create(
        user, activate=True, searcher={"name": "random", "metric": "loss", "max_trials": 2}
    )
    request = {"config": {"entrypoint": ["true"], "resources": {"slots": 1}}}
    user.post("/api/v1/commands", request)
    api.tick()
    jobs = [j["full"] for j in user.get(f"{QUEUES}-v2", resourcePool="default")["jobs"]]
    trial, command = sorted(jobs, key=lambda j: j["type"] != "TYPE_EXPERIMENT")
    assert trial["entityId"] == str(experiment_id)
    assert trial["why"].startswith("trial ")
    assert "no agent" in trial["why"]
    assert command["why"].startswith("needs 1 slot")
    pools = {p["name"]: p for p in user.get("/api/v1/resource-pools")["resourcePools"]}
    assert pools["default"]["stats"] == {"queuedCount": 2, "scheduledCount": 0}, "jobs, not trials"


def test_jobs_of_a_renamed_pool_explain_how_to_move(api: Api, user: Caller) -> None:
    experiment_id = activated(user)
    command = {"config": {"entrypoint": ["true"], "resources": {"slots": 1}}}
    user.post("/api/v1/commands", command)
    api.tick()
    (_, other) = api.ctx.config.resource_pools
    pools = (replace(other, pool_name="gpu"), other)
    api.ctx.config = replace(
        api.ctx.config, resource_pools=pools, default_compute_resource_pool="gpu"
    )
    gone = "needs resource pool 'default', which no longer exists; "
    message = f"{gone}move it with `det job update {experiment_id} --resource-pool gpu` (available: gpu, reserved)"
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert (reason["code"], reason["sentence"]) == ("NO_POOL", message)
    queued_jobs = [j["full"] for j in user.get(f"{QUEUES}-v2", resourcePool="gpu")["jobs"]]
    by_kind = {j["type"]: (j["resourcePool"], j["why"]) for j in queued_jobs}
    assert by_kind["TYPE_EXPERIMENT"] == ("default", message)
    second_message = "start it again in another pool and kill this one"
    assert by_kind["TYPE_COMMAND"] == (
        "default",
        f"{gone}{second_message} (available: gpu, reserved)",
    )
    assert user.get(f"{QUEUES}-v2", resourcePool="reserved")["jobs"] == []
    update(user, experiment_id, resourcePool="gpu")
    jobs = user.get(f"{QUEUES}-v2")["jobs"]
    assert [j["full"]["resourcePool"] for j in jobs] == ["gpu", "default"]


def test_queued_experiment_has_an_expected_start(api: Api, user: Caller) -> None:
    first = activated(user)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    activated(user)
    third = activated(user)
    began_s_ago = 600
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE experiments SET progress = 0.75 WHERE id = :id"), {"id": first})
        start_time = {"at": api.ctx.now() - timedelta(seconds=began_s_ago)}
        tx.execute(
            text("UPDATE allocations SET assigned_at = :at WHERE state <> 'QUEUED'"), start_time
        )
    jobs = user.get(f"{QUEUES}-v2", resourcePool="default")["jobs"]
    expected = {int(j["full"]["entityId"]): j["full"].get("expectedStart") for j in jobs}
    left_s = (
        datetime.fromisoformat(expected[third].replace("Z", "+00:00")) - api.ctx.now()
    ).total_seconds()
    assert left_s == pytest.approx(began_s_ago / 3, abs=60)
    assert expected[first] is None


def test_pool_statistics_have_daily_waiting_times(api: Api, user: Caller) -> None:
    activated(user)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (default, reserved) = user.get(f"{QUEUES}/stats")["results"]
    (day,) = default["aggregates"]
    assert day["periodStart"] == f"{api.ctx.now():%Y-%m-%d}"
    assert 0 < day["seconds"] < 60
    assert reserved["aggregates"] == []


def test_higher_priority_moves_a_job_first_and_changes_its_configuration(user: Caller) -> None:
    first, second = activated(user), activated(user)
    update(user, second, priority=1)
    assert queued(user) == [second, first]
    config = user.get(f"/api/v1/experiments/{second}")["experiment"]["config"]
    assert config["resources"]["priority"] == 1


def test_job_can_move_ahead_of_and_behind_another(user: Caller) -> None:
    first, second, third = activated(user), activated(user), activated(user)
    update(user, third, aheadOf=job_of(user, second))
    assert queued(user) == [first, third, second]
    update(user, first, behindOf=job_of(user, second))
    assert queued(user) == [third, second, first]


def test_queued_job_can_move_to_another_pool(user: Caller) -> None:
    stays, moves = activated(user), activated(user)
    update(user, moves, resourcePool="reserved")
    assert queued(user) == [stays]
    there = user.get(f"{QUEUES}-v2", resourcePool="reserved")["jobs"]
    assert [j["full"]["entityId"] for j in there] == [str(moves)]


def test_rejects_move_of_single_agent_job_to_smaller_agents(api: Api, user: Caller) -> None:
    PlayedAgent(api, "a1").join(pool="reserved")
    moves = create(user, resources={"slots_per_trial": 3, "is_single_node": True})
    spread = create(user, resources={"slots_per_trial": 3})
    body = {"updates": [{"jobId": job_of(user, moves), "resourcePool": "reserved"}]}
    response = user.ask("POST", QUEUES, body)
    assert response.status == 400
    assert "the largest of resource pool 'reserved' has 2" in response.error
    update(user, spread, resourcePool="reserved")


def test_rejects_continuing_single_agent_job_on_smaller_agents(api: Api, user: Caller) -> None:
    experiment_id = create(user, resources={"slots_per_trial": 3, "is_single_node": True})
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    PlayedAgent(api, "a1").join()
    response = user.ask("POST", "/api/v1/experiments/continue", {"id": experiment_id})
    assert response.status == 400
    assert "asks for 3 slots of one agent" in response.error


def test_rejects_changes_unsupported_by_the_scheduler(user: Caller) -> None:
    body = {"updates": [{"jobId": job_of(user, activated(user)), "weight": 2.0}]}
    response = user.ask("POST", QUEUES, body)
    assert response.status == 400
    assert "fair_share" in response.error
    body = {"updates": [{"jobId": "no-such-job", "priority": 3}]}
    response = user.ask("POST", QUEUES, body)
    assert (response.status, "no-such-job not found" in response.error) == (404, True)


LIMIT = "constraints: {priority_limit: 30}"


def refused(user: Caller, job: str, **change: Any) -> str:
    response = user.ask("POST", QUEUES, {"updates": [{"jobId": job, **change}]})
    assert response.status == 400
    return response.error


def test_experiments_cannot_exceed_the_priority_limit(admin: Caller, user: Caller) -> None:
    urgent, job = activated(user), job_of(user, activated(user))
    update(user, urgent, priority=5)
    admin.done("PUT", "/api/v1/config-policies/workspaces/1/experiment", {"configPolicies": LIMIT})
    for change in (
        {"priority": 29},
        {"aheadOf": job_of(user, urgent)},
        {"behindOf": job_of(user, urgent)},
    ):
        assert "more urgent than the limit" in refused(user, job, **change)
    user.post(QUEUES, {"updates": [{"jobId": job, "priority": 30}]})


def test_commands_cannot_exceed_the_priority_limit(api: Api, admin: Caller, user: Caller) -> None:
    admin.done("PUT", "/api/v1/config-policies/global/tasks", {"configPolicies": LIMIT})
    PlayedAgent(api, "a1").join()
    command = user.post("/api/v1/commands", {"config": {"entrypoint": ["true"]}})["command"]
    assert "more urgent than the limit" in refused(user, command["jobId"], priority=29)
    user.post(QUEUES, {"updates": [{"jobId": command["jobId"], "priority": 30}]})


def test_invariant_resources_cannot_be_changed_in_the_queue(admin: Caller, user: Caller) -> None:
    experiment_id = activated(user)
    policy = "invariant_config: {resources: {priority: 50, resource_pool: default}}"
    path = "/api/v1/config-policies/workspaces/1/experiment"
    admin.done("PUT", path, {"configPolicies": policy})
    job = job_of(user, experiment_id)
    assert "is set to 50 by your administrator" in refused(user, job, priority=60)
    assert "is set to default" in refused(user, job, resourcePool="reserved")
    edit = {"resources": {"priority": 60}}
    assert user.ask("PATCH", f"/api/v1/experiments/{experiment_id}", edit).status == 400
    update(user, experiment_id, priority=50)


def test_rejects_move_to_a_pool_of_other_workspaces(admin: Caller, user: Caller) -> None:
    workspace_id = admin.post("/api/v1/workspaces", {"name": "theirs"})["workspace"]["id"]
    bindings = "/api/v1/resource-pools/reserved/workspace-bindings"
    admin.done("POST", bindings, {"workspaceIds": [workspace_id]})
    experiment_id = activated(user)
    job = job_of(user, experiment_id)
    assert "reserved for other workspaces" in refused(user, job, resourcePool="reserved")
    assert queued(user) == [experiment_id]
    admin.done("POST", bindings, {"workspaceIds": [1]})
    update(user, experiment_id, resourcePool="reserved")
