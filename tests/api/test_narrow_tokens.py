"""With `environment.det_token: task`, a token is valid for its own task only, on every route."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from det_controlplane.api.router import Route
from det_controlplane.core.config.cluster import load_cluster

from tests.api.test_route_rights import GUARDED, Things, asked, things
from tests.support.api import Api, Caller, config_of, create, report_checkpoint, trial_of
from tests.support.house import House
from tests.support.interactive import launch, start
from tests.support.played_agent import PlayedAgent, task_of

V = "/api/v1"
NARROW = {"environment": {"det_token": "task"}}
# Routes that name no object, or the token's own user.
ABOUT_ITSELF = {"GET /api/v1/me", "POST /api/v1/runs/start"}


@dataclass(frozen=True)
class Box:
    """A task with a narrow token, and things of an experiment of the same user."""

    task: Caller
    experiment: int
    others: Things


@pytest.fixture
def box(api: Api, admin: Caller) -> Box:
    # So that trials have other numbers than their experiments.
    admin.post(f"{V}/experiments", {"config": config_of(), "unmanaged": True})
    task, experiment = task_of(api, admin, **NARROW)
    house = House(api, admin)
    return Box(task, experiment, things(house, "red", house.red, house.red_project))


def request_for(route: Route, others: Things) -> tuple[str, Any, dict[str, list[str]]]:
    """Return names of other users' objects, also for routes with checks in the use case."""
    path, body, query = asked(route, others)
    if route.path == "/task-logs":
        return path, b'[{"taskId": "%s"}]' % others.names["taskId"].encode(), query
    return path, body, query


def test_narrow_token_is_rejected_for_objects_of_others_on_every_route(box: Box) -> None:
    """The token is an administrator's on a cluster without roles: only its narrowness can refuse."""
    answers = {}
    for route in GUARDED:
        path, body, query = request_for(route, box.others)
        response = box.task.ask(route.method, path, body, query)
        answers[f"{route.method} {route.path}"] = response.status
    assert {route for route, status in answers.items() if status != 403} == ABOUT_ITSELF


def test_narrow_token_is_rejected_for_other_objects_in_a_body(box: Box, admin: Caller) -> None:
    """Other tokens of tasks report for those: code of a task may make them."""
    answer = admin.post(f"{V}/experiments", {"config": config_of(), "unmanaged": True})
    trial = admin.post(f"{V}/trials", {"experimentId": answer["experiment"]["id"]})["trial"]
    source = {"trialId": trial["id"], "checkpointUuid": report_checkpoint(admin, box.experiment)}
    for path, body in (
        ("task/logs", {"logs": [{"taskId": trial["taskId"], "log": "x"}]}),
        ("trial-source-info", {"trialSourceInfo": source}),
        ("webhooks/custom", {"experimentId": answer["experiment"]["id"], "data": {}}),
    ):
        response = box.task.ask("POST", f"{V}/{path}", body)
        assert (response.status, "only good for the task itself" in response.error) == (
            403,
            True,
        ), path


def test_narrow_token_reads_its_own_trial(box: Box, admin: Caller) -> None:
    trial = trial_of(admin, box.experiment)["id"]
    assert trial != box.experiment
    box.task.get(f"{V}/trials/{trial}/remaining_log_retention_days")
    assert box.task.get(f"{V}/trials/{trial}")["trial"]["experimentId"] == box.experiment


@pytest.mark.parametrize("place", ["cluster", "workspace"])
def test_cluster_and_workspace_can_make_all_tokens_narrow(
    api: Api, admin: Caller, user: Caller, place: str
) -> None:
    if place == "cluster":
        config = load_cluster({"task_container_defaults": {"det_token": "task"}})
        defaults, pools = config.task_container_defaults, config.resource_pools
        api.ctx.config = replace(
            api.ctx.config, task_container_defaults=defaults, resource_pools=pools
        )
    else:
        policy = {"configPolicies": "invariant_config: {environment: {det_token: task}}"}
        admin.done("PUT", f"{V}/config-policies/workspaces/1/experiment", policy)
    task, experiment = task_of(api, user)
    assert task.ask("GET", f"{V}/experiments").status == 403
    assert task.get(f"{V}/experiments/{experiment}")["experiment"]["id"] == experiment


def test_command_can_have_a_narrow_token(api: Api, user: Caller) -> None:
    agent = PlayedAgent(api, "a1")
    agent.join()
    launch(user, "command", config={"entrypoint": ["true"], **NARROW})
    spec = start(api, agent)
    task = api.with_token(spec["session_token"])
    task.post(f"{V}/task/logs", {"logs": [{"taskId": spec["task_id"], "log": "x"}]})
    assert task.get(f"{V}/me")["user"]["username"] == "determined"
    experiment = create(user)
    alert = {"experimentId": experiment, "data": {"title": "of another"}}
    assert task.ask("POST", f"{V}/webhooks/custom", alert).status == 403
    assert task.ask("GET", f"{V}/experiments/{experiment}").status == 403


@pytest.mark.parametrize("given", ["owner", "task", None])
def test_configurations_show_det_token_only_if_set(user: Caller, given: str | None) -> None:
    environment = {} if given is None else {"det_token": given}
    config = user.get(f"/api/v1/experiments/{create(user, environment=environment)}")["config"]
    assert config["environment"].get("det_token") == given
    assert ("det_token" in config["environment"]) is (given is not None)
    body = {"config": {"entrypoint": ["true"], "environment": environment}}
    command = user.post("/api/v1/commands", body)["config"]
    assert ("det_token" in command["environment"]) is (given is not None)
