"""Events and actions survive JSON columns."""

import json

import pytest
from det_controlplane.core.search import (
    Action,
    Create,
    CustomOperations,
    Event,
    Exited,
    ExitedEarly,
    ExitReason,
    Fail,
    Inactivated,
    OperationCompleted,
    Park,
    Progressed,
    Rest,
    Shutdown,
    Started,
    Stop,
    TrainTo,
    Validated,
    action_from_json,
    action_to_json,
    event_from_json,
)

EVENTS: list[Event] = [
    Started(),
    Validated("a", {"loss": 0.1, "batches": 10}),
    OperationCompleted("a", 100, 0.25),
    ExitedEarly("a", ExitReason.INVALID_HP),
    Exited("a"),
    CustomOperations([{"shutDown": {}}], 3),
    Inactivated("STATE_PAUSED"),
    Progressed("a", 0.5),
]
ACTIONS: list[Action] = [
    Create("a", 1, {"lr": 0.1}),
    Create("b", 1, {"lr": 0.1}, "a"),
    TrainTo("a", 10),
    Park("a"),
    Rest("a"),
    Stop("a"),
    Shutdown(cancel=True),
    Fail("why"),
    Fail("why", "a"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    assert event_from_json(json.loads(json.dumps(event.to_json(), allow_nan=False))) == event


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_comes_back_as_it_was(action: Action) -> None:
    assert action_from_json(json.loads(json.dumps(action_to_json(action)))) == action


@pytest.mark.parametrize(
    ("value", "written"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")],
)
def test_what_json_cannot_hold_is_spelled_out(value: float, written: str) -> None:
    event = Validated("a", {"loss": value})
    assert event.to_json()["metrics"] == {"loss": written}
