"""The meaning of an allocation's exit, and the consequence for its trial."""

from dataclasses import replace

import pytest
from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    ContainerExit,
    ContainerState,
    Exit,
    ExitKind,
    Failure,
    classify,
    state_of,
)
from det_controlplane.core.lifecycle.trial import (
    TrialState,
    TrialView,
    after_exit,
    after_patch,
    retry_delay,
)
from det_controlplane.core.search import ExitReason
from hypothesis import given
from hypothesis import strategies as st

S = TrialState
CLEAN = ContainerExit(0, None)
FAILED = ContainerExit(1, Failure.CONTAINER_FAILED)
LOST = ContainerExit(None, Failure.AGENT_LOST)
TRIAL = TrialView(
    state=S.ACTIVE, restarts=0, max_restarts=2, stopped_by_searcher=False, early_exit=None,
    parked=False, retries_cancelled=False, out_of_agents=False, pull_failures=0,
)  # fmt: skip


def kind_of(*exits: ContainerExit, killed: bool = False, acked: bool = False) -> ExitKind:
    return classify(exits, killed_before_exit=killed, preempt_acked=acked).kind


def test_exits_are_classified_by_the_first_rule_that_matches() -> None:
    assert kind_of() is ExitKind.NEVER_RAN
    assert kind_of(ContainerExit(137, Failure.CONTAINER_FAILED), killed=True) is ExitKind.KILLED
    assert kind_of(FAILED, acked=True) is ExitKind.PREEMPTED
    assert kind_of(CLEAN, CLEAN) is ExitKind.CLEAN
    assert kind_of(CLEAN, FAILED) is ExitKind.FAILED
    assert kind_of(LOST) is ExitKind.INFRASTRUCTURE


def test_failures_after_a_lost_agent_are_infrastructure_failures() -> None:
    assert kind_of(LOST, FAILED) is ExitKind.INFRASTRUCTURE


def test_failed_daemon_after_successful_containers_is_not_a_failure() -> None:
    assert kind_of(CLEAN, replace(FAILED, daemon=True)) is ExitKind.CLEAN


def test_allocation_has_the_state_of_its_most_advanced_container() -> None:
    C = ContainerState
    assert state_of([]) is AllocationState.QUEUED
    assert state_of([C.ASSIGNED, C.PULLING]) is AllocationState.PULLING
    assert state_of([C.RUNNING, C.STARTING]) is AllocationState.RUNNING
    assert state_of([C.RUNNING, C.TERMINATED]) is AllocationState.TERMINATING
    assert state_of([C.TERMINATED, C.TERMINATED]) is AllocationState.TERMINATED


def test_failures_of_user_code_are_retried_up_to_max_restarts() -> None:
    failure = Exit(ExitKind.FAILED, "exit code 1")
    assert after_exit(TRIAL, failure).state is S.ACTIVE
    assert after_exit(TRIAL, failure).counts_as_restart
    last = after_exit(replace(TRIAL, restarts=2), failure)
    assert last.state is S.ERROR
    assert "max_restarts is 2" in last.reason
    assert not last.counts_as_restart


@pytest.mark.parametrize(
    "trial",
    [
        replace(TRIAL, restarts=TRIAL.max_restarts),
        replace(TRIAL, retries_cancelled=True),
        replace(TRIAL, stopped_by_searcher=True),
        replace(TRIAL, state=S.STOPPING_CANCELED),
    ],
)
def test_a_failure_that_is_not_followed_by_a_restart_is_not_counted(trial: TrialView) -> None:
    after = after_exit(trial, Exit(ExitKind.FAILED, "exit code 1"))
    assert (after.state, after.counts_as_restart) == (S.ERROR, False)


def test_infrastructure_never_spends_the_users_retries() -> None:
    loss_of_agent = Exit(ExitKind.INFRASTRUCTURE, "the agent was lost")
    after = after_exit(replace(TRIAL, restarts=2), loss_of_agent)
    assert after.state is S.ACTIVE
    assert not after.counts_as_restart


def test_trial_fails_after_three_failed_image_pulls_in_a_row() -> None:
    pull = Exit(ExitKind.INFRASTRUCTURE, "cannot pull", pull_failed=True)
    assert after_exit(replace(TRIAL, pull_failures=2), pull).state is S.ACTIVE
    assert after_exit(replace(TRIAL, pull_failures=3), pull).state is S.ERROR


def test_a_clean_exit_completes_the_trial_unless_it_was_preempted_or_parked() -> None:
    assert after_exit(TRIAL, Exit(ExitKind.CLEAN)).state is S.COMPLETED
    assert after_exit(TRIAL, Exit(ExitKind.PREEMPTED)).state is S.ACTIVE
    assert after_exit(replace(TRIAL, state=S.PAUSED), Exit(ExitKind.PREEMPTED)).state is S.PAUSED
    assert after_exit(replace(TRIAL, parked=True), Exit(ExitKind.CLEAN)).state is S.ACTIVE


def test_trial_stopped_by_the_searcher_completes_after_any_nonfailing_exit() -> None:
    trial = replace(TRIAL, stopped_by_searcher=True)
    for kind in (ExitKind.CLEAN, ExitKind.PREEMPTED, ExitKind.KILLED, ExitKind.INFRASTRUCTURE):
        assert after_exit(trial, Exit(kind)).state is S.COMPLETED
    assert after_exit(trial, Exit(ExitKind.FAILED)).state is S.ERROR


def test_a_matched_log_policy_cancels_retries() -> None:
    after = after_exit(replace(TRIAL, retries_cancelled=True), Exit(ExitKind.FAILED, "CUDA OOM"))
    assert after.state is S.ERROR
    assert "trial failed and matched logs to a don't retry policy" in after.reason


def test_a_failure_on_the_last_agent_that_a_trial_may_use_is_final() -> None:
    after = after_exit(replace(TRIAL, out_of_agents=True), Exit(ExitKind.FAILED, "exit 3"))
    assert (after.state, after.counts_as_restart) == (S.ERROR, False)
    assert "too few slots" in after.reason


@given(st.sampled_from(list(S)), st.sampled_from(list(S)))
def test_a_terminal_state_never_changes_and_stopping_never_softens(state: S, target: S) -> None:
    after = after_patch(state, target)
    if state.terminal:
        assert after is state
    if state.stopping:
        assert after.stopping
    assert not (after.terminal and not state.terminal)


@given(
    st.builds(
        TrialView, state=st.sampled_from([s for s in S if not s.terminal]), restarts=st.integers(0, 9),
        max_restarts=st.integers(0, 9), stopped_by_searcher=st.booleans(),
        early_exit=st.none() | st.sampled_from(ExitReason),
        parked=st.booleans(), retries_cancelled=st.booleans(), pull_failures=st.integers(0, 4),
    ),
    st.builds(Exit, kind=st.sampled_from(ExitKind), pull_failed=st.booleans()),
)  # fmt: skip
def test_only_failures_of_user_code_count_as_restarts(trial: TrialView, exit: Exit) -> None:
    after = after_exit(trial, exit)
    assert not after.counts_as_restart or exit.kind is ExitKind.FAILED
    assert not after.state.stopping or after.state is trial.state


@pytest.mark.parametrize(
    ("setbacks", "seconds"), [(0, 0), (1, 0), (2, 5), (3, 10), (6, 80), (9, 300), (10**6, 300)]
)
def test_repeated_infrastructure_failures_increase_the_delay(setbacks: int, seconds: int) -> None:
    assert retry_delay(setbacks).total_seconds() == seconds
