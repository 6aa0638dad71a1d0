"""Slow ranks are named and their machines replaced; runs without progress end and start again."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.api import Api, Caller, create, trial_of
from tests.support.played_agent import PlayedAgent

SLOW = {
    "rank": 1, "slowdown": 0.25, "ownSeconds": 0.125, "medianSeconds": 0.1, "cause": "data",
    "stepsCompleted": 80,
}  # fmt: skip


class Run:
    """A running trial of one container, and the agent that has it."""

    def __init__(self, api: Api, user: Caller, **resources: Any) -> None:
        self.api, self.user = api, user
        self.experiment = create(
            user, activate=True, max_restarts=2, resources={"slots_per_trial": 2, **resources}
        )
        self.agent = PlayedAgent(api, "gpu-1")
        self.agent.join()
        self.start()

    def start(self) -> None:
        self.api.tick()
        (order,) = self.agent.poll("running")
        self.agent.poll("running")
        self.allocation = order["spec"]["allocation_id"]
        self.caller = self.api.with_token(order["spec"]["session_token"])

    def report(self, **more: Any) -> Any:
        trial = trial_of(self.user, self.experiment)["id"]
        body = {**SLOW, "agentId": "gpu-1", **more}
        return self.caller.ask("POST", f"/api/v1/trials/{trial}/stragglers", body)

    def why(self) -> str:
        (reason,) = self.user.get(f"/api/v1/why/experiment/{self.experiment}")["reasons"]
        return str(reason["sentence"])

    def progress(self, age_s: float) -> float:
        path = f"/api/v1/allocations/{self.allocation}/progress"
        return float(self.caller.post(path, {"ageSeconds": age_s})["ageSeconds"])

    def hang(self) -> bool:
        return bool(self.caller.post(f"/api/v1/allocations/{self.allocation}/hang")["hung"])

    def pass_time(self, **delta: float) -> None:
        now = self.api.ctx.now()
        self.api.ctx.now = lambda: now + timedelta(**delta)
        self.agent.poll("running")

    def end_killed(self) -> None:
        self.pass_time(seconds=11)
        self.api.tick()
        (order,) = self.agent.poll("running")
        assert order["desired"] == "killed"
        self.agent.poll("terminated", exit_code=137)
        self.agent.containers = {}


@pytest.fixture
def run(api: Api, user: Caller) -> Run:
    return Run(api, user)


@pytest.fixture
def watched(api: Api, user: Caller) -> Run:
    return Run(api, user, hang_timeout="10m")


def test_a_slow_rank_is_named_until_it_recovers(run: Run) -> None:
    assert run.report().status == 200
    assert "rank 1 on agent gpu-1 is slow (125.0 ms per step instead of 100.0 ms, mostly data)" in (
        run.why()
    )
    run.report(recovered=True)
    assert "slow" not in run.why()


def test_an_agent_that_the_trial_does_not_use_is_not_named(run: Run) -> None:
    run.report(agentId="of-somebody-else")
    assert "rank 1 is slow" in run.why()


def test_a_person_cannot_report_a_slow_rank(run: Run, admin: Caller) -> None:
    trial = trial_of(run.user, run.experiment)["id"]
    answer = admin.ask("POST", f"/api/v1/trials/{trial}/stragglers", SLOW)
    assert answer.status == 403


@pytest.mark.parametrize("wrong", [{"cause": "magic"}, {"rank": -1}, {"ownSeconds": -1.0}])
def test_an_impossible_report_is_rejected(run: Run, wrong: dict[str, Any]) -> None:
    assert run.report(**wrong).status == 400


def test_a_webhook_is_sent_once_for_each_slow_rank(run: Run, admin: Caller) -> None:
    trigger = {"triggerType": "TRIGGER_TYPE_CUSTOM", "condition": {"subject": "straggler"}}
    body = {
        "name": "slow", "url": "https://example.com/x", "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": 0, "triggers": [trigger],
    }  # fmt: skip
    admin.post("/api/v1/webhooks", body)
    run.report()
    run.report(slowdown=0.3)
    run.report(rank=0, cause="compute")
    with run.api.ctx.db.begin() as tx:
        rows = tx.exec_driver_sql(
            "SELECT payload->'event'->'event_data'->'straggler' FROM outbox WHERE kind = 'webhook' ORDER BY id"
        ).all()
    assert [(row[0]["rank"], row[0]["agent_id"], row[0]["cause"]) for row in rows] == [
        (1, "gpu-1", "data"),
        (0, "gpu-1", "compute"),
    ]


def test_the_newest_progress_of_all_containers_counts(watched: Run) -> None:
    assert watched.progress(0) == 0
    watched.pass_time(seconds=30)
    assert watched.progress(20) == 20
    assert watched.progress(500) == 20


def test_a_run_with_progress_does_not_hang(watched: Run) -> None:
    watched.progress(0)
    watched.pass_time(seconds=300)
    assert watched.hang() is False


def test_a_trial_without_a_hang_timeout_does_not_hang(run: Run) -> None:
    run.progress(0)
    run.pass_time(days=1)
    assert run.hang() is False


def test_a_hanging_run_starts_again_three_times_without_a_restart(watched: Run) -> None:
    for restarts in (0, 0, 0, 1):
        watched.progress(0)
        watched.pass_time(seconds=601)
        assert watched.hang() is True
        assert watched.hang() is True, "the other containers report it too"
        watched.end_killed()
        trial = trial_of(watched.user, watched.experiment)
        assert trial["restarts"] == restarts
        watched.start()


def test_the_log_says_that_a_run_hangs(watched: Run, api: Api) -> None:
    watched.progress(0)
    watched.pass_time(seconds=601)
    watched.hang()
    trial = trial_of(watched.user, watched.experiment)["id"]
    log = str(watched.user.ask("GET", f"/api/v1/trials/{trial}/logs").body)
    assert "no rank made progress for 600 s (resources.hang_timeout)" in log
    assert "does not count as a restart" in log


def test_a_short_hang_timeout_is_rejected(user: Caller) -> None:
    answer = user.ask("POST", "/api/v1/experiments", {"config": "resources: {hang_timeout: 5s}"})
    assert "resources.hang_timeout: is 5 seconds, and the shortest is a minute" in str(answer.body)
