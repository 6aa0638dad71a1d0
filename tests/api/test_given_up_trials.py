"""A trial learns from its own state that its searcher stopped it: training code asks after a validation."""

import pytest
from determined.core._train import _STOPPED_STATES

from tests.support.api import Caller, create, report_metrics, trial_of

ASHA = {
    "name": "async_halving",
    "metric": "loss",
    "time_metric": "batches",
    "max_time": 4,
    "num_rungs": 1,
    "max_trials": 1,
    "max_concurrent_trials": 1,
}


@pytest.mark.parametrize(("batches", "given_up"), [(2, False), (4, True)])
def test_response_to_a_report_comes_after_the_searchers_decision(
    user: Caller, batches: int, given_up: bool
) -> None:
    experiment_id = create(user, searcher=ASHA)
    trial_id = trial_of(user, experiment_id)["id"]
    report_metrics(user, trial_id, "validation", batches, {"loss": 0.5, "batches": batches})
    state = user.get(f"/api/v1/trials/{trial_id}")["trial"]["state"]
    assert (state in _STOPPED_STATES) is given_up, state
