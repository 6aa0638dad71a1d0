"""Agents deliver metrics of several trials in one request: each report is stored by the right of its own task."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.core.config.cluster import Authz
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.entry.server.asgi import AsgiApp

from tests.support.api import Api, Caller
from tests.support.asgi import Got, requested
from tests.support.reporting_agent import REPORTS, ReportingAgent, body_of, report, steps_of
from tests.support.statements import statements


@pytest.fixture
def agent(api: Api, user: Caller) -> ReportingAgent:
    return ReportingAgent(api, user)


def test_reports_of_several_trials_are_stored_in_order(agent: ReportingAgent, user: Caller) -> None:
    one, other = agent.tasks
    reports = [report(one, body_of(1)), report(other, body_of(7)), report(one, body_of(2))]
    assert agent.outcomes(*reports) == ["stored"] * 3
    assert [steps_of(user, trial) for trial, _ in agent.tasks] == [2, 7]


def test_invalid_report_does_not_block_others_of_its_batch(
    agent: ReportingAgent, user: Caller
) -> None:
    one, (other, token) = agent.tasks
    assert agent.outcomes(
        report((other, "made up"), body_of(3)),
        report((one[0], token), body_of(3)),
        report((999_999, token), body_of(3)),
        report((other, user.token), body_of(3)),
        report((other, token), "{"),
        report((other, token), body_of(3, group="validation")),
        report((other, token), body_of(3, group="a.b")),
        report((other, token), body_of(3, run=0)),
        report((other, token), body_of(3)[:-1] + " " * 9000 + "}"),
        report(one, body_of(4)),
    ) == ["alone"] * 9 + ["stored"]
    assert [steps_of(user, trial) for trial in (one[0], other)] == [4, 0]


def test_repeated_batch_has_no_effect(agent: ReportingAgent, user: Caller) -> None:
    reports = [report(task, body_of(5)) for task in agent.tasks]
    assert agent.outcomes(*reports) == ["stored"] * 2
    assert agent.outcomes(*reports) == ["stored"] * 2
    for trial, _ in agent.tasks:
        summary = user.get(f"/api/v1/trials/{trial}")["trial"]["summaryMetrics"]
        assert summary["avg_metrics"]["loss"]["count"] == 1


def test_rejects_reports_of_a_task_that_ended_long_ago(api: Api, agent: ReportingAgent) -> None:
    one, _ = agent.tasks
    agent.end()
    assert agent.outcomes(report(one, body_of(1))) == ["stored"], "its last words are heard"
    later = api.ctx.now() + timedelta(days=8)
    api.ctx.now = lambda: later
    assert agent.outcomes(report(one, body_of(2))) == ["alone"]
    assert steps_of(api.signed_in("determined"), one[0]) == 1


def test_only_agents_can_deliver_reports(agent: ReportingAgent, user: Caller) -> None:
    one, _ = agent.tasks
    body = {"reports": [report(one, body_of(1))]}
    for token in ("", "agent-made-up", user.token, one[1]):
        assert Caller(user.app, token).ask("POST", REPORTS, body).status == 401
    assert steps_of(user, one[0]) == 0


def test_agent_cannot_deliver_reports_for_tasks_of_another(
    api: Api, agent: ReportingAgent, user: Caller
) -> None:
    other = ReportingAgent(api, user, "other")
    reports = [report(agent.tasks[0], body_of(1)), report(other.tasks[0], body_of(1))]
    assert other.outcomes(*reports) == ["alone", "stored"]
    assert agent.outcomes(reports[0]) == ["stored"]


def test_task_can_report_only_for_itself_with_roles(api: Api, agent: ReportingAgent) -> None:
    admin = api.signed_in("admin")
    api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
    reports = [report(task, body_of(1)) for task in agent.tasks]
    assert agent.outcomes(*reports) == ["stored"] * 2, "for itself, a task needs no role"
    one, (other, _) = agent.tasks
    foreign = report((other, one[1]), body_of(2))
    assert agent.outcomes(foreign, report(one, body_of(2))) == ["alone", "stored"]
    assert steps_of(admin, other) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b'{"reports":[1]}', b'{"reports":[{"token":7}]}',
        b'{"reports":[{"token":"\\ud800","report":"{}","trial_id":1}]}',
        b'{"reports":[' + b",".join([b"{}"] * 1001) + b"]}",
    ],
    ids=["cut off", "list", "number", "odd token", "half a character", "very many"],
)  # fmt: skip
def test_rejects_invalid_batch(agent: ReportingAgent, body: bytes) -> None:
    assert agent.caller.ask("POST", REPORTS, body).status == 400


def at_once(api: Api, *batches: tuple[str, list[dict[str, Any]]]) -> list[Got]:
    """Send batches, each with the token of an agent, all before the first is answered."""
    host = AsgiApp(api.app, LocalNotifier(), relays=False)

    async def run() -> list[Got]:
        return await asyncio.gather(
            *(
                requested(
                    host,
                    "POST",
                    REPORTS,
                    body=json.dumps({"reports": reports}).encode(),
                    headers={"Authorization": f"Bearer {token}"},
                )
                for token, reports in batches
            )
        )

    return asyncio.run(run())


def test_concurrent_batches_share_statements_and_have_own_outcomes(
    api: Api, user: Caller, agent: ReportingAgent
) -> None:
    agents = [agent, *(ReportingAgent(api, user, f"other-{n}") for n in range(6))]
    batches = [
        (a.caller.token, [report(task, body_of(3 + n)) for task in a.tasks])
        for n, a in enumerate(agents)
    ]
    made_up = ("agent-made-up", [report(agent.tasks[0], body_of(99))])
    malformed = (agent.caller.token, [{"trial_id": "x"}])
    poison = ("nobody", [{**report(agent.tasks[0], body_of(99)), "token": "\ud800"}])
    with statements(api.ctx.db) as queries:
        responses = at_once(api, *batches, made_up, malformed, poison)
    assert [answer.status for answer in responses] == [200] * 7 + [401, 400, 400]
    assert [answer.json()["outcomes"] for answer in responses[:7]] == [["stored"] * 2] * 7
    step_lists = [[steps_of(user, trial) for trial, _ in a.tasks] for a in agents]
    assert step_lists == [[3 + n] * 2 for n in range(7)]
    # A round for the first that comes, one for the second, one for the others: of two statements, as their trials are
    # not known yet.
    assert sum("INSERT INTO metrics" in sql for sql in queries) <= 6


def test_batch_gets_503_if_the_database_is_down(
    api: Api, agent: ReportingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseDown("away")

    monkeypatch.setattr("det_controlplane.services.trials.metric_reports.take_together", fail)
    reports = [report(task, body_of(1)) for task in agent.tasks]
    assert [response.status for response in at_once(api, (agent.caller.token, reports))] == [503]
    assert agent.caller.ask("POST", REPORTS, {"reports": reports}).status == 503
