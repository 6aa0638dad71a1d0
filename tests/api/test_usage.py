"""Usage reports show the past, also after moves, renames and deletions."""

import csv
import io
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.api import Api, Caller, create

SPAN = {"timestampAfter": ["2026-01-01T00:00:00Z"], "timestampBefore": ["2099-01-01T00:00:00Z"]}


class Agent:
    """An agent that runs the ordered containers until a test ends them."""

    def __init__(self, api: Api) -> None:
        self.incarnation, self.seq = str(uuid.uuid4()), 0
        body = {
            "agent_id": "gpu-1", "agent_key": "key", "incarnation": self.incarnation, "runtime": "process",
            "slots": [{"id": 0, "type": "cpu", "brand": "Artificial"}],
            "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token},
        }  # fmt: skip
        self.api = api
        self.caller = api.with_token(api.anonymous().post("/agents/v1/join", body)["agent_token"])

    def poll(self, *reports: dict[str, Any]) -> list[dict[str, Any]]:
        self.seq += 1
        body = {
            "incarnation": self.incarnation,
            "seq": self.seq,
            "containers": reports,
            "signals": [],
        }
        containers: list[dict[str, Any]] = self.caller.post("/agents/v1/poll", body)["containers"]
        return containers

    def work(self) -> None:
        """Run all queued tasks one after another. One task deletes the files of deleted experiments."""
        for _ in range(5):
            self.api.tick()
            for order in self.poll():
                report = {"id": order["id"], "epoch": order["epoch"], "state": "running"}
                self.poll(report)
                self.poll(report | {"state": "terminated", "exit_code": 0})


@pytest.fixture
def agent(api: Api) -> Agent:
    return Agent(api)


@pytest.fixture
def workspaces(admin: Caller) -> dict[str, int]:
    """Return projects of two workspaces."""
    projects = {}
    for name in ("before", "after"):
        workspace_id = admin.post("/api/v1/workspaces", {"name": name})["workspace"]["id"]
        project = admin.post(f"/api/v1/workspaces/{workspace_id}/projects", {"name": f"p-{name}"})
        projects[name] = int(project["project"]["id"])
    return projects


def report_of(caller: Caller) -> list[dict[str, str]]:
    body = caller.ask("GET", "/resources/allocation/allocations-csv", query=SPAN).body
    return list(csv.DictReader(io.StringIO(body.decode())))


def run_and_end(agent: Agent, admin: Caller, project_id: int) -> int:
    experiment_id = create(admin, activate=True, labels=["night"])
    admin.post(
        f"/api/v1/experiments/{experiment_id}/move",
        {"destinationProjectId": project_id},
    )
    agent.work()
    state = admin.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"]
    assert state == "STATE_COMPLETED"
    return experiment_id


def test_report_has_the_workspace_in_which_an_allocation_ran(
    agent: Agent, admin: Caller, workspaces: dict[str, int]
) -> None:
    experiment_id = run_and_end(agent, admin, workspaces["before"])
    to = {"destinationProjectId": workspaces["after"]}
    admin.post(f"/api/v1/experiments/{experiment_id}/move", to)
    (row,) = report_of(admin)
    assert (row["workspace_name"], row["experiment_id"]) == ("before", str(experiment_id))


def test_report_contains_deleted_experiments(
    agent: Agent, admin: Caller, workspaces: dict[str, int]
) -> None:
    experiment_id = run_and_end(agent, admin, workspaces["before"])
    (before,) = report_of(admin)
    admin.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    agent.work()
    assert admin.ask("GET", f"/api/v1/experiments/{experiment_id}").status == 404
    (row,) = (r for r in report_of(admin) if r["task_type"] == "TRIAL")
    assert row == before
    today = before["start_time"][:10]
    days = {"startDate": [today], "endDate": [today], "period": ["DAILY"]}
    response = admin.done("GET", "/api/v1/resources/allocation/aggregated", query=days)
    (day,) = response["resourceEntries"]
    assert set(day["byExperimentLabel"]) == {"night"}
    raw = admin.ask("GET", "/resources/allocation/raw", query=SPAN).body.decode()
    assert "night" in raw


