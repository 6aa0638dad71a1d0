"""Lines of a trial's log about the end of a run."""

from dataclasses import replace

import pytest
from det_controlplane.core.lifecycle.allocation import Exit, ExitKind
from det_controlplane.core.lifecycle.trial import TrialState, TrialView, after_exit, log_line

TRIAL = TrialView(
    state=TrialState.ACTIVE, restarts=0, max_restarts=2, stopped_by_searcher=False,
    early_exit=None, parked=False, retries_cancelled=False, out_of_agents=False, pull_failures=0,
)  # fmt: skip
FAILED = Exit(ExitKind.FAILED, "container failed with non-zero exit code: 137", exit_code=137)


def line(trial: TrialView, exit: Exit) -> str:
    return log_line(trial, exit, after_exit(trial, exit))


def test_log_of_a_failed_run_has_its_exit_and_restart_count() -> None:
    assert line(TRIAL, FAILED) == (
        "The run failed: container failed with non-zero exit code: 137. "
        "It goes on from its newest checkpoint, if it has one (restart 1 of 2)."
    )


def test_log_of_the_last_failure_names_max_restarts() -> None:
    text = line(replace(TRIAL, restarts=2), FAILED)
    assert text.startswith("The trial failed: container failed with non-zero exit code: 137")
    assert text.endswith("; it has failed 3 times and max_restarts is 2.")


def test_log_of_a_trial_without_restarts_says_failed_once() -> None:
    text = line(replace(TRIAL, max_restarts=0), FAILED)
    assert text.endswith("; it has failed once and max_restarts is 0.")


def test_log_says_that_a_lost_machine_does_not_count() -> None:
    text = line(TRIAL, Exit(ExitKind.INFRASTRUCTURE, "the agent was lost"))
    assert text == (
        "The run was lost: the agent was lost. It starts again; this is not counted as a restart."
    )


@pytest.mark.parametrize("state", [TrialState.ACTIVE, TrialState.PAUSED])
def test_log_says_that_a_preempted_run_stopped(state: TrialState) -> None:
    text = line(replace(TRIAL, state=state), Exit(ExitKind.PREEMPTED, "stopped"))
    assert text == "The run stopped as it was asked to, and frees its slots."


def test_finished_run_has_no_log_line() -> None:
    assert line(TRIAL, Exit(ExitKind.CLEAN, "ended", exit_code=0)) == ""
