"""A search that an external program decides: its events, its operations, and the running trials."""

import json
import uuid
from typing import Any

import pytest
from det_controlplane.api.http import Answer, Request, Response, Wait
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.api import Api, Caller, create, create_ended
from tests.support.searching import Agent

E = "/api/v1/experiments"
CUSTOM = {"name": "custom", "metric": "loss", "unit": "batches"}
ONE, TWO, NOBODY = (str(uuid.UUID(int=n)) for n in (1, 2, 3))
HPARAMS = json.dumps({"lr": 0.5})
_ALLOCATIONS = text("SELECT id, state::text FROM allocations ORDER BY requested_at, id")


def create_trial(request_id: str, hyperparams: str = HPARAMS) -> dict[str, Any]:
    return {"createTrial": {"requestId": request_id, "hyperparams": hyperparams}}


def train(request_id: str, length: int) -> dict[str, Any]:
    return {"trialOperation": {"validateAfter": {"requestId": request_id, "length": str(length)}}}


def close(request_id: str) -> dict[str, Any]:
    return {"closeTrial": {"requestId": request_id}}


def searched(caller: Caller, **more: Any) -> int:
    return create(caller, activate=True, searcher=CUSTOM, **more)


def events(caller: Caller, experiment_id: int) -> list[dict[str, Any]]:
    searcher_events: list[dict[str, Any]] = caller.get(f"{E}/{experiment_id}/searcher_events")[
        "searcherEvents"
    ]
    return searcher_events


def kinds(caller: Caller, experiment_id: int) -> list[str]:
    return [next(k for k in event if k != "id") for event in events(caller, experiment_id)]


def body_of(*operations: Any, after: Any = None) -> dict[str, Any]:
    body: dict[str, Any] = {"searcherOperations": list(operations)}
    return body if after is None else body | {"triggeredByEvent": {"id": after}}


def operate(caller: Caller, experiment_id: int, *operations: Any, after: Any = None) -> None:
    caller.post(f"{E}/{experiment_id}/searcher_operations", body_of(*operations, after=after))


def trials(caller: Caller, experiment_id: int) -> list[dict[str, Any]]:
    stored_trials: list[dict[str, Any]] = caller.get(f"{E}/{experiment_id}/trials")["trials"]
    return stored_trials


def operation_of(caller: Caller, trial_id: int) -> tuple[str, bool]:
    response = caller.get(f"/api/v1/trials/{trial_id}/searcher/operation")
    return response["op"]["validateAfter"]["length"], response["completed"]


def complete(caller: Caller, trial_id: int, length: int, loss: float) -> None:
    body = {"op": {"length": str(length)}, "searcherMetric": loss}
    path = f"/api/v1/trials/{trial_id}/searcher/completed_operation"
    caller.post(path, {"completedOperation": body})


def allocations(api: Api) -> list[str]:
    with api.ctx.db.begin() as tx:
        return [str(row[1]) for row in tx.execute(_ALLOCATIONS).all()]


def starts(api: Api, agent: Agent) -> dict[str, Any]:
    """Report that the ordered container runs."""
    tick.run(api.ctx)
    (order,) = agent.poll()
    agent.poll(Report(order["id"], order["epoch"], ContainerState.RUNNING))
    return order


def ends(agent: Agent, order: dict[str, Any]) -> None:
    """Report that the trial's script has ended with status 0."""
    agent.poll(Report(order["id"], order["epoch"], ContainerState.TERMINATED, exit_code=0))


def test_first_event_requests_the_initial_operations(user: Caller) -> None:
    experiment_id = searched(user)
    assert events(user, experiment_id) == [{"id": "1", "initialOperations": {}}]


def test_operations_create_trials_with_given_hyperparameters(user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after="1")
    (trial,) = trials(user, experiment_id)
    assert trial["hparams"] == {"lr": 0.5}
    assert operation_of(user, trial["id"]) == ("8", False)
    assert events(user, experiment_id) == [{"id": "2", "trialCreated": {"requestId": ONE}}]


def test_repeated_operations_have_no_effect(user: Caller) -> None:
    experiment_id = searched(user)
    for _ in range(2):
        operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    operate(user, experiment_id, create_trial(TWO), after=1)
    assert len(trials(user, experiment_id)) == 1
    assert kinds(user, experiment_id) == ["trialCreated"]


