"""The checks of the rehearsal steps, against an in-memory cluster with faults."""

from dataclasses import replace

import pytest
from det_cli.deployment.rehearsal.cluster_client import Machine
from det_cli.deployment.rehearsal.records import State
from det_cli.deployment.rehearsal.stage import DatabaseState

from tests.support.rehearsed import RehearsalSession


@pytest.fixture
def played() -> RehearsalSession:
    return RehearsalSession()


def test_all_steps_pass_on_a_cluster_without_faults(played: RehearsalSession) -> None:
    played.removes = True
    played.deployment.relay = "i-relay"
    report = played.run()
    assert {o.step: o.state.value for o in report.outcomes} == dict.fromkeys(
        ("up", "idle", "spot", "train", "interruption", "upgrade", "notebook", "down"), "passed"
    ), [o.detail for o in report.outcomes]
    assert report.has_passed
    assert report.remains == ("the bucket the-bucket",)


def test_up_creates_missing_cluster(played: RehearsalSession) -> None:
    played.deployment.there = False
    assert "was created" in played.outcome("up").detail
    assert played.deployment.made == 1


def test_up_does_not_change_existing_cluster(played: RehearsalSession) -> None:
    assert "existed before" in played.outcome("up").detail
    assert played.deployment.made == 0


def test_idle_waits_for_idle_minutes(played: RehearsalSession) -> None:
    outcome = played.outcome("idle")
    assert (outcome.state, outcome.seconds) == (State.PASSED, 600.0)


def test_idle_is_skipped_while_other_tasks_run(played: RehearsalSession) -> None:
    played.cluster.other_work = ["1.1"]
    outcome = played.outcome("idle")
    assert (outcome.state, "1 running or queued tasks" in outcome.detail) == (State.SKIPPED, True)


def test_idle_fails_for_machine_without_work(played: RehearsalSession) -> None:
    played.cluster.add_machine("warm")
    outcome = played.outcome("idle")
    assert (outcome.state, "1 machines: i-warm of gpus" in outcome.detail) == (State.FAILED, True)


def test_idle_fails_for_machine_missing_in_the_cluster(played: RehearsalSession) -> None:
    played.cloud.unknown_machines = ["i-lost"]
    outcome = played.outcome("idle")
    assert (outcome.state, "i-lost" in outcome.detail) == (State.FAILED, True)


def test_idle_fails_while_schedules_are_on(played: RehearsalSession) -> None:
    played.cloud.on = ["det-lab-tick"]
    outcome = played.outcome("idle")
    assert (outcome.state, "det-lab-tick" in outcome.detail) == (State.FAILED, True)


@pytest.mark.parametrize(("minutes", "state"), [(10.0, State.FAILED), (1.0, State.PASSED)])
def test_idle_fails_if_database_does_not_pause_in_time(
    played: RehearsalSession, minutes: float, state: State
) -> None:
    played.idle_minutes = minutes
    played.cloud.state = DatabaseState(False, "the database was awake")
    assert played.outcome("idle").state is state


def test_spot_reports_the_time_of_each_phase(played: RehearsalSession) -> None:
    detail = played.outcome("spot").detail
    assert "joined after 0 s, container running after 0 s, first metric after 5 s" in detail


def test_spot_failure_has_reason_of_the_cluster(played: RehearsalSession) -> None:
    played.cluster.waits_for = "needs 1 slot; the quota of g4dn is 0"
    outcome = played.outcome("spot")
    assert outcome.state is State.FAILED
    assert "the quota of g4dn is 0" in outcome.detail
    assert "det pool why gpus" in outcome.next_step
    assert "  needs 1 slot; the quota of g4dn is 0" in played.said


def test_spot_fails_on_on_demand_machine(played: RehearsalSession) -> None:
    played.cluster.capacity = "on-demand"
    outcome = played.outcome("spot")
    assert (outcome.state, "not a spot machine" in outcome.detail) == (State.FAILED, True)


@pytest.mark.parametrize("step", ["spot", "train", "interruption", "upgrade"])
def test_failed_training_is_reported(played: RehearsalSession, step: str) -> None:
    played.cluster.ends_all_as = "ERROR"
    outcome = played.outcome(step)
    assert (outcome.state, "as ERROR" in outcome.detail) == (State.FAILED, True)
    assert "det experiment logs 1" in outcome.next_step


@pytest.mark.parametrize("step", ["train", "interruption", "upgrade"])
def test_missing_metric_is_reported(played: RehearsalSession, step: str) -> None:
    played.cluster.loses_step = 3
    outcome = played.outcome(step)
    assert (outcome.state, "1 have no metric [3]" in outcome.detail) == (State.FAILED, True)


