"""The list of all work: experiments and tasks of every kind in one order, with filters, pages and rights."""

import base64
import os
from datetime import timedelta
from typing import Any

import pytest

from tests.support.api import Api, Caller, create, create_ended
from tests.support.house import House
from tests.support.interactive import V, launch, somebody_else, start
from tests.support.played_agent import PlayedAgent

KINDS = ("command", "notebook", "shell", "tensorboard")
TASK = "entrypoint: [python3, work.py]\ndescription: sweeping\n"


def work(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = caller.get(f"{V}/work", **query)["work"]
    return rows


def names(caller: Caller, **query: Any) -> list[str]:
    return [row["name"] for row in work(caller, **query)]


def task(caller: Caller, kind: str = "command", name: str = "", **config: Any) -> str:
    named = {"description": name or f"a {kind}"}
    entry = {"entrypoint": ["true"]} if kind == "command" else {}
    return str(launch(caller, kind, config={**entry, **named, **config})[kind]["id"])


def generic(caller: Caller) -> str:
    content = base64.b64encode(os.urandom(8)).decode()
    file = {
        "path": "work.py", "type": 48, "content": content, "mtime": "1", "mode": 420, "uid": 0, "gid": 0,
    }  # fmt: skip
    body = {"config": TASK, "contextDirectory": [file]}
    return str(caller.post(f"{V}/generic-tasks", body)["taskId"])


def of_all_kinds(caller: Caller) -> int:
    """Create work of each kind. Return the experiment."""
    experiment_id = create(caller, name="training", resources={"priority": 7})
    for kind in ("command", "notebook", "shell"):
        task(caller, kind)
    body = {"experimentIds": [experiment_id], "config": {"description": "a tensorboard"}}
    caller.post(f"{V}/tensorboards", body)
    generic(caller)
    return experiment_id


def test_list_has_work_of_all_kinds_with_the_newest_first(user: Caller) -> None:
    experiment_id = of_all_kinds(user)
    rows = work(user, orderBy="ORDER_BY_DESC")
    assert [row["type"].removeprefix("TYPE_").lower() for row in rows] == [
        "generic", "tensorboard", "shell", "notebook", "command", "experiment",
    ]  # fmt: skip
    assert names(user) == [
        "training", "a command", "a notebook", "a shell", "a tensorboard", "sweeping",
    ]  # fmt: skip
    experiment = rows[-1]
    assert (experiment["entityId"], experiment["state"]) == (str(experiment_id), "STATE_PAUSED")
    assert (experiment["username"], experiment["workspaceName"]) == (
        "determined",
        "Uncategorized",
    )
    assert (experiment["priority"], experiment["resourcePool"]) == (7, "default")
    assert (experiment["endTime"], experiment["archived"]) == (None, False)


def test_fields_of_a_task(user: Caller) -> None:
    id = task(user, "notebook")
    (row,) = work(user)
    assert (row["entityId"], row["state"], row["priority"]) == (id, "STATE_QUEUED", 42)
    assert (row["progress"], row["noPause"], row["exitStatus"]) == (None, True, "")


def test_runs_of_trials_are_not_listed(api: Api, user: Caller, agent: PlayedAgent) -> None:
    create(user, name="training", activate=True)
    start(api, agent)
    assert names(user) == ["training"]


@pytest.mark.parametrize(("code", "state"), [(0, "COMPLETED"), (3, "ERROR")])
def test_end_of_a_task_is_its_outcome(
    api: Api, user: Caller, agent: PlayedAgent, code: int, state: str
) -> None:
    id = task(user)
    start(api, agent)
    assert work(user)[0]["state"] == "STATE_RUNNING"
    assert work(user)[0]["allocatedSlots"] == 1
    agent.poll("terminated", exit_code=code)
    (row,) = work(user)
    assert (row["state"], row["allocatedSlots"]) == (f"STATE_{state}", 0)
    assert row["endTime"] is not None
    assert row["exitStatus"].startswith("allocation")
    listed = user.get(f"{V}/commands/{id}")["command"]
    assert (listed["state"], listed["outcome"]) == ("STATE_TERMINATED", f"STATE_{state}")


def test_killed_task_is_canceled(api: Api, user: Caller) -> None:
    id = task(user)
    user.post(f"{V}/commands/{id}/kill")
    assert work(user)[0]["state"] == "STATE_CANCELED"


def test_states_of_a_generic_task_are_followed(user: Caller) -> None:
    id = generic(user)
    user.post(f"{V}/tasks/{id}/pause", {"taskId": id})
    assert work(user)[0]["state"] == "STATE_PAUSED"
    user.post(f"{V}/tasks/{id}/unpause", {"taskId": id})
    assert work(user)[0]["state"] == "STATE_QUEUED"
    user.post(f"{V}/tasks/{id}/kill", {"taskId": id})
    assert work(user)[0]["state"] == "STATE_CANCELED"


def test_states_of_an_experiment_are_followed(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user, activate=True)
    assert work(user)[0]["state"] == "STATE_QUEUED"
    start(api, agent)
    assert work(user)[0]["state"] == "STATE_RUNNING"
    user.done("PATCH", f"{V}/experiments/{id}", {"name": "another name"})
    user.post(f"{V}/experiments/{id}/kill")
    agent.poll("terminated", exit_code=137)
    (row,) = work(user)
    assert (row["name"], row["state"]) == ("another name", "STATE_CANCELED")


def test_archived_experiments_are_hidden_unless_wanted(user: Caller) -> None:
    id = create_ended(user, name="old")
    user.post(f"{V}/experiments/{id}/archive")
    assert names(user) == []
    assert names(user, archived=True) == ["old"]


def test_deleted_experiment_is_listed_until_its_files_are_gone(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    """The task that deletes its files is not listed."""
    id = create_ended(user)
    user.done("DELETE", f"{V}/experiments/{id}")
    start(api, agent)
    assert [row["state"] for row in work(user)] == ["STATE_DELETING"]
    agent.poll("terminated", exit_code=0)
    for _ in range(3):
        api.retry_deletions()
    assert work(user, archived=True) == []


def test_types_filter_the_list(user: Caller) -> None:
    of_all_kinds(user)
    assert names(user, types=["TYPE_SHELL", "TYPE_GENERIC"]) == ["a shell", "sweeping"]
    assert names(user, types="TYPE_EXPERIMENT") == ["training"]


def test_states_filter_the_list(api: Api, user: Caller, agent: PlayedAgent) -> None:
    create(user, name="paused")
    create_ended(user, name="ended")
    task(user, name="running")
    start(api, agent)
    task(user, name="queued")
    assert names(user, states="STATE_PAUSED") == ["paused"]
    assert names(user, states="STATE_CANCELED") == ["ended"]
    assert names(user, states="STATE_RUNNING") == ["running"]
    assert names(user, states="STATE_QUEUED") == ["queued"]
    assert names(user, states=["STATE_QUEUED", "STATE_PAUSED"]) == ["paused", "queued"]
    assert names(user, states="STATE_ACTIVE") == ["running", "queued"]
    assert names(user, states="STATE_ERROR") == []


def test_stopping_work_is_found_by_one_state(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user, name="stopping", activate=True)
    start(api, agent)
    user.post(f"{V}/experiments/{id}/cancel")
    assert work(user)[0]["state"] == "STATE_STOPPING_CANCELED"
    assert names(user, states="STATE_STOPPING") == ["stopping"]


def test_owner_pool_and_text_filter_the_list(api: Api, user: Caller, admin: Caller) -> None:
    grace = somebody_else(api, admin)
    create(user, name="Digits of today")
    task(user, name="prepare digits", resources={"resource_pool": "reserved"})
    task(grace, name="other")
    assert names(user, users="grace") == ["other"]
    assert names(user, users=["grace", "determined"], text="DIGITS") == [
        "Digits of today",
        "prepare digits",
    ]
    assert names(user, resourcePools="reserved") == ["prepare digits"]
    assert names(user, text="100%") == []
    me = user.get(f"{V}/me")["user"]["id"]
    assert names(user, userIds=me, types="TYPE_COMMAND") == ["prepare digits"]


def test_since_filters_by_submission(api: Api, user: Caller) -> None:
    task(user, name="before")
    later = api.ctx.now() + timedelta(hours=1)
    api.ctx.now = lambda: later
    task(user, name="after")
    assert names(user, since=(later - timedelta(minutes=1)).isoformat()) == ["after"]


def test_cursor_continues_although_work_was_added(user: Caller) -> None:
    for n in range(5):
        task(user, name=f"job {n}")
    newest = {"orderBy": "ORDER_BY_DESC", "limit": 2}
    first = work(user, **newest)
    task(user, name="added")
    second = work(user, after=first[-1]["cursor"], **newest)
    third = work(user, after=second[-1]["cursor"], **newest)
    assert [row["name"] for row in first + second + third] == [f"job {n}" for n in (4, 3, 2, 1, 0)]
    assert work(user, after=third[-1]["cursor"], **newest) == []


def test_cursor_goes_in_both_directions(user: Caller) -> None:
    for n in range(4):
        task(user, name=f"job {n}")
    first = work(user, limit=2)
    assert names(user, after=first[-1]["cursor"]) == ["job 2", "job 3"]


def test_cursor_does_not_skip_work_of_the_same_moment(api: Api, user: Caller) -> None:
    now = api.ctx.now()
    api.ctx.now = lambda: now
    for n in range(5):
        task(user, name=f"job {n}")
    rows: list[dict[str, Any]] = []
    while page := work(user, limit=2, **({"after": rows[-1]["cursor"]} if rows else {})):
        rows += page
    assert sorted(row["name"] for row in rows) == [f"job {n}" for n in range(5)]


def test_offset_and_total_page_through_the_list(user: Caller) -> None:
    for n in range(5):
        task(user, name=f"job {n}")
    answer = user.get(f"{V}/work", limit=2, offset=2)
    assert [row["name"] for row in answer["work"]] == ["job 2", "job 3"]
    assert answer["pagination"]["total"] == 5


@pytest.mark.parametrize(
    ("sort", "order", "expected"),
    [
        ("NAME", "ASC", ["a", "b", "c"]),
        ("NAME", "DESC", ["c", "b", "a"]),
        ("END_TIME", "DESC", ["a", "b", "c"]),
        ("USER", "ASC", ["c", "a", "b"]),
    ],
)
def test_list_is_sorted(user: Caller, sort: str, order: str, expected: list[str]) -> None:
    create(user, name="c")
    task(user, name="a", resources={"resource_pool": "reserved"})
    id = task(user, "shell", name="b", resources={"resource_pool": "reserved"})
    user.post(f"{V}/shells/{id}/kill")
    id = work(user, text="a", types="TYPE_COMMAND")[0]["entityId"]
    user.post(f"{V}/commands/{id}/kill")
    found = names(user, sortBy=f"SORT_BY_{sort}", orderBy=f"ORDER_BY_{order}")
    assert found == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"types": "TYPE_TRIAL"}, "types must be one of TYPE_EXPERIMENT"),
        ({"types": "shell"}, "types must be one of"),
        ({"states": "STATE_LOST"}, "states must be among STATE_ACTIVE"),
        ({"sortBy": "SORT_BY_SIZE"}, "sortBy: must be one of"),
        ({"after": "nothing"}, "after must be the cursor of a row"),
        ({"after": "1.nothing"}, "after must be the cursor of a row"),
        ({"after": f"{10**30}.{'0' * 32}"}, "after must be the cursor of a row"),
        ({"after": f"1.{'0' * 32}", "offset": 1}, "and no offset"),
        ({"after": f"1.{'0' * 32}", "sortBy": "SORT_BY_NAME"}, "needs the order"),
        ({"since": "yesterday"}, "RFC 3339"),
        ({"limit": -3}, "limit must be"),
    ],
)
def test_wrong_query_is_refused(user: Caller, query: dict[str, Any], said: str) -> None:
    response = user.ask("GET", f"{V}/work", query={k: [str(v)] for k, v in query.items()})
    assert response.status == 400
    assert said in response.error


def test_person_sees_only_the_workspaces_of_own_roles(house: House) -> None:
    house.experiment(house.admin, house.red_project)
    house.experiment(house.admin, house.blue_project)
    for workspace in (house.red, house.blue):
        config = {"entrypoint": ["true"], "description": f"in {workspace}"}
        house.admin.post(f"{V}/commands", {"config": config, "workspaceId": workspace})
    viewer = house.person("vera", "Viewer", house.red)
    assert {row["workspaceId"] for row in work(viewer)} == {house.red}
    assert len(work(viewer)) == 2
    assert len(work(house.admin)) == 4
    assert work(viewer, workspaceIds=house.blue) == []
    assert work(house.person("nobody")) == []


def test_work_moves_with_its_project(user: Caller, admin: Caller) -> None:
    create(user, name="moved")
    there = admin.post(f"{V}/workspaces", {"name": "there"})["workspace"]["id"]
    project = admin.post(f"{V}/workspaces/{there}/projects", {"name": "p"})["project"]["id"]
    id = int(work(user)[0]["entityId"])
    body = {"experimentId": id, "destinationProjectId": project}
    user.post(f"{V}/experiments/{id}/move", body)
    assert names(user, workspaceIds=there) == ["moved"]
