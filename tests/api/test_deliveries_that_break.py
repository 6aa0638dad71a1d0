"""The reports of an agent count once despite lost messages and restarts of the agent."""

import threading
from pathlib import Path
from random import Random

import pytest
from det_agent.report_delivery import ReportDelivery, TrialReport
from det_agent.runtime import ContainerKey
from det_agent.trial_reports import TrialReports
from determined.common.connections import Connections

from tests.support.api import Api, Caller
from tests.support.broken_proxy import Fault, broken_proxy
from tests.support.reporting_agent import REPORTS, ReportingAgent, body_of
from tests.support.served_api import served

STEPS = 12
FAULTS: tuple[Fault | None, ...] = ("lost", "unanswered", "half", "busy", None, None)


@pytest.mark.parametrize("seed", range(4))
def test_reports_of_an_agent_count_once(
    api: Api, user: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("det_agent.trial_reports.FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("det_agent.trial_reports.LONGEST_PAUSE_S", 0.01)
    agent, random, errors = ReportingAgent(api, user), Random(seed), list[str]()
    keys = {
        trial: ContainerKey(f"c-{trial}", 1, f"a-{trial}", f"t-{trial}", token)
        for trial, token in agent.tasks
    }

    def started(url: str) -> TrialReports:
        delivery = ReportDelivery(Connections(url), lambda: agent.caller.token)
        reports = TrialReports(tmp_path, delivery, lambda key, text: errors.append(text))
        reports.start()
        return reports

    with served(api) as there, broken_proxy(there) as (proxy, url):
        proxy.faults = lambda method, target: random.choice(FAULTS)
        first = started(url)
        _report(first, keys, range(1, STEPS // 2))
        _ended(first)
        second = started(url)
        _report(second, keys, range(STEPS // 2, STEPS + 1))
        for key in keys.values():
            second.finish(key)
        assert ("POST", REPORTS) in proxy.requests
    assert errors == []
    for trial, _ in agent.tasks:
        stored_trial = user.get(f"/api/v1/trials/{trial}")["trial"]
        assert stored_trial["summaryMetrics"]["avg_metrics"]["loss"]["count"] == STEPS
        assert stored_trial["totalBatchesProcessed"] == STEPS


def _report(reports: TrialReports, keys: dict[int, ContainerKey], steps: range) -> None:
    for step in steps:
        for trial, key in keys.items():
            headers = {"Authorization": f"Bearer {key.session_token}"}
            target = f"/api/v1/trials/{trial}/metrics"
            reports.put(key, TrialReport(target, headers, body_of(step).encode()))


def _ended(reports: TrialReports) -> None:
    """End a process of the agent: its requests are answered or lost before the next process begins."""
    reports.stop()
    for thread in threading.enumerate():
        if thread.name == "trial-reports":
            thread.join(60)