def test_trial_is_queued_after_its_first_train_operation(api: Api, user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), after=1)
    assert allocations(api) == []
    operate(user, experiment_id, train(ONE, 8), after=2)
    assert allocations(api) == ["QUEUED"]


def test_trial_actions_become_events(user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    (trial,) = trials(user, experiment_id)
    user.post(f"/api/v1/trials/{trial['id']}/progress", {"progress": 0.25, "isRaw": True})
    user.post(f"/api/v1/trials/{trial['id']}/progress", {"progress": 0.5, "isRaw": True})
    assert events(user, experiment_id)[1:] == [
        {"id": "4", "trialProgress": {"requestId": ONE, "partialUnits": 4.0}}
    ]
    complete(user, trial["id"], 8, 0.75)
    body = {"requestId": ONE, "metric": 0.75, "validateAfterLength": "8"}
    assert events(user, experiment_id)[1:] == [{"id": "5", "validationCompleted": body}]
    user.post(f"/api/v1/trials/{trial['id']}/kill")
    early = {"requestId": ONE, "exitedReason": "EXITED_REASON_USER_CANCELED"}
    assert events(user, experiment_id)[2:] == [
        {"id": "6", "trialExitedEarly": early},
        {"id": "7", "trialClosed": {"requestId": ONE}},
    ]


def test_replay_in_another_process_gives_the_same_events(api: Api, user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    trial_id = trials(user, experiment_id)[0]["id"]
    user.post(f"/api/v1/trials/{trial_id}/progress", {"progress": 0.5})
    user.post(f"{E}/{experiment_id}/pause")
    live = events(user, experiment_id)
    assert kinds(user, experiment_id) == ["trialCreated", "trialProgress", "experimentInactive"]
    api.ctx.memory.clear()
    assert events(user, experiment_id) == live


def test_progress_below_one_percent_creates_no_event(user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 1000), after=1)
    trial_id = trials(user, experiment_id)[0]["id"]
    for progress in (0.101, 0.102, 0.103):
        user.post(f"/api/v1/trials/{trial_id}/progress", {"progress": progress})
    assert events(user, experiment_id)[-1] == {
        "id": "3", "trialProgress": {"requestId": ONE, "partialUnits": 101.0}
    }  # fmt: skip


def test_trial_continues_in_another_run_after_its_next_operation(api: Api, user: Caller) -> None:
    agent = Agent.joined(api.ctx)
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    trial_id = trials(user, experiment_id)[0]["id"]
    order = starts(api, agent)
    complete(user, trial_id, 8, 0.75)
    assert operation_of(user, trial_id) == ("8", True)
    ends(agent, order)
    assert trials(user, experiment_id)[0]["endTime"] is None
    assert allocations(api) == ["TERMINATED"]
    operate(user, experiment_id, train(ONE, 16), after=3)
    assert operation_of(user, trial_id) == ("16", False)
    assert allocations(api) == ["TERMINATED", "QUEUED"]


def test_operation_during_the_end_of_a_run_is_not_lost(api: Api, user: Caller) -> None:
    agent = Agent.joined(api.ctx)
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    trial_id = trials(user, experiment_id)[0]["id"]
    order = starts(api, agent)
    complete(user, trial_id, 8, 0.75)
    assert operation_of(user, trial_id)[1]
    operate(user, experiment_id, train(ONE, 16), after=3)
    ends(agent, order)
    assert trials(user, experiment_id)[0]["endTime"] is None
    assert allocations(api) == ["TERMINATED", "QUEUED"]


def waiting(caller: Caller, path: str) -> Answer:
    """Return the answer to a host that can hold a request."""
    headers = {"authorization": f"Bearer {caller.token}"}
    return caller.app.handle(Request("GET", path, headers=headers, final=False))


def test_requests_without_events_wait_if_the_host_supports_it(user: Caller) -> None:
    experiment_id = searched(user)
    path = f"{E}/{experiment_id}/searcher_events"
    assert isinstance(waiting(user, path), Response)
    operate(user, experiment_id, after=1)
    assert waiting(user, path) == Wait(f"searcher:{experiment_id}", 60)


def test_trial_waits_for_operations_unless_its_slots_are_needed(api: Api, user: Caller) -> None:
    agent = Agent.joined(api.ctx)
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    trial_id = trials(user, experiment_id)[0]["id"]
    starts(api, agent)
    path = f"/api/v1/trials/{trial_id}/searcher/operation"
    complete(user, trial_id, 8, 0.75)
    assert isinstance(waiting(user, path), Wait)
    operate(user, experiment_id, create_trial(TWO), train(TWO, 8))
    assert isinstance(waiting(user, path), Response)


def test_exited_script_closes_its_trial(api: Api, user: Caller) -> None:
    agent = Agent.joined(api.ctx)
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    ends(agent, starts(api, agent))
    assert kinds(user, experiment_id) == ["trialCreated", "trialClosed"]


def test_closing_and_shutting_down_ends_the_experiment(api: Api, user: Caller) -> None:
    agent = Agent.joined(api.ctx)
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), close(ONE), after=1)
    trial_id = trials(user, experiment_id)[0]["id"]
    order = starts(api, agent)
    complete(user, trial_id, 8, 0.75)
    ends(agent, order)
    assert kinds(user, experiment_id)[-1] == "trialClosed"
    operate(user, experiment_id, {"shutDown": {"cancel": False, "failure": False}}, after=4)
    assert user.get(f"{E}/{experiment_id}")["experiment"]["state"] == "STATE_COMPLETED"
    event = {"id": "5", "experimentInactive": {"experimentState": "STATE_COMPLETED"}}
    assert events(user, experiment_id) == [event]
    operate(user, experiment_id, {"shutDown": {}}, after=4)


