"""`custom`: a remote search method reads events and posts operations."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core.hparams import Space
from det_controlplane.core.search import (
    Action,
    Create,
    CustomOperations,
    Exited,
    ExitedEarly,
    ExitReason,
    Fail,
    Inactivated,
    OperationCompleted,
    Park,
    Progressed,
    Rest,
    Search,
    Shutdown,
    Started,
    Stop,
    TrainTo,
    Validated,
    new,
    restore,
)

SEARCHER = {"name": "custom", "metric": "loss", "unit": "batches"}
SPACE: Space = {}
ONE = "11111111-1111-4111-8111-111111111111"
CREATE = {"createTrial": {"requestId": ONE, "hyperparams": json.dumps({"lr": 0.1})}}
TRAIN = {"trialOperation": {"validateAfter": {"requestId": ONE, "length": "100"}}}


@pytest.fixture
def search() -> Search:
    search = new(SEARCHER, SPACE, 0)
    search.fold(Started())
    return search


def post(search: Search, *operations: Any, after: int | None = None) -> tuple[Action, ...]:
    return search.fold(CustomOperations(operations, after))


def kinds(event: Mapping[str, Any]) -> str:
    return " ".join(name for name in event if name != "id")


def test_first_event_requests_the_initial_operations(search: Search) -> None:
    assert search.remote_events() == ({"id": 1, "initialOperations": {}},)


def test_operations_create_and_train_and_answer_their_event(search: Search) -> None:
    create, train = post(search, CREATE, TRAIN, after=1)
    assert isinstance(create, Create)
    assert (create.request_id, create.hparams) == (ONE, {"lr": 0.1})
    assert train == TrainTo(ONE, 100)
    assert search.remote_events() == ({"id": 2, "trialCreated": {"requestId": ONE}},)


def test_repeated_request_is_executed_once(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    assert post(search, CREATE, TRAIN, after=1) == ()
    assert post(search, CREATE) == ()


def test_a_completed_operation_becomes_an_event(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    search.fold(OperationCompleted(ONE, 99, 0.7))
    search.fold(OperationCompleted(ONE, 100, 0.5))
    body = {"requestId": ONE, "metric": 0.5, "validateAfterLength": "100"}
    assert search.remote_events()[1:] == ({"id": 3, "validationCompleted": body},)


def test_a_metric_that_is_not_a_number_travels_as_a_string(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    search.fold(OperationCompleted(ONE, 100, float("nan")))
    assert search.remote_events()[-1]["validationCompleted"]["metric"] == "NaN"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (ExitReason.INVALID_HP, "EXITED_REASON_INVALID_HP"),
        (ExitReason.USER_CANCELED, "EXITED_REASON_USER_CANCELED"),
        (ExitReason.ERRORED, "EXITED_REASON_UNSPECIFIED"),
    ],
)
def test_early_exit_and_close_become_events(search: Search, reason: ExitReason, told: str) -> None:
    post(search, CREATE, after=1)
    search.fold(ExitedEarly(ONE, reason))
    search.fold(Exited(ONE))
    early, closed = search.remote_events()[1:]
    assert early["trialExitedEarly"] == {"requestId": ONE, "exitedReason": told}
    assert closed["trialClosed"] == {"requestId": ONE}


def test_only_the_remote_method_ends_the_search(search: Search) -> None:
    post(search, CREATE, after=1)
    assert post(search, {"closeTrial": {"requestId": ONE}}) == (Stop(ONE),)
    assert search.fold(Exited(ONE)) == ()
    assert post(search, {"shutDown": {"cancel": True}}) == (Shutdown(cancel=True),)


def test_failure_reported_by_the_remote_method_fails_the_search(search: Search) -> None:
    (fail,) = post(search, {"shutDown": {"cancel": False, "failure": True}})
    assert isinstance(fail, Fail)
    assert "remote search method" in fail.reason


def test_trial_without_a_train_operation_rests(search: Search) -> None:
    create, rest = post(search, CREATE, after=1)
    assert isinstance(create, Create)
    assert rest == Rest(ONE)


def test_a_trial_rests_between_operations_and_trains_on(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    assert search.fold(OperationCompleted(ONE, 100, 0.5)) == (Rest(ONE),)
    longer = {"trialOperation": {"validateAfter": {"requestId": ONE, "length": "300"}}}
    assert post(search, longer, after=3) == (TrainTo(ONE, 300),)


def test_trial_is_parked_after_reporting_its_length(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    assert search.fold(Validated(ONE, {"loss": 0.6, "batches": 50})) == ()
    assert search.fold(Validated(ONE, {"loss": 0.5, "batches": 100})) == (Park(ONE),)
    assert [kinds(e) for e in search.remote_events()] == ["trialCreated", "validationCompleted"]
    assert search.fold(Validated(ONE, {"loss": 0.4, "batches": 150})) == (Park(ONE),)
    assert len(search.remote_events()) == 2


def test_trial_trains_before_a_close_of_the_same_request(search: Search) -> None:
    create, train = post(search, CREATE, TRAIN, {"closeTrial": {"requestId": ONE}}, after=1)
    assert (type(create), train) == (Create, TrainTo(ONE, 100))
    assert search.fold(OperationCompleted(ONE, 100, 0.5)) == (Stop(ONE),)
    search.fold(Exited(ONE))
    assert kinds(search.remote_events()[-1]) == "trialClosed"


def test_only_the_newest_progress_event_remains_in_units(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    for fraction in (0.25, 0.5, 0.75):
        search.fold(Progressed(ONE, fraction))
    progress_events = [e["trialProgress"] for e in search.remote_events() if "trialProgress" in e]
    assert progress_events == [{"requestId": ONE, "partialUnits": 75.0}]
    search.fold(OperationCompleted(ONE, 100, 0.5))
    assert [kinds(e) for e in search.remote_events()] == ["trialCreated", "validationCompleted"]


def test_response_to_a_replaced_progress_event_is_executed(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    search.fold(Progressed(ONE, 0.25))
    event_id = search.remote_events()[-1]["id"]
    search.fold(Progressed(ONE, 0.5))
    post(search, {"setSearcherProgress": {"progress": 0.1}}, after=event_id)
    assert search.progress({}) == 0.1
    assert [kinds(e) for e in search.remote_events()] == ["trialProgress"]


def test_only_the_newest_pause_event_remains(search: Search) -> None:
    for _ in range(2):
        search.fold(Inactivated("STATE_PAUSED"))
    assert [kinds(e) for e in search.remote_events()] == ["initialOperations", "experimentInactive"]


def test_a_closed_trial_is_neither_trained_nor_closed_again(search: Search) -> None:
    post(search, CREATE, after=1)
    search.fold(Exited(ONE))
    assert post(search, TRAIN, {"closeTrial": {"requestId": ONE}}) == ()


def test_remote_method_sets_the_progress(search: Search) -> None:
    post(search, {"setSearcherProgress": {"progress": 0.25}})
    assert search.progress({}) == 0.25


def test_error_for_unknown_operation_lists_known_ones(search: Search) -> None:
    (fail,) = post(search, {"pauseTrial": {}})
    assert isinstance(fail, Fail)
    assert "createTrial" in fail.reason


def test_pausing_the_experiment_becomes_an_event(search: Search) -> None:
    search.fold(Inactivated("STATE_PAUSED"))
    assert search.remote_events()[-1]["experimentInactive"] == {"experimentState": "STATE_PAUSED"}


def test_the_queue_survives_a_snapshot(search: Search) -> None:
    post(search, CREATE, TRAIN, after=1)
    result = restore(SEARCHER, SPACE, 0, json.loads(json.dumps(search.snapshot())))
    assert result.remote_events() == search.remote_events()
    assert post(result, CREATE, after=2) == ()
    result.fold(OperationCompleted(ONE, 100, 0.5))
    assert result.remote_events()[-1]["id"] == 3
    post(result, {"setSearcherProgress": {"progress": 1}}, after=2)
    assert result.progress({}) == 0
