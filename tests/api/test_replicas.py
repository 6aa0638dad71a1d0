"""Runs that start from replicas in memory keep all metrics, and agents delete unneeded replicas."""

from typing import Any

import pytest

from tests.support.api import Api, Caller, create, report_checkpoint, report_metrics, trial_of
from tests.support.played_agent import PlayedAgent

GIB = 1024**3


class Trial:
    """A trial of two slots, and the agent that has its newest run."""

    def __init__(self, api: Api, user: Caller, **resources: Any) -> None:
        self.api, self.user = api, user
        resources = {"slots_per_trial": 2, **resources}
        self.experiment = create(user, activate=True, max_restarts=5, resources=resources)
        self.agent = PlayedAgent(api, "gpu-1")
        self.agent.join()
        self.start()

    @property
    def row(self) -> dict[str, Any]:
        return trial_of(self.user, self.experiment)

    def start(self) -> None:
        self.api.tick()
        (order,) = self.agent.poll("running")
        self.agent.poll("running")
        self.spec = order["spec"]
        self.task = self.api.with_token(self.spec["session_token"])

    def crash(self) -> None:
        self.agent.poll("terminated", exit_code=1, failure="container_failed")
        self.agent.containers = {}

    def report(self, run: int, steps: int, group: str = "training", by: Any = None) -> int:
        metrics = {"loss": float(run)}
        return report_metrics(by or self.task, self.row["id"], group, steps, metrics, run).status

    def resume(self, steps: int, **reported: int) -> Any:
        path = f"/api/v1/allocations/{self.spec['allocation_id']}/replica"
        return self.task.ask("POST", path, {"stepsCompleted": steps, "reported": reported})

    def losses(self) -> dict[int, float]:
        """Return the losses that count, which have the number of their run, by step."""
        path = f"/api/v1/trials/{self.row['id']}/workloads"
        rows = self.user.get(path, limit=100)["workloads"]
        workloads = [row["training"] for row in rows if row.get("training")]
        return {w["totalBatches"]: w["metrics"]["avgMetrics"]["loss"] for w in workloads}

    def dropped(self, agent: PlayedAgent | None = None) -> list[str]:
        """Return the tasks whose replicas an agent may delete. It has replicas of this trial and of an unknown one."""
        agent = agent or self.agent
        body = {**agent.sent, "replicas": [self.row["taskId"], "unknown"]}
        answer = agent.caller.post("/agents/v1/poll", body)
        return sorted(set(answer["drop_replicas"]) - {"unknown"})


@pytest.fixture
def trial(api: Api, user: Caller) -> Trial:
    return Trial(api, user, min_slots_per_trial=1)


@pytest.mark.parametrize(
    ("resources", "replica_bytes"),
    [
        ({}, 0),
        ({"min_slots_per_trial": 1}, 4 * GIB),
        ({"replication_period": 5}, 4 * GIB),
        ({"min_slots_per_trial": 1, "replica_memory": "10g"}, 10 * GIB),
        ({"replica_memory": 1024}, 1024),
    ],
)
def test_configuration_sets_the_memory_for_replicas(
    api: Api, user: Caller, resources: dict[str, Any], replica_bytes: int
) -> None:
    spec = Trial(api, user, **resources).spec
    assert spec["replica_bytes"] == replica_bytes
    assert spec["env"].get("DET_REPLICA_BYTES", "0") == str(replica_bytes)


def test_configuration_without_replicas_has_no_new_keys(api: Api, user: Caller) -> None:
    resources = user.get(f"/api/v1/experiments/{create(user)}")["experiment"]["config"]["resources"]
    assert not [key for key in resources if key.startswith("repli")]


def test_metrics_between_the_checkpoint_and_the_replica_count_once(trial: Trial) -> None:
    first = trial.task
    trial.report(1, 5)
    report_checkpoint(first, trial.experiment, steps=5)
    for steps in (10, 15):
        trial.report(1, steps)
    trial.crash()
    trial.start()
    assert trial.spec["env"]["DET_STEPS_COMPLETED"] == "5"
    assert trial.resume(12, training=10).json() == {"refusal": ""}
    # The agent of the first run delivers a report late.
    assert trial.report(1, 11, by=first) == 200
    for steps in (15, 20):
        trial.report(2, steps)
    assert trial.losses() == {5: 1.0, 10: 1.0, 11: 1.0, 15: 2.0, 20: 2.0}


def test_late_reports_after_the_replica_do_not_count(trial: Trial) -> None:
    first = trial.task
    trial.report(1, 5)
    trial.crash()
    trial.start()
    trial.resume(12, training=5)
    assert trial.report(1, 13, by=first) == 200
    assert trial.losses() == {5: 1.0}


def test_replica_is_refused_if_a_report_was_lost_with_its_machine(trial: Trial) -> None:
    trial.report(1, 5)
    trial.report(1, 5, group="validation")
    trial.crash()
    trial.start()
    answer = trial.resume(12, training=10, validation=5)
    assert answer.json() == {
        "refusal": "the training metrics of step 10 were lost with their machine"
    }
    # The run starts from its checkpoint, so reports of these steps are repeated.
    trial.report(2, 10)
    assert trial.losses() == {5: 1.0, 10: 2.0}


def test_run_cannot_start_before_its_checkpoint(trial: Trial) -> None:
    report_checkpoint(trial.task, trial.experiment, steps=5)
    trial.crash()
    trial.start()
    assert trial.resume(4).status == 400
    assert trial.resume(-1).status == 400


def test_agent_keeps_replicas_while_the_trial_may_read_them(trial: Trial) -> None:
    assert trial.dropped() == []
    trial.crash()
    # The next run waits, and may come back.
    assert trial.dropped() == []
    trial.start()
    assert trial.dropped() == []


def test_agent_deletes_replicas_when_the_trial_ends(trial: Trial) -> None:
    trial.agent.poll("terminated", exit_code=0)
    trial.agent.containers = {}
    assert trial.row["state"] == "STATE_COMPLETED"
    assert trial.dropped() == [trial.row["taskId"]]


def test_agent_deletes_replicas_when_the_trial_is_paused(trial: Trial) -> None:
    trial.user.post(f"/api/v1/experiments/{trial.experiment}/pause")
    trial.task.post(f"/api/v1/allocations/{trial.spec['allocation_id']}/signals/ack_preemption")
    trial.agent.poll("terminated", exit_code=0)
    trial.agent.containers = {}
    assert trial.dropped() == [trial.row["taskId"]]


def test_agent_deletes_replicas_when_the_trial_runs_without_it(trial: Trial, api: Api) -> None:
    other = PlayedAgent(api, "gpu-2")
    other.join()
    other.poll()
    # It has replicas of an earlier run, but no container of this one.
    assert trial.dropped(other) == [trial.row["taskId"]]
