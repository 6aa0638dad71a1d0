"""The runner of a rehearsal: the order of steps, skipped steps, terminated machines and costs."""

import pytest
from det_cli.deployment.rehearsal.records import State
from det_cli.deployment.rehearsal.stage import Stage
from det_cli.errors import CommandError
from determined.common.http import APIError

from tests.support.rehearsed import RehearsalSession


@pytest.fixture
def played() -> RehearsalSession:
    return RehearsalSession()


def states(played: RehearsalSession, steps: str | None = None) -> dict[str, str]:
    return {outcome.step: outcome.state.value for outcome in played.run(steps).outcomes}


def test_steps_after_failed_requirement_are_skipped(played: RehearsalSession) -> None:
    played.cluster.waits_for = "there is no capacity"
    report = played.run()
    by_step = {outcome.step: outcome for outcome in report.outcomes}
    assert by_step["spot"].state is State.FAILED
    for step in ("train", "interruption", "upgrade"):
        assert by_step[step].state is State.SKIPPED
    assert by_step["train"].detail == "it needs spot, which did not pass"
    assert by_step["interruption"].detail == "it needs train, which did not pass"
    assert not report.has_passed


def test_unselected_step_is_not_required(played: RehearsalSession) -> None:
    assert states(played, "interruption") == {"up": "passed", "interruption": "passed"}


def test_failed_up_skips_all_other_steps(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.deployment.there = False

    def refuse() -> None:
        raise CommandError("AWS denies CreateRole", "ask an administrator")

    monkeypatch.setattr(played.deployment, "make", refuse)
    report = played.run()
    assert {outcome.state for outcome in report.outcomes[1:]} == {State.SKIPPED}
    assert report.outcomes[0].detail == "AWS denies CreateRole"
    assert report.outcomes[0].next_step == "ask an administrator"


def test_cluster_is_kept_after_a_failure(played: RehearsalSession) -> None:
    played.removes, played.deployment.there = True, False
    played.cluster.forgets_checkpoints = True
    report = played.run()
    assert report.outcomes[-1].detail.startswith("interruption failed: the cluster is kept")
    assert not played.deployment.is_removed


@pytest.mark.parametrize("fault", ["forgets_checkpoints", "charges_restarts"])
def test_machines_are_terminated_after_a_failure(played: RehearsalSession, fault: str) -> None:
    setattr(played.cluster, fault, True)
    report = played.run("interruption")
    assert report.failed
    assert played.cluster.machines() == []
    assert played.cluster.trials[1].state == "CANCELED"
    assert report.leftovers == ()


def test_machines_are_terminated_after_ctrl_c(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: object) -> str:
        assert played.cluster.machines(), "the trial's machine is there"
        raise KeyboardInterrupt

    monkeypatch.setattr(played.cloud, "reclaim", press)
    rehearsal = played.rehearsal("interruption,upgrade")
    report = rehearsal.run()
    assert rehearsal.is_interrupted
    details = {outcome.step: outcome.detail for outcome in report.outcomes}
    assert details["interruption"] == details["upgrade"] == "stopped by Ctrl-C"
    assert played.cluster.machines() == []
    assert played.kept[-1] == report


def test_machines_are_terminated_after_an_unexpected_exception(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(played.cloud, "reclaim", break_down)
    with pytest.raises(ZeroDivisionError):
        played.run("interruption")
    assert played.cluster.machines() == []


def test_machines_are_terminated_before_the_cluster_is_removed(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.removes = True
    remaining: list[object] = []
    remove = played.deployment.remove

    def look() -> object:
        remaining.extend(played.cluster.machines())
        return remove()

    monkeypatch.setattr(played.deployment, "remove", look)
    assert states(played, "spot,down")["down"] == "passed"
    assert remaining == []


def test_machines_of_others_and_earlier_machines_are_kept(played: RehearsalSession) -> None:
    earlier = played.cluster.add_machine("earlier")
    played.cluster.earlier = {earlier.id}
    rehearsal = played.rehearsal("spot")
    played.cluster.busy_agents = {"agent-1"}
    machine = played.cluster.add_machine("1")
    report = rehearsal.run()
    assert [m.id for m in played.cluster.machines()] == [earlier.id, machine.id]
    assert report.leftovers == ()
    assert any("other work runs on it" in line for line in played.said)


def test_machines_that_keep_running_are_reported(played: RehearsalSession) -> None:
    played.cluster.keeps_machines = True
    report = played.run("spot")
    assert report.leftovers == ("aws us-west-2a g4dn spot i-0",)
    assert not report.has_passed


def test_cloud_lists_machines_if_the_cluster_cannot(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise APIError(500, "the database is gone")

    played.cluster.add_machine("7")
    monkeypatch.setattr(played.cluster, "rented_since", refuse)
    report = played.run("up")
    assert report.leftovers == ("i-7 in AWS",)


def test_steps_above_remaining_budget_are_skipped(played: RehearsalSession) -> None:
    played.max_cost_usd = 0.80
    report = played.run("spot,train,interruption")
    by_step = {outcome.step: outcome for outcome in report.outcomes}
    assert by_step["train"].state is State.PASSED
    assert by_step["interruption"].state is State.SKIPPED
    assert "of $0.80 is spent" in by_step["interruption"].detail


def test_costs_include_machines_and_control_plane(
    played: RehearsalSession,
) -> None:
    report = played.run("idle,spot,train")
    seconds = {outcome.step: outcome.seconds for outcome in report.outcomes}
    control = (seconds["idle"] * 0.001 + (seconds["spot"] + seconds["train"]) * 0.06) / 3600
    assert report.cost_usd == pytest.approx(played.cluster.spent_usd() + control)
    assert played.cluster.spent_usd() > 0


def test_report_is_saved_after_every_step(played: RehearsalSession) -> None:
    played.run("spot,train")
    assert [len(report.outcomes) for report in played.kept] == [1, 2, 3, 3]
    assert [report.has_passed for report in played.kept] == [False, False, False, True]


def test_report_has_versions_of_program_and_cluster(played: RehearsalSession) -> None:
    played.deployment.upgrading = lambda: played.cluster.versions.insert(0, "1.1")
    report = played.run("upgrade")
    assert report.versions == {"det": "1.0", "the cluster": "1.1"}
    assert played.kept[0].versions == {"det": "1.0", "the cluster": "1.0"}


def test_temporary_errors_of_the_cluster_are_retried(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress, failures = played.cluster.progress, [APIError(503, "starting")] * 2

    def sometimes(trial_id: int) -> object:
        if failures:
            raise failures.pop()
        return progress(trial_id)

    monkeypatch.setattr(played.cluster, "progress", sometimes)
    assert states(played, "spot")["spot"] == "passed"


def test_forbidden_request_fails_the_step_immediately(
    played: RehearsalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(config: object) -> int:
        raise APIError(403, "may not create experiments")

    monkeypatch.setattr(played.cluster, "create_experiment", refuse)
    outcome = played.outcome("spot")
    assert (outcome.state, outcome.seconds) == (State.FAILED, 0.0)
    assert "may not create experiments" in outcome.detail


def test_stage_has_no_client_before_sign_in(played: RehearsalSession) -> None:
    played.rehearsal()
    stage: Stage = played.stage
    with pytest.raises(AssertionError):
        _ = stage.cluster
