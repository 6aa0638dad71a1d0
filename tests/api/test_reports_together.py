"""Reports that reach the API at the same time are answered together, and each as its own caller's."""

import asyncio
import json
from typing import Any

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.db.engine.errors import DatabaseFull
from det_controlplane.entry.server.asgi import AsgiApp

from tests.support.api import Api, Caller, create, report_metrics, trial_of
from tests.support.asgi import Got, requested
from tests.support.played_agent import task_of
from tests.support.statements import statements

LOSS = {"loss": 0.5}


def body_of(steps: int, group: str = "training", metrics: Any = LOSS, run: int = 0) -> bytes:
    inner = {"trialRunId": run, "stepsCompleted": steps, "metrics": {"avgMetrics": metrics}}
    return json.dumps({"group": group, "metrics": inner}).encode()


def at_once(api: Api, *reports: tuple[str, int, bytes]) -> list[Got]:
    """Send reports, each with a token and for a trial, all before the first is answered."""
    host = AsgiApp(api.app, LocalNotifier(), relays=False)

    async def run() -> list[Got]:
        return await asyncio.gather(
            *(
                requested(
                    host,
                    "POST",
                    f"/api/v1/trials/{trial}/metrics",
                    body=body,
                    headers={"Authorization": f"Bearer {token}"},
                )
                for token, trial, body in reports
            )
        )

    return asyncio.run(run())


def trials(user: Caller, count: int) -> list[int]:
    return [int(trial_of(user, create(user))["id"]) for _ in range(count)]


def steps_of(user: Caller, trial: int) -> int:
    return int(user.get(f"/api/v1/trials/{trial}")["trial"]["totalBatchesProcessed"])


def test_concurrent_reports_have_their_own_responses(api: Api, user: Caller) -> None:
    task, experiment = task_of(api, user)
    own, (other, third) = int(trial_of(user, experiment)["id"]), trials(user, 2)
    answers = at_once(
        api,
        (user.token, other, body_of(3)),
        ("made up", third, body_of(3)),
        ("", third, body_of(3)),
        (task.token, own, body_of(4, run=1)),
        (task.token, third, body_of(3)),
        (user.token, third, b"{"),
        (user.token, third, body_of(3, metrics={"loss": "a NUL: \0"})),
        (user.token, 999_999, body_of(3)),
        (user.token, third, body_of(5, group="validation")),
    )
    assert [response.status for response in answers] == [
        200,
        401,
        401,
        200,
        403,
        400,
        400,
        404,
        200,
    ]
    assert [steps_of(user, t) for t in (own, other, third)] == [4, 3, 5]


def test_response_equals_the_response_to_a_single_report(api: Api, user: Caller) -> None:
    trial, other = trials(user, 2)
    first, second = at_once(api, (user.token, trial, body_of(1)), (user.token, other, body_of(1)))
    (alone,) = at_once(api, (user.token, trial, body_of(1)))
    assert (first.status, first.headers, first.raw) == (alone.status, alone.headers, alone.raw)
    assert second == first


def test_waiting_reports_share_statements(api: Api, user: Caller) -> None:
    several = trials(user, 8)
    for trial in several:  # their experiments know the names from now on
        report_metrics(user, trial, "training", 1, LOSS)
    reports = [(user.token, trial, body_of(2)) for trial in several]
    with statements(api.ctx.db) as queries:
        assert {response.status for response in at_once(api, *reports)} == {200}
    # The first request takes a round, the second another, all others a third. Each round reads owners of new trials.
    assert len(queries) <= 12


def test_rejects_report_with_a_revoked_token(api: Api, user: Caller) -> None:
    (trial,) = trials(user, 1)
    leaving = api.signed_in("determined")
    assert at_once(api, (leaving.token, trial, body_of(1)))[0].status == 200
    leaving.post("/api/v1/auth/logout")
    responses = at_once(api, (user.token, trial, body_of(2)), (leaving.token, trial, body_of(3)))
    assert [answer.status for answer in responses] == [200, 401]
    assert steps_of(user, trial) == 2


def test_report_failed_by_a_full_disk_makes_the_cluster_unhealthy(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trial,) = trials(user, 1)

    def fail(*_: object) -> None:
        raise DatabaseFull("the disk of the database is full")

    monkeypatch.setattr("det_controlplane.services.trials.metric_reports.take_together", fail)
    assert [response.status for response in at_once(api, (user.token, trial, body_of(1)))] == [503]
    assert api.anonymous().ask("GET", "/health").status == 503