@pytest.mark.parametrize("step", ["train", "interruption", "upgrade"])
def test_wrong_metric_is_reported(
    played: RehearsalSession, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = played.cluster.progress

    def wrong(trial_id: int) -> object:
        current = progress(trial_id)
        metrics = [replace(m, value=0) if m.step == 2 else m for m in current.metrics]
        return replace(current, metrics=metrics)

    monkeypatch.setattr(played.cluster, "progress", wrong)
    outcome = played.outcome(step)
    assert (outcome.state, "1 have a wrong metric [2]" in outcome.detail) == (State.FAILED, True)


def test_train_fails_if_bucket_lacks_the_checkpoint(played: RehearsalSession) -> None:
    played.cloud.objects = ()
    outcome = played.outcome("train")
    assert outcome.state is State.FAILED
    assert "the bucket the-bucket lacks state.json of checkpoint uuid-20" in outcome.detail


def test_interrupted_trial_resumes_on_another_machine(played: RehearsalSession) -> None:
    outcome = played.outcome("interruption")
    assert outcome.state is State.PASSED, outcome.detail
    assert "terminated i-0" in outcome.detail
    assert "from its checkpoint of step 5" in outcome.detail
    assert [m.ended_at is not None for m in played.cluster.listed] == [True, True]


def test_second_machine_may_reuse_the_agent_name(played: RehearsalSession) -> None:
    played.cluster.agent_name = "ip-10-0-0-4"
    outcome = played.outcome("interruption")
    assert outcome.state is State.PASSED, outcome.detail


def test_late_reports_of_first_run_are_not_counted_for_second_run(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.cluster.agent_name = "ip-10-0-0-4"

    def reclaim(machine: Machine) -> str:
        played.cluster.advance()  # reports a metric after the rehearsal has read the metrics
        played.cluster.lose(machine)
        played.cluster.add_machine("second")  # joins before it runs the trial
        return "terminated"

    monkeypatch.setattr(played.cloud, "reclaim", reclaim)
    outcome = played.outcome("interruption")
    assert outcome.state is State.PASSED, outcome.detail


def test_interrupted_trial_without_checkpoint_fails_the_step(played: RehearsalSession) -> None:
    played.cluster.forgets_checkpoints = True
    outcome = played.outcome("interruption")
    assert outcome.state is State.FAILED
    assert "had a checkpoint of step 5 but restarted at step 0" in outcome.detail


def test_missing_interruption_fails_the_step(played: RehearsalSession) -> None:
    played.cloud.does_reclaim = False
    outcome = played.outcome("interruption")
    assert (outcome.state, "progress on another machine" in outcome.detail) == (State.FAILED, True)


def test_counted_restart_fails_the_interruption_step(played: RehearsalSession) -> None:
    played.cluster.charges_restarts = True
    outcome = played.outcome("interruption")
    assert (outcome.state, "has 1 counted restarts" in outcome.detail) == (State.FAILED, True)


def test_upgrade_that_stops_training_fails_the_step(played: RehearsalSession) -> None:
    def stop() -> None:
        played.cluster.lose(played.cluster.machines()[0])
        played.cluster.waits_for = "the new version rents nothing"

    played.deployment.upgrading = stop
    outcome = played.outcome("upgrade")
    assert (outcome.state, "progress after the upgrade" in outcome.detail) == (State.FAILED, True)
    assert "the new version rents nothing" in outcome.detail


def test_upgrade_reports_both_versions(played: RehearsalSession) -> None:
    played.deployment.upgrading = lambda: played.cluster.versions.insert(0, "1.1")
    outcome = played.outcome("upgrade")
    assert (outcome.state, "from version 1.0 to 1.1" in outcome.detail) == (State.PASSED, True)
    assert played.deployment.made == 1


def test_notebook_is_skipped_without_relay(played: RehearsalSession) -> None:
    outcome = played.outcome("notebook")
    assert (outcome.state, "no relay" in outcome.detail) == (State.SKIPPED, True)


def test_notebook_page_is_read_and_notebook_ends(played: RehearsalSession) -> None:
    played.deployment.relay = "i-relay"
    assert played.outcome("notebook").state is State.PASSED
    assert played.cluster.played_notebooks["notebook-1"].has_ended


@pytest.mark.parametrize("page", [(502, "no relay"), (200, "another page")])
def test_unexpected_notebook_page_fails_the_step(
    played: RehearsalSession, page: tuple[int, str]
) -> None:
    played.deployment.relay = "i-relay"
    played.cluster.page = page
    outcome = played.outcome("notebook")
    assert (outcome.state, f"status {page[0]}" in outcome.detail) == (State.FAILED, True)


def test_down_keeps_cluster_without_down_option(played: RehearsalSession) -> None:
    outcome = played.outcome("down")
    assert (outcome.state, "only --down removes it" in outcome.detail) == (State.SKIPPED, True)
    assert not played.deployment.is_removed
