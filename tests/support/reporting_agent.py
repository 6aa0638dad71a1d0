"""An agent with two tasks, for tests of its deliveries."""

import json
from typing import Any

from tests.support.api import Api, Caller, create, trial_of
from tests.support.played_agent import PlayedAgent

REPORTS = "/agents/v1/reports"


class ReportingAgent:
    """An agent with two tasks that delivers given reports."""

    def __init__(self, api: Api, user: Caller, name: str = "delivers") -> None:
        experiments = [
            create(user, activate=True, resources={"slots_per_trial": 1}) for _ in range(2)
        ]
        self._agent = PlayedAgent(api, name)
        self._agent.join()
        api.tick()
        orders = self._agent.poll()
        self._agent.poll()
        tokens = {o["spec"]["task_id"]: o["spec"]["session_token"] for o in orders}
        trials = [trial_of(user, experiment) for experiment in experiments]
        self.tasks = [(int(t["id"]), tokens[t["taskId"]]) for t in trials]

    @property
    def caller(self) -> Caller:
        return self._agent.caller

    def end(self) -> None:
        """Report the end of both containers."""
        self._agent.poll("terminated", exit_code=0)

    def outcomes(self, *reports: dict[str, Any]) -> list[str]:
        reported_outcomes: list[str] = self.caller.post(REPORTS, {"reports": list(reports)})[
            "outcomes"
        ]
        return reported_outcomes


def body_of(steps: int, group: str = "training", run: int = 1) -> str:
    metrics = {"avgMetrics": {"loss": 0.5}}
    inner = {"trialRunId": run, "stepsCompleted": steps, "metrics": metrics}
    return json.dumps({"group": group, "metrics": inner})


def report(task: tuple[int, str], body: str, key: str = "k") -> dict[str, Any]:
    trial, token = task
    return {"trial_id": trial, "token": token, "key": key, "report": body}


def steps_of(user: Caller, trial: int) -> int:
    return int(user.get(f"/api/v1/trials/{trial}")["trial"]["totalBatchesProcessed"])