def test_labels_are_escaped_for_spreadsheets(api: Api, agent: Agent, admin: Caller) -> None:
    create(admin, activate=True, labels=["=1+1"])
    agent.work()
    (raw,) = csv.DictReader(
        io.StringIO(admin.ask("GET", "/resources/allocation/raw", query=SPAN).body.decode())
    )
    assert (raw["labels"], float(raw["cost_usd"])) == ("'=1+1", 0)
    today = raw["start_time"][:10]
    days = {"start_date": [today], "end_date": [today], "period": ["DAILY"]}
    response = admin.ask("GET", "/resources/allocation/aggregated", query=days).body.decode()
    keys = {row["aggregation_key"] for row in csv.DictReader(io.StringIO(response))}
    assert "'=1+1" in keys
    assert "=1+1" not in keys


def test_report_contains_deleted_workspaces(
    agent: Agent, admin: Caller, workspaces: dict[str, int]
) -> None:
    run_and_end(agent, admin, workspaces["before"])
    (project,) = (w for w in admin.get("/api/v1/workspaces")["workspaces"] if w["name"] == "before")
    admin.done("DELETE", f"/api/v1/workspaces/{project['id']}")
    agent.work()
    names = [w["name"] for w in admin.get("/api/v1/workspaces")["workspaces"]]
    assert "before" not in names
    (row,) = (r for r in report_of(admin) if r["task_type"] == "TRIAL")
    assert row["workspace_name"] == "before"


def test_report_contains_tasks_other_than_trials(agent: Agent, user: Caller) -> None:
    user.post("/api/v1/commands", {"config": {"entrypoint": ["true"]}})
    agent.work()
    (row,) = report_of(user)
    assert (row["task_type"], row["username"]) == ("COMMAND", "determined")
    assert (row["experiment_id"], row["slots"]) == ("", "1")
    raw = user.ask("GET", "/api/v1/resources/allocation/raw", query=SPAN).json()
    assert [entry["kind"] for entry in raw["resourceEntries"]] == ["command"]
    days = {"startDate": [row["start_time"][:10]], "endDate": [row["start_time"][:10]]}
    period = "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"
    path = "/api/v1/resources/allocation/aggregated"
    (day,) = user.ask("GET", path, query={**days, "period": [period]}).json()["resourceEntries"]
    assert set(day["byUsername"]) == {"determined"}


def test_usage_is_limited_to_the_requested_period(api: Api, user: Caller) -> None:
    """Running work counts until the end of the period. A period without work has no entries."""
    agent = Agent(api)
    now = api.ctx.now()
    api.ctx.now = lambda: now
    create(user, activate=True)
    api.tick()
    (order,) = agent.poll()
    agent.poll({"id": order["id"], "epoch": order["epoch"], "state": "running"})
    api.ctx.now = lambda: now + timedelta(hours=9)
    hour = [now + timedelta(hours=n) for n in range(10)]

    def slot_hours(after: datetime, before: datetime) -> list[float]:
        span = {"timestampAfter": after.isoformat(), "timestampBefore": before.isoformat()}
        query = {name: [value] for name, value in span.items()}
        body = user.ask("GET", "/resources/allocation/allocations-csv", query=query).body
        return [float(r["slot_hours"]) for r in csv.DictReader(io.StringIO(body.decode()))]

    assert slot_hours(hour[2], hour[5]) == pytest.approx([3])
    assert slot_hours(hour[8], hour[8] + timedelta(days=3650)) == pytest.approx([1])
    assert slot_hours(hour[0] - timedelta(days=1), hour[0]) == []


def test_monthly_report_includes_the_complete_last_month(api: Api) -> None:
    """Work on the last day of a month belongs to it, and work in the next month does not."""
    ran_at = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
    api.ctx.now = lambda: ran_at
    agent = Agent(api)
    user = api.signed_in("determined")
    create(user, activate=True)
    api.tick()
    (order,) = agent.poll()
    agent.poll({"id": order["id"], "epoch": order["epoch"], "state": "running"})
    api.ctx.now = lambda: ran_at + timedelta(days=2)
    months = {"startDate": ["2026-11"], "endDate": ["2026-11"], "period": ["MONTHLY"]}
    response = user.done("GET", "/api/v1/resources/allocation/aggregated", query=months)
    (entry,) = response["resourceEntries"]
    assert (entry["periodStart"], entry["seconds"]) == ("2026-11-01", 12 * 3600)


@pytest.mark.parametrize("name", ["startDate", "endDate"])
def test_daily_report_rejects_months(user: Caller, name: str) -> None:
    days = {"startDate": ["2026-11-01"], "endDate": ["2026-11-30"]} | {name: ["2026-11"]}
    for path in ("/api/v1/resources/allocation/aggregated", "/resources/allocation/aggregated"):
        response = user.ask("GET", path, query=days)
        assert response.status == 400
        assert f"{name} '2026-11' is a month" in response.body.decode()
