"""Why something waits or failed, asked by experiment, trial, job and task."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.support.api import (
    Api,
    Caller,
    config_of,
    create,
    create_ended,
    report_checkpoint,
    report_metrics,
    trial_of,
)
from tests.support.played_agent import PlayedAgent

E = "/api/v1/experiments"
PROMOTION = {
    "name": "async_halving", "metric": "loss", "max_trials": 2, "num_rungs": 2, "divisor": 2,
    "max_length": {"batches": 8},
}  # fmt: skip


def told(caller: Caller, kind: str, id: object) -> list[tuple[str, str]]:
    reasons = caller.get(f"/api/v1/why/{kind}/{id}")["reasons"]
    return [(r["state"], r["sentence"]) for r in reasons]


def job_of(caller: Caller, experiment_id: int) -> str:
    job: str = caller.get(f"{E}/{experiment_id}")["experiment"]["jobId"]
    return job


def test_paused_work_names_the_command_that_continues_it(user: Caller) -> None:
    create_ended(user)
    experiment_id = create(user, activate=False)
    trial_id = trial_of(user, experiment_id)["id"]
    hint = f"is paused; resume with `det experiment activate {experiment_id}`"
    for kind, id in (
        ("experiment", experiment_id),
        ("trial", trial_id),
        ("job", job_of(user, experiment_id)),
    ):
        assert told(user, kind, id) == [("PAUSED", hint)]


def test_reason_of_a_low_priority_names_the_experiment_and_user_ahead(
    api: Api, user: Caller
) -> None:
    ahead = create(user, activate=True, resources={"slots_per_trial": 4, "priority": 10})
    PlayedAgent(api, "a1").join()
    behind = create(user, activate=True, resources={"slots_per_trial": 1, "priority": 50})
    api.tick()
    ((_, sentence),) = told(user, "experiment", behind)
    assert sentence.startswith(
        f"priority 10 goes first: experiment {ahead} of determined waits for 4 slots"
    )
    jobs = user.get("/api/v1/job-queues-v2", resourcePool="default")["jobs"]
    assert any("experiment" in (job["full"]["why"]) for job in jobs)


def test_preempted_work_names_the_experiment_and_user_that_get_its_slots(
    api: Api, user: Caller
) -> None:
    config = api.ctx.config
    scheduler = replace(config.scheduler, preemption=True)
    pools = tuple(replace(pool, scheduler=scheduler) for pool in config.resource_pools)
    api.ctx.config = replace(config, scheduler=scheduler, resource_pools=pools)
    victim = create(user, activate=True, resources={"slots_per_trial": 2, "priority": 50})
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    with api.ctx.db.begin() as tx:
        tx.execute(
            text("UPDATE allocations SET state = 'RUNNING', preemptible = true, ready = true")
        )
    important = create(user, activate=True, resources={"slots_per_trial": 2, "priority": 1})
    api.tick()
    assert told(user, "experiment", victim) == [
        (
            "RUNNING",
            "was asked to checkpoint and stop: its slots are needed by experiment"
            f" {important} of determined (higher priority)",
        )
    ]


def test_job_has_the_state_of_its_ended_experiment(user: Caller) -> None:
    experiment_id = create_ended(user)
    ((state, sentence),) = told(user, "job", job_of(user, experiment_id))
    assert (state, sentence) == told(user, "experiment", experiment_id)[0]
    assert state == "CANCELED"


def test_experiment_has_ended_during_checkpoint_deletion(api: Api, user: Caller) -> None:
    experiment_id = create(user)
    report_checkpoint(user, experiment_id)
    user.post(f"{E}/{experiment_id}/kill")
    collecting = {"save_experiment_best": 0, "save_trial_best": 0, "save_trial_latest": 0}
    user.done(
        "PATCH", f"{E}/{experiment_id}", {"id": experiment_id, "checkpointStorage": collecting}
    )
    PlayedAgent(api, "a1").join()
    api.tick()
    names = {t["name"] for t in user.get("/api/v1/tasks")["allocationIdToSummary"].values()}
    assert names == {f"Checkpoint GC (Experiment {experiment_id})"}
    for kind, id in (("experiment", experiment_id), ("job", job_of(user, experiment_id))):
        assert told(user, kind, id) == [("CANCELED", "was canceled")]


def test_killed_run_explains_the_usual_cause(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    agent.poll("terminated", exit_code=137, failure="container_failed")
    ((state, sentence),) = told(user, "experiment", experiment_id)
    assert state == "ERROR"
    assert sentence.endswith("it was killed, often because it ran out of memory (exit code 137)")


def test_failure_begins_with_its_cause_and_names_the_trial(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    raised = [
        "Traceback (most recent call last):", '  File "train.py", line 1',
        "ModuleNotFoundError: No module named 'numppy'",
    ]  # fmt: skip
    line = {
        "task_id": user.get(f"{E}/{experiment_id}/trials")["trials"][0]["taskId"],
        "allocation_id": order["spec"]["allocation_id"], "container_id": order["id"],
        "level": "LOG_LEVEL_INFO",
    }  # fmt: skip
    user.post(
        "/api/v1/task/logs",
        {"logs": [{**line, "stdtype": "stderr", "log": text} for text in raised]
            + [{**line, "stdtype": "stdout", "log": "Other: is no error"}]},
    )  # fmt: skip
    assert "numppy" not in told(user, "experiment", experiment_id)[0][1]
    agent.poll("terminated", exit_code=1, failure="container_failed")
    for kind, id in (("experiment", experiment_id), ("job", job_of(user, experiment_id))):
        (reason,) = user.get(f"/api/v1/why/{kind}/{id}")["reasons"]
        assert reason["sentence"] == "has failed: No module named 'numppy'"
        assert reason["cause"] == "No module named 'numppy'"
        assert reason["details"] == (
            "trial 1: container failed with non-zero exit code: 1;"
            " ModuleNotFoundError: No module named 'numppy'"
        )
        assert (reason["failedTrialId"], reason["needsNewCode"]) == (1, True)
        assert reason["nextStep"].startswith("no files were sent with it: create it again")
    files = [{"path": "train.py", "type": 48, "content": "MQ==", "mode": 0o644}]
    request = {"config": config_of(), "modelDefinition": files}
    with_files = int(user.post(E, request)["experiment"]["id"])
    with api.ctx.db.begin() as tx:
        tx.execute(
            text(
                "UPDATE experiments SET context_id = (SELECT context_id FROM experiments WHERE id = :other)"
                " WHERE id = :id"
            ),
            {"id": experiment_id, "other": with_files},
        )
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert reason["nextStep"] == "fix the code and create it again"


def test_failed_search_names_the_trial_of_the_cause_and_the_fix(api: Api, user: Caller) -> None:
    searcher = {
        "name": "random", "metric": "los", "max_trials": 2, "max_concurrent_trials": 2,
        "max_length": {"batches": 8},
    }  # fmt: skip
    experiment_id = create(user, activate=True, searcher=searcher)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    agent.poll("terminated", exit_code=3, failure="container_failed")
    error = "trial 2: metric 'los' was not reported; reported: loss"
    with api.ctx.db.begin() as tx:
        tx.execute(
            text("UPDATE experiments SET state = 'ERROR', ended_at = now(), error = :error"),
            {"error": error},
        )
        tx.execute(
            text(
                "UPDATE allocations SET state = 'TERMINATED', ended_at = now() WHERE ended_at IS NULL"
            )
        )
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert (reason["cause"], reason["details"], reason["failedTrialId"]) == (error, "", 2)
    assert reason["nextStep"] == "fix searcher.metric and create it again"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"level": "LOG_LEVEL_ERROR", "stdtype": "stdout", "log": "cannot save\n"}, "cannot save"),
        ({"stdtype": "stderr", "log": "sh: 1: nope: not found\n"}, "command not found: nope"),
    ],
    ids=["logged", "a shell"],
)
def test_run_without_an_exception_has_its_last_error_and_restarts(
    api: Api, user: Caller, line: dict[str, str], words: str
) -> None:
    experiment_id = create(user, activate=True, max_restarts=1)
    agent = PlayedAgent(api, "a1")
    agent.join()
    for _ in range(2):
        api.tick()
        (order,) = agent.poll()
        run = {
            "task_id": trial_of(user, experiment_id)["taskId"], "container_id": order["id"],
            "allocation_id": order["spec"]["allocation_id"], "source": "task",
        }  # fmt: skip
        of_agent = {"source": "agent", "level": "LOG_LEVEL_ERROR", "log": "it failed"}
        user.post("/api/v1/task/logs", {"logs": [run | line, run | of_agent]})
        agent.poll("terminated", exit_code=2, failure="container_failed")
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert reason["cause"] == words
    assert reason["details"].startswith(
        "trial 1, after restart 1 of 1: container failed with non-zero exit code: 2"
    )


def test_failure_is_that_of_a_failed_trial_and_not_of_a_later_end(api: Api, user: Caller) -> None:
    random = {
        "name": "random", "metric": "loss", "max_trials": 2, "max_concurrent_trials": 1,
        "max_length": {"batches": 8},
    }  # fmt: skip
    experiment_id = create(user, activate=True, searcher=random, max_restarts=0)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (first,) = agent.poll()
    agent.poll("terminated", exit_code=3, failure="container_failed")
    failed = user.get(f"/api/v1/tasks/{first['spec']['task_id']}")["task"]
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE experiments SET state = 'ERROR', ended_at = now()"))
        tx.execute(
            text(
                "UPDATE allocations SET state = 'TERMINATED', exit_kind = 'killed', exit_reason = 'killed',"
                " ended_at = now() + interval '1 minute' WHERE ended_at IS NULL"
            )
        )
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert reason["cause"] == "exited with code 3"
    trials = user.get(f"{E}/{experiment_id}/trials")["trials"]
    assert [t["id"] for t in trials if t["taskId"] == failed["taskId"]] == [reason["failedTrialId"]]


def test_kill_during_a_pause_is_the_reason(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    with api.ctx.db.begin() as tx:
        tx.execute(
            text("UPDATE allocations SET state = 'RUNNING', preemptible = true, ready = true")
        )
    user.post(f"{E}/{experiment_id}/pause")
    ((_, sentence),) = told(user, "experiment", experiment_id)
    assert sentence == "was asked to checkpoint and stop: the experiment was paused"
    user.post(f"{E}/{experiment_id}/kill")
    ((_, sentence),) = told(user, "experiment", experiment_id)
    assert sentence == "is being killed: the experiment or trial was killed"


def waiting_trials(user: Caller, experiment_id: int) -> list[int]:
    """Return the trials that wait for the search, of which all listings agree."""
    path = f"/api/v1/experiments/{experiment_id}"
    listings = [user.get(f"{path}/{name}")["trials"] for name in ("trials", "search")]
    listings.append(user.post("/api/v1/runs", {"projectId": 0})["runs"])
    first, *others = [[t["id"] for t in trials if t["waitsForSearch"]] for trials in listings]
    assert others == [first, first]
    return first


def test_trial_waiting_at_a_rung_has_the_reason(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True, searcher=PROMOTION)
    trial_id = user.get(f"{E}/{experiment_id}/trials")["trials"][0]["id"]
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE allocations SET state = 'RUNNING', ready = true"))
    assert waiting_trials(user, experiment_id) == []
    path = f"/api/v1/trials/{trial_id}/searcher/completed_operation"
    body = {"op": {"length": "4"}, "searcherMetric": 0.5}
    user.post(path, {"completedOperation": body})
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE allocations SET state = 'TERMINATED', ended_at = now()"))
    assert waiting_trials(user, experiment_id) == [trial_id]
    assert told(user, "trial", trial_id) == [
        (
            "ACTIVE",
            "is waiting at rung 1 of 2 (4 batches) with loss 0.5 and holds no slots"
            " until it is promoted or no other trial can reach this rung",
        )
    ]


@pytest.mark.parametrize(
    ("kind", "id", "status"),
    [("experiment", 99, 404), ("job", "x", 404), ("task", "1.x", 404), ("pool", 1, 400)],
)
def test_error_names_the_missing_object(user: Caller, kind: str, id: object, status: int) -> None:
    response = user.ask("GET", f"/api/v1/why/{kind}/{id}")
    assert response.status == status
    assert str(id) in response.error or kind in response.error


def completed(api: Api, user: Caller, metrics: dict[str, float]) -> int:
    """Return an experiment with the searcher metric `loss` that has completed after one validation."""
    experiment_id = create(user, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    trial_id = trial_of(user, experiment_id)["id"]
    report_metrics(user, trial_id, "validation", 4, metrics, run=1)
    agent.poll("terminated", exit_code=0)
    api.tick()
    return experiment_id


def test_completed_experiment_without_its_searcher_metric_has_a_warning(
    api: Api, user: Caller
) -> None:
    experiment_id = completed(api, user, {"losses": 0.5, "accuracy": 0.9})
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    warning = (
        "metric 'loss' was not reported; reported: accuracy, losses; did you mean 'losses'?"
        " report it with every validation, or change searcher.metric or searcher.time_metric"
    )
    assert reason["state"] == "COMPLETED"
    assert reason["warning"] == warning
    assert reason["sentence"].endswith(f"; {warning}")


def test_completed_experiment_with_its_searcher_metric_has_no_warning(
    api: Api, user: Caller
) -> None:
    experiment_id = completed(api, user, {"loss": 0.5})
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert (reason["state"], reason["warning"]) == ("COMPLETED", "")
    assert reason["sentence"] == "completed successfully"
