"""Work continues during long outages, and the cluster has all its results afterwards.

All kinds of outages run at the same time, once for all tests: tests/support/outages/kinds.py lists them.
"""

import pytest

from tests.support.outages import claims
from tests.support.outages.kinds import KINDS, Kind
from tests.support.outages.outcome import Outcome
from tests.support.outages.play import Outage, play

pytestmark = pytest.mark.slow

RARE = pytest.mark.heavy("plays kinds of outages that differ little from usual ones")
LONG = pytest.mark.heavy("plays outages of other lengths")
IN_DOCKER = pytest.mark.heavy("plays outages of containers of Docker")

OUTAGES = [
    Outage(75),
    pytest.param(Outage(10), marks=LONG),
    pytest.param(Outage(300), marks=LONG),
    pytest.param(Outage(75, runtime="docker"), marks=(pytest.mark.docker, IN_DOCKER)),
]
every_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=kind.name, marks=() if kind.usual else RARE) for kind in KINDS]
)


@pytest.fixture(scope="module", params=OUTAGES, ids=lambda o: f"{o.length_s:g}s-{o.runtime}")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    outage: Outage = request.param
    if outage.runtime == "docker":
        request.getfixturevalue("test_image")
    played = play(tmp_path_factory.mktemp("outages"), _kinds_of_this_run(request), outage)
    return {outcome.kind.name: outcome for outcome in played}


def _kinds_of_this_run(request: pytest.FixtureRequest) -> list[Kind]:
    """Return the kinds of outages that the selected tests need: `-k hole` runs only this kind."""
    items = [i for i in request.session.items if isinstance(i, pytest.Function)]
    here = [item.callspec.params for item in items if item.path == request.path]
    return [kind for kind in KINDS if any(params["kind"] == kind for params in here)]


@pytest.fixture
def outcome(outcomes: dict[str, Outcome], kind: Kind) -> Outcome:
    return outcomes[kind.name]


@every_kind
def test_outage_begins_during_training(outcome: Outcome) -> None:
    assert claims.is_in_the_middle(outcome) == []


@every_kind
def test_trials_complete_in_the_interrupted_run(outcome: Outcome) -> None:
    assert claims.trials_complete_in_one_run(outcome) == []


@every_kind
def test_every_metric_is_stored_once(outcome: Outcome) -> None:
    assert claims.metrics_are_those_without_faults(outcome) == []


@every_kind
def test_every_checkpoint_is_recorded(outcome: Outcome) -> None:
    assert claims.checkpoints_are_those_without_faults(outcome) == []


@every_kind
def test_no_step_is_trained_twice(outcome: Outcome) -> None:
    assert claims.no_step_is_trained_twice(outcome) == []


@every_kind
def test_every_log_line_arrives_once(outcome: Outcome) -> None:
    assert claims.logs_have_every_line_once(outcome) == []


@every_kind
def test_log_has_no_errors(outcome: Outcome) -> None:
    assert claims.logs_have_no_errors(outcome) == []


@every_kind
def test_log_explains_the_outage_in_one_line(outcome: Outcome) -> None:
    assert claims.logs_explain_the_outage_in_one_line(outcome) == []


@every_kind
def test_successful_command_and_task_are_completed(outcome: Outcome) -> None:
    assert claims.tasks_that_ended_well_are_shown_so(outcome) == []


@every_kind
def test_long_command_keeps_its_container(outcome: Outcome) -> None:
    assert claims.a_lasting_command_keeps_its_container(outcome) == []


@every_kind
def test_api_downtime_loses_no_agent(outcome: Outcome) -> None:
    assert claims.an_api_that_was_away_gives_up_no_agent(outcome) == []


@every_kind
def test_det_why_names_the_disconnected_agent(outcome: Outcome) -> None:
    assert claims.why_names_the_agent(outcome) == []