def test_failure_reported_by_the_method_ends_the_search_in_error(user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, {"shutDown": {"failure": True}}, after=1)
    assert user.get(f"{E}/{experiment_id}")["experiment"]["state"] == "STATE_ERROR"


def test_search_method_sets_the_progress(user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, {"setSearcherProgress": {"progress": 0.25}}, after=1)
    assert user.get(f"{E}/{experiment_id}")["experiment"]["progress"] == 0.25


def test_killed_experiment_adds_an_event_after_unread_ones(user: Caller) -> None:
    experiment_id = searched(user)
    user.post(f"{E}/{experiment_id}/kill")
    assert events(user, experiment_id)[-1]["experimentInactive"] == {
        "experimentState": "STATE_CANCELED"
    }


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        (train(NOBODY, 8), NOBODY),
        (close(NOBODY), NOBODY),
        (train(ONE, 0), "length"),
        (train("one", 8), "'one'"),
        (create_trial(TWO, "{lr: 1}"), TWO),
        (create_trial(TWO, "[1]"), TWO),
        (create_trial(TWO, '{"lr": "\\u0000"}'), "NUL"),
        ({"createTrial": {"requestId": TWO}}, "hyperparams"),
        ({"pauseTrial": {"requestId": ONE}}, "createTrial, trialOperation"),
        ({**train(ONE, 8), **close(ONE)}, "searcherOperations[1]"),
        ({"setSearcherProgress": {"progress": 7}}, "progress"),
        ({"setSearcherProgress": {"progress": "NaN"}}, "progress"),
        ({"shutDown": {"cancel": "yes"}}, "cancel"),
        ("closeTrial", "searcherOperations"),
    ],
)
def test_rejects_whole_list_with_a_wrong_operation(
    user: Caller, operation: Any, named: str
) -> None:
    experiment_id = searched(user)
    path = f"{E}/{experiment_id}/searcher_operations"
    response = user.ask("POST", path, body_of(create_trial(ONE), operation, after=1))
    assert response.status == 400
    assert named in response.error
    assert trials(user, experiment_id) == []
    assert kinds(user, experiment_id) == ["initialOperations"]


@pytest.mark.parametrize("trigger", [99, "x"])
def test_rejects_operations_for_an_unknown_event(user: Caller, trigger: Any) -> None:
    path = f"{E}/{searched(user)}/searcher_operations"
    assert user.ask("POST", path, body_of(create_trial(ONE), after=trigger)).status == 400


def test_other_searches_have_no_events(user: Caller) -> None:
    experiment_id = create_ended(user)
    for method, path in (("GET", "searcher_events"), ("POST", "searcher_operations")):
        response = user.ask(method, f"{E}/{experiment_id}/{path}", {})
        assert response.status == 400
        assert "searches by single" in response.error
    assert user.ask("GET", f"{E}/4711/searcher_events").status == 404
