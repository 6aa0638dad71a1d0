"""Events survive JSON columns."""

import json

import pytest
from det_controlplane.core.search import (
    CustomOperations,
    Event,
    Exited,
    ExitedEarly,
    ExitReason,
    Inactivated,
    OperationCompleted,
    Progressed,
    Started,
    Validated,
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


@pytest.mark.parametrize("event", EVENTS)
def test_event_is_restored_unchanged_from_json(event: Event) -> None:
    assert event_from_json(json.loads(json.dumps(event.to_json(), allow_nan=False))) == event


@pytest.mark.parametrize(
    ("value", "written"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")],
)
def test_nonfinite_numbers_become_strings_in_json(value: float, written: str) -> None:
    event = Validated("a", {"loss": value})
    assert event.to_json()["metrics"] == {"loss": written}
