"""Machines have a price: every second of it is somebody's work or idle, and budgets bound it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from det_controlplane.core.webhooks import slack
from det_controlplane.db.money import budgets as budget_rows
from det_controlplane.services.maintenance import budgets
from det_controlplane.services.webhooks import delivery
from sqlalchemy import text

from tests.support.api import Api, Caller, create, report_checkpoint, trial_of
from tests.support.inbox import Inbox, make_webhook
from tests.support.rented import MachineAgent, RentedCluster

ALERTS = {"triggerType": "TRIGGER_TYPE_CUSTOM"}
BUDGETS = {**ALERTS, "condition": {"subject": "budget"}}


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def at_work(cluster: RentedCluster, user: Caller, **config: Any) -> tuple[int, MachineAgent]:
    experiment_id = create(user, activate=True, **config)
    _, agent = cluster.employ()
    (order,) = agent.running.values()
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    return experiment_id, agent


def pass_hours(cluster: RentedCluster, agent: MachineAgent, minutes: int) -> None:
    for _ in range(minutes * 3):
        cluster.pass_time(seconds=20)
        agent.poll()
    cluster.settle(2)


def logs(cluster: RentedCluster) -> list[str]:
    with cluster.api.ctx.db.autocommit() as tx:
        return list(tx.execute(text("SELECT log FROM task_logs ORDER BY id")).scalars())


def cost(caller: Caller, experiment_id: int) -> float:
    (stored_cost,) = caller.get("/api/v1/costs/experiments", ids=[experiment_id])["costs"]
    return float(stored_cost["costUsd"])


def test_experiment_has_its_share_of_the_machine_cost(cluster: RentedCluster, user: Caller) -> None:
    experiment_id, agent = at_work(cluster, user)
    pass_hours(cluster, agent, 30)
    assert cost(user, experiment_id) == pytest.approx(0.20, abs=0.001)
    trial = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]["id"]
    (of_trial,) = user.get("/api/v1/costs/trials", ids=[trial])["costs"]
    assert of_trial["costUsd"] == cost(user, experiment_id)
    assert of_trial["slotHours"] == pytest.approx(0.5, abs=0.001)
    task = user.get(f"/api/v1/trials/{trial}")["trial"]["taskId"]
    (of_task,) = user.get("/api/v1/costs/tasks", ids=[task])["costs"]
    assert of_task == {**of_trial, "id": task}
    (run,) = user.get(f"/api/v1/costs/tasks/{task}/allocations")["allocations"]
    assert run["costUsd"] == of_trial["costUsd"]
    (machine,) = run["machines"]
    (instance,) = cluster.instances()
    assert machine["agentId"] == agent.agent_id
    for name in ("machineType", "capacity", "provider", "priceUsdHour"):
        assert machine[name] == instance[name]


def test_users_see_the_cost_of_their_own_work(cluster: RentedCluster, user: Caller) -> None:
    experiment_id, agent = at_work(cluster, user)
    pass_hours(cluster, agent, 1)
    (own,) = user.get("/api/v1/costs/me")["costs"]
    assert own["username"] == "determined"
    assert own["costUsd"] == cost(user, experiment_id)
    assert cluster.api.signed_in("admin").get("/api/v1/costs/me")["costs"] == []
    later = (cluster.api.ctx.now() + timedelta(hours=1)).isoformat()
    assert user.get("/api/v1/costs/me", after=later)["costs"] == []


def test_working_and_idle_costs_equal_machine_costs(cluster: RentedCluster, user: Caller) -> None:
    first, agent = at_work(cluster, user)
    pass_hours(cluster, agent, 10)
    agent.finish()
    for _ in range(70):
        cluster.pass_time(seconds=20)
        if cluster.cloud.find(agent.agent_id) in cluster.cloud.alive():
            agent.poll()
        cluster.settle(1)
    assert not cluster.cloud.alive()
    (pool,) = user.get("/api/v1/costs/pools")["costs"]
    machines = sum(i["costUsd"] for i in cluster.instances(all="true"))
    assert pool["costUsd"] == pytest.approx(machines, abs=0.00001)
    assert pool["workingUsd"] == pytest.approx(cost(user, first), abs=0.00001)
    assert pool["idleUsd"] > 0
    # The row ends when the machine is seen gone: never before the cloud's own bill.
    assert Decimal(str(machines)) >= cluster.cloud.cost_usd() - Decimal("0.01")


def test_work_without_rented_machines_has_no_cost(cluster: RentedCluster, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    assert cost(user, experiment_id) == 0
    task = trial_of(user, experiment_id)["taskId"]
    (run,) = user.get(f"/api/v1/costs/tasks/{task}/allocations")["allocations"]
    assert (run["costUsd"], run["machines"]) == (0, [])


def budget(
    admin: Caller, scope: str, of: object, limit: str, period: str = "total"
) -> dict[str, Any]:
    body = {"scope": scope, "of": str(of), "limitUsd": limit, "period": period}
    return dict(admin.done("PUT", "/api/v1/budgets", body)["budget"])


def state(caller: Caller) -> str:
    (stored_budget,) = caller.get("/api/v1/budgets")["budgets"]
    return str(stored_budget["state"])


def test_budget_warns_then_preempts_work_and_stops_new_work(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    experiment_id, agent = at_work(cluster, user)
    budget(admin, "experiment", experiment_id, "0.10")
    pass_hours(cluster, agent, 13)
    assert state(admin) == "WARNED"
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert "($0.10) is nearly spent; raise it with `det budget set`" in reason["sentence"]
    lines = [line for line in logs(cluster) if "is nearly spent" in line]
    assert len(lines) == 1, "it is told once"
    assert (
        user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"] == "STATE_RUNNING"
    )
    pass_hours(cluster, agent, 3)
    assert state(admin) == "DRAINING"
    reasons = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert reasons[0]["code"] == "PREEMPTED", "its container is asked to checkpoint"
    path = f"/api/v1/allocations/{reasons[0]['allocationId']}/signals/ack_preemption"
    user.post(path, {})
    agent.finish()
    cluster.settle()
    experiment = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert experiment["state"] == "STATE_PAUSED"
    response = user.ask("POST", f"/api/v1/experiments/{experiment_id}/activate")
    assert (response.status, "is spent" in response.error) == (400, True)
    budget(admin, "experiment", experiment_id, "5")
    cluster.pass_time(minutes=2)
    cluster.settle()
    user.post(f"/api/v1/experiments/{experiment_id}/activate")


SCOPES = {"user": "determined", "workspace": "Uncategorized", "pool": "default"}


@pytest.mark.parametrize(("scope", "of"), SCOPES.items())
def test_work_over_budget_that_does_not_exit_is_killed(
    cluster: RentedCluster, user: Caller, admin: Caller, scope: str, of: str
) -> None:
    _, agent = at_work(cluster, user)
    budget(admin, scope, of, "0.10")
    pass_hours(cluster, agent, 20)
    assert state(admin) == "STOPPED"
    (order,) = agent.poll()
    assert order["desired"] == "killed"
    response = user.ask("POST", "/api/v1/experiments", {"config": "name: x\n", "activate": True})
    assert response.status >= 400
    with pytest.raises(AssertionError, match="is spent"):
        create(user, activate=True)


@pytest.mark.parametrize("scope", ["experiment", *SCOPES])
def test_rejects_continuing_an_experiment_with_a_spent_budget(
    cluster: RentedCluster, user: Caller, admin: Caller, scope: str
) -> None:
    experiment_id, agent = at_work(cluster, user)
    of = {"experiment": experiment_id, **SCOPES}[scope]
    budget(admin, scope, of, "0.10")
    pass_hours(cluster, agent, 16)
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    agent.finish()
    cluster.settle()
    body = {"id": experiment_id}
    for request in (body, {**body, "overrideConfig": "max_restarts: 1", "validateOnly": True}):
        response = user.ask("POST", "/api/v1/experiments/continue", request)
        assert (response.status, "is spent" in response.error) == (400, True)
    budget(admin, scope, of, "5")
    user.post("/api/v1/experiments/continue", body)


LOOKS = {
    "state_of": (budgets, "state_of"),  # after the sums, before anything follows
    "active_experiments": (budget_rows, "active_experiments"),  # before each is paused
    "running": (budget_rows, "running"),  # before each is killed
}


def between(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, act: Callable[[], None]
) -> None:
    """Act once, when a function of a module has answered, before the answer is used."""
    original = getattr(module, name)
    waiting = [act]

    def ask(*args: Any) -> Any:
        result = original(*args)
        while waiting:
            waiting.pop()()
        return result

    monkeypatch.setattr(module, name, ask)


@pytest.mark.parametrize("change", ["deleted", "raised"])
@pytest.mark.parametrize("look", ["state_of", "active_experiments", "running"])
def test_budget_changed_during_its_check_stops_no_work(
    cluster: RentedCluster,
    user: Caller,
    admin: Caller,
    monkeypatch: pytest.MonkeyPatch,
    look: str,
    change: str,
) -> None:
    experiment_id, agent = at_work(cluster, user)
    pass_hours(cluster, agent, 20)
    new_budget = budget(admin, "pool", "default", "0.10")

    def change_it() -> None:
        if change == "deleted":
            admin.done("DELETE", f"/api/v1/budgets/{new_budget['id']}")
        else:
            budget(admin, "pool", "default", "100")

    between(monkeypatch, *LOOKS[look], change_it)
    budgets.enforce(cluster.api.ctx)
    monkeypatch.undo()
    stored_state = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"]
    assert stored_state == "STATE_RUNNING"
    (order,) = agent.poll()
    assert order["desired"] == "running"
    budgets.enforce(cluster.api.ctx)
    assert admin.get("/api/v1/rented-pools/default")["pool"]["spentBudget"] == ""


COMMAND = {"config": {"entrypoint": ["sleep", "1000"]}}


def test_budgets_apply_to_commands(cluster: RentedCluster, user: Caller, admin: Caller) -> None:
    user.post("/api/v1/commands", COMMAND)
    _, agent = cluster.employ()
    budget(admin, "user", "determined", "0.10")
    pass_hours(cluster, agent, 16)
    assert state(admin) == "DRAINING"
    response = user.ask("POST", "/api/v1/commands", COMMAND)
    assert (response.status, "is spent" in response.error) == (400, True)
    user.post("/api/v1/commands", {"config": {**COMMAND["config"], "resources": {"slots": 0}}})
    pass_hours(cluster, agent, 4)
    assert state(admin) == "STOPPED"
    assert sorted(order["desired"] for order in agent.poll()) == ["killed", "running"]


@pytest.mark.parametrize(("scope", "of"), SCOPES.items())
def test_exceeded_budget_does_not_stop_checkpoint_deletions(
    cluster: RentedCluster, user: Caller, admin: Caller, scope: str, of: str
) -> None:
    """A pool's budget also kills work without slots, which keeps machines running. Tasks that delete checkpoints are
    left alone, because they end soon."""
    experiment_id, agent = at_work(cluster, user)
    checkpoint = report_checkpoint(user, experiment_id)
    user.post("/api/v1/commands", {"config": {**COMMAND["config"], "resources": {"slots": 0}}})
    user.post("/api/v1/checkpoints/rm", {"checkpointUuids": [checkpoint]})
    cluster.settle()
    agent.work()
    pass_hours(cluster, agent, 20)
    budget(admin, scope, of, "0.10")
    budgets.enforce(cluster.api.ctx)
    kinds = {id: order["spec"]["task_type"] for id, order in agent.running.items()}
    desired = {kinds[order["id"]]: order["desired"] for order in agent.poll()}
    idle = "killed" if scope == "pool" else "running"
    assert desired == {"TRIAL": "killed", "COMMAND": idle, "CHECKPOINT_GC": "running"}


def test_pool_with_a_spent_budget_rents_no_machines(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    _, agent = at_work(cluster, user)
    new_budget = budget(admin, "pool", "default", "0.05")
    pass_hours(cluster, agent, 9)
    pool = admin.get("/api/v1/rented-pools/default")["pool"]
    assert pool["spentBudget"] == SPENT
    admin.done("DELETE", f"/api/v1/budgets/{new_budget['id']}")
    assert admin.get("/api/v1/rented-pools/default")["pool"]["spentBudget"] == ""


SPENT = "the budget of pool default ($0.05) is spent; raise it with `det budget set`"


@pytest.mark.parametrize("held", ["before it is spent", "after", "never"])
def test_resumed_pool_with_a_spent_budget_rents_no_machines(
    cluster: RentedCluster, user: Caller, admin: Caller, held: str
) -> None:
    pool = "/api/v1/rented-pools/default"
    experiment_id, agent = at_work(cluster, user)
    if held == "before it is spent":
        admin.post(f"{pool}/hold", {"reason": "repairs"})
    new_budget = budget(admin, "pool", "default", "0.05")
    pass_hours(cluster, agent, 9)
    leave(cluster, user, agent, experiment_id)
    if held == "after":
        admin.post(f"{pool}/hold", {"reason": "repairs"})
    config = cluster.api.ctx.config
    (default,) = config.resource_pools
    kept_pool = replace(default, limits=replace(default.limits, min_instances=1))
    cluster.api.ctx.config = replace(config, resource_pools=(kept_pool,))
    admin.post(f"{pool}/resume", {})
    cluster.settle()
    assert not cluster.instances()
    stored_pool = admin.get(pool)["pool"]
    assert (stored_pool["hold"], stored_pool["spentBudget"]) == (None, SPENT)
    admin.done("DELETE", f"/api/v1/budgets/{new_budget['id']}")
    cluster.settle()
    assert len(cluster.instances()) == 1
    assert admin.get(pool)["pool"]["spentBudget"] == ""


def test_wait_reason_names_the_hold_and_the_spent_budget(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    experiment_id, agent = at_work(cluster, user)
    budget(admin, "pool", "default", "0.05")
    pass_hours(cluster, agent, 9)
    leave(cluster, user, agent, experiment_id)
    config = {**COMMAND["config"], "resources": {"slots": 0}}
    id = user.post("/api/v1/commands", {"config": config})["command"]["id"]

    def why() -> str:
        cluster.settle()
        (reason,) = user.get(f"/api/v1/why/task/{id}")["reasons"]
        return str(reason["sentence"])

    assert why().endswith(f"the pool rents no machines: {SPENT}")
    admin.post("/api/v1/rented-pools/default/hold", {"reason": "repairs"})
    operator = (
        "held by admin: repairs; an administrator can end this with `det pool resume default`"
    )
    assert why().endswith(f"the pool rents no machines: {operator}; and {SPENT}")


def leave(cluster: RentedCluster, user: Caller, agent: MachineAgent, experiment_id: int) -> None:
    """Checkpoint and exit as a trial that is paused does, and wait until its machine is gone."""
    (reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    user.post(f"/api/v1/allocations/{reason['allocationId']}/signals/ack_preemption", {})
    agent.finish()
    for _ in range(4):
        cluster.pass_time(minutes=15)
        cluster.settle()
    assert not cluster.instances()


@pytest.mark.parametrize("scope", ["experiment", "pool"])
def test_raised_budget_starts_work_immediately(
    cluster: RentedCluster, user: Caller, admin: Caller, scope: str
) -> None:
    experiment_id, agent = at_work(cluster, user)
    of = {"experiment": experiment_id, "pool": "default"}[scope]
    budget(admin, scope, of, "0.10")
    pass_hours(cluster, agent, 16)
    leave(cluster, user, agent, experiment_id)
    assert budget(admin, scope, of, "5")["state"] == "WITHIN"
    user.post(f"/api/v1/experiments/{experiment_id}/activate")
    cluster.settle()
    assert len(cluster.instances()) == 1


@pytest.mark.parametrize("scope", ["experiment", "pool"])
def test_monthly_budget_restarts_each_month(
    cluster: RentedCluster, user: Caller, admin: Caller, scope: str
) -> None:
    experiment_id, agent = at_work(cluster, user)
    of = {"experiment": experiment_id, "pool": "default"}[scope]
    budget(admin, scope, of, "0.10", "month")
    pass_hours(cluster, agent, 16)
    leave(cluster, user, agent, experiment_id)
    assert state(admin) in ("DRAINING", "STOPPED")
    cluster.pass_time(days=31)
    user = cluster.api.signed_in("determined")
    user.post(f"/api/v1/experiments/{experiment_id}/activate")
    cluster.settle()
    assert len(cluster.instances()) == 1
    assert state(cluster.api.signed_in("admin")) == "WITHIN"


@pytest.mark.parametrize(("scope", "of"), SCOPES.items())
def test_a_budget_counts_the_work_of_deleted_experiments(
    cluster: RentedCluster, user: Caller, admin: Caller, scope: str, of: str
) -> None:
    budget(admin, scope, of, "10")
    experiment_id, agent = at_work(cluster, user)
    pass_hours(cluster, agent, 60)
    agent.finish()
    cluster.settle()
    spent_usd = user.get("/api/v1/budgets")["budgets"][0]["spentUsd"]
    assert spent_usd > 0.3
    cluster.delete(user, experiment_id, agent)
    assert (
        user.get("/api/v1/budgets")["budgets"][0]["spentUsd"] >= spent_usd
    )  # of a pool, idle or not
    assert user.get("/api/v1/costs/users")["costs"][0]["costUsd"] == pytest.approx(0.4, abs=0.05)


def hear(caller: Caller, name: str, **more: Any) -> None:
    """Make a webhook that listens to budgets."""
    make_webhook(caller, name=name, url=f"https://{name}.example", triggers=[BUDGETS], **more)


def test_webhooks_report_nearly_spent_and_spent_budgets(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    cluster.api.ctx.courier = inbox = Inbox()
    hear(user, "workspace")
    hear(admin, "cluster", workspaceId=0)
    other = admin.post("/api/v1/workspaces", {"name": "other"})["workspace"]["id"]
    hear(admin, "other", workspaceId=other)
    hear(user, "chosen", mode="WEBHOOK_MODE_SPECIFIC")
    make_webhook(user, name="alerts", mode="WEBHOOK_MODE_SPECIFIC", triggers=[ALERTS])
    names = {"webhook_name": ["chosen", "alerts"]}
    experiment_id, agent = at_work(cluster, user, integrations={"webhooks": names})
    budget(admin, "experiment", experiment_id, "0.10")
    budget(admin, "pool", "default", "1")
    pass_hours(cluster, agent, 13)
    pass_hours(cluster, agent, 3)
    delivery.run(cluster.api.ctx)

    deliveries = sorted(
        (post.url, post.event["event_data"]["budget"]["state"]) for post in inbox.posts
    )
    hosts = ("chosen", "cluster", "workspace")
    assert deliveries == [
        (f"https://{host}.example", budget_state)
        for host in hosts
        for budget_state in ("DRAINING", "WARNED")
    ]
    warning = next(e for e in inbox.events if e["event_data"]["budget"]["state"] == "WARNED")
    assert (warning["event_type"], warning["condition"]) == ("CUSTOM", {"subject": "budget"})
    assert warning["event_data"]["experiment"]["id"] == experiment_id
    alert = warning["event_data"]["custom_data"]
    assert alert["title"] == f"The budget of experiment {experiment_id} ($0.10) is nearly spent"
    assert alert["level"] == "WARNING"


def test_budget_of_a_pool_is_sent_to_cluster_webhooks(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    cluster.api.ctx.courier = inbox = Inbox()
    hear(user, "workspace")
    hear(admin, "cluster", workspaceId=0, webhookType="WEBHOOK_TYPE_SLACK")
    _, agent = at_work(cluster, user)
    budget(admin, "pool", "default", "0.10")
    pass_hours(cluster, agent, 13)
    delivery.run(cluster.api.ctx)
    (post,) = inbox.posts
    assert post.event["text"].endswith("The budget of pool default ($0.10) is nearly spent")


def test_budget_names_are_escaped_for_slack() -> None:
    data = {
        "budget": {},
        "custom_data": {"title": "Of <!channel>", "description": "", "level": "WARNING"},
    }
    message = slack({"event": {"event_data": data}}, "https://det.example")
    assert message["text"].endswith("Of &lt;!channel&gt;")


def test_alerts_of_training_code_are_not_budget_events(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    cluster.api.ctx.courier = inbox = Inbox()
    hear(user, "chosen", mode="WEBHOOK_MODE_SPECIFIC")
    experiment_id = create(user, integrations={"webhooks": {"webhook_name": ["chosen"]}})
    alert = {"experimentId": experiment_id, "data": {"title": "x", "level": "LOG_LEVEL_ERROR"}}
    user.post("/api/v1/webhooks/custom", alert)
    delivery.run(cluster.api.ctx)
    assert inbox.posts == []


def test_rejects_invalid_budgets_with_the_cause(user: Caller, admin: Caller) -> None:
    def refused(caller: Caller, **body: str) -> str:
        response = caller.ask("PUT", "/api/v1/budgets", {"scope": "pool", "of": "default", **body})
        assert response.status >= 400
        return response.error

    assert "above 0" in refused(admin, limitUsd="-3")
    assert "above 0" in refused(admin, limitUsd="much")
    assert "a cent at least" in refused(admin, limitUsd="0.001")
    assert "below 10^12" in refused(admin, limitUsd="1e99")
    assert "experiment, user, workspace, pool" in refused(admin, limitUsd="3", scope="team")
    assert "'nobody' not found" in refused(admin, limitUsd="3", scope="user", of="nobody")
    assert "administrator" in refused(user, limitUsd="3")
