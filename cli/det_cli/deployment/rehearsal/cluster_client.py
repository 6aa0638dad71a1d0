"""The API requests of a rehearsal to its cluster, with responses as records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from determined.common import context_upload
from determined.common.context import collect
from determined.common.http import Session
from determined.common.log_stream import TERMINAL
from determined.common.pages import V1, pages
from determined.common.times import parsed, written

TRAINING = Path(__file__).parent / "training" / "train.py"
_CLOCKS_DIFFER = timedelta(hours=1)
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Machine:
    """A rented machine, from the cluster's API."""

    id: str
    pool: str
    provider: str
    region: str
    offer: str
    capacity: str
    cloud_id: str
    agent_id: str
    cost_usd: float
    requested_at: datetime
    launched_at: datetime | None
    registered_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class Run:
    """An allocation of a trial or task."""

    id: str
    agent_id: str
    started_at: datetime | None
    is_ready: bool
    has_ended: bool


@dataclass(frozen=True)
class Trial:
    id: int
    task_id: str
    state: str
    restarts: int


@dataclass(frozen=True)
class Metric:
    """A training report: the computed value, and the step from which the process resumed."""

    step: int
    value: int
    resumed_from: int
    reported_at: datetime


@dataclass(frozen=True)
class Checkpoint:
    uuid: str
    step: int
    is_complete: bool
    files: Sequence[str]


@dataclass(frozen=True)
class Progress:
    """The reports of a trial so far."""

    metrics: Sequence[Metric]
    validations: Sequence[int]  # the steps of the validations
    checkpoints: Sequence[Checkpoint]

    @property
    def last_step(self) -> int:
        return max((metric.step for metric in self.metrics), default=0)

    @property
    def saved_step(self) -> int:
        """Return the step of the newest complete checkpoint, or 0."""
        return max((c.step for c in self.checkpoints if c.is_complete), default=0)


class ClusterClient:
    """Calls the API of the rehearsed cluster."""

    def __init__(self, session: Session, max_cost_usd: float) -> None:
        self._session = session
        self._max_cost_usd = max_cost_usd
        self._since = written(datetime.now(timezone.utc) - _CLOCKS_DIFFER)
        self._earlier = {machine.id for machine in self._machines()}

    @property
    def url(self) -> str:
        return self._session.base_url

    def version(self) -> str:
        info = self._session.get(f"{V1}/master")
        return str(info.get("productVersion") or info["version"])

    def user(self) -> tuple[str, bool]:
        """Return the name of the signed-in user, and True if the user is an administrator."""
        user = self._session.get(f"{V1}/me")["user"]
        return str(user["username"]), bool(user["admin"])

    def live_allocations(self) -> list[str]:
        """Return the ids of all running and queued allocations."""
        return list(self._session.get(f"{V1}/tasks")["allocationIdToSummary"])

    # Machines

    def machines(self) -> list[Machine]:
        """Return the machines that the cluster rents now."""
        return [machine for machine in self._machines() if machine.ended_at is None]

    def rented_since(self) -> list[Machine]:
        """Return the machines rented since the rehearsal began, including ended machines."""
        return [machine for machine in self._machines() if machine.id not in self._earlier]

    def spent_usd(self) -> float:
        """Return the cost so far of the machines rented since the rehearsal began."""
        return sum(machine.cost_usd for machine in self.rented_since())

    def _machines(self) -> Iterator[Machine]:
        rows = pages(self._session, "/instances", "instances", {"endedAfter": self._since})
        return map(_machine, rows)

    def agents_with_work(self) -> set[str]:
        agents = self._session.get(f"{V1}/agents")["agents"]
        return {str(agent["id"]) for agent in agents if agent["containers"]}

    def terminate(self, machine: Machine) -> None:
        self._session.post(f"{V1}/instances/{machine.id}/terminate")

    # Experiments

    def create_experiment(self, config: dict[str, Any]) -> int:
        """Create and start an experiment with the rehearsal's training code and its own budget."""
        code = context_upload.send(self._session, collect(str(TRAINING)))
        body = {"config": yaml.safe_dump(config), "activate": False, **code}
        id = int(self._session.post(f"{V1}/experiments", body)["experiment"]["id"])
        limit = f"{self._max_cost_usd:.2f}"
        budget = {"scope": "experiment", "of": str(id), "limitUsd": limit, "period": "total"}
        self._session.put(f"{V1}/budgets", budget)
        self._session.post(f"{V1}/experiments/{id}/activate")
        return id

    def experiment_state(self, id: int) -> str:
        state = self._session.get(f"{V1}/experiments/{id}")["experiment"]["state"]
        return str(state).removeprefix("STATE_")

    def end_experiment(self, id: int) -> None:
        """Kill an experiment unless it has ended."""
        state = self._session.get(f"{V1}/experiments/{id}")["experiment"]["state"]
        if state not in TERMINAL:
            self._session.post(f"{V1}/experiments/{id}/kill")

    def trial_of(self, experiment_id: int) -> Trial | None:
        trials = self._session.get(f"{V1}/experiments/{experiment_id}/trials")["trials"]
        if not trials:
            return None
        state = str(trials[0]["state"]).removeprefix("STATE_")
        return Trial(trials[0]["id"], trials[0]["taskId"], state, trials[0]["restarts"])

    def progress(self, trial_id: int) -> Progress:
        rows = list(pages(self._session, f"/trials/{trial_id}/workloads", "workloads"))
        return Progress(
            metrics=[_metric(row["training"]) for row in rows if row.get("training")],
            validations=[r["validation"]["totalBatches"] for r in rows if r.get("validation")],
            checkpoints=[_checkpoint(row["checkpoint"]) for row in rows if row.get("checkpoint")],
        )

    def storage_of(self, experiment_id: int) -> tuple[str, str]:
        """Return the kind and the bucket of an experiment's checkpoint storage."""
        config = self._session.get(f"{V1}/experiments/{experiment_id}")["experiment"]["config"]
        storage = config.get("checkpoint_storage") or {}
        return str(storage.get("type", "")), str(storage.get("bucket", ""))

    def why(self, kind: str, id: int | str) -> str:
        """Return the cluster's explanation of why an object waits."""
        reasons = self._session.get(f"{V1}/why/{kind}/{id}")["reasons"]
        return "; ".join(dict.fromkeys(reason["sentence"] for reason in reasons))

    # Tasks

    def runs_of(self, task_id: str) -> list[Run]:
        """Return the allocations of a task, the newest first."""
        task = self._session.get(f"{V1}/tasks/{task_id}")["task"]
        return [_run(allocation) for allocation in task["allocations"]]

    def start_notebook(self) -> tuple[str, str]:
        """Start a notebook without slots. Return its id and the path of its page."""
        config = {"description": "rehearsal", "resources": {"slots": 0}}
        task = self._session.post(f"{V1}/notebooks", {"config": config})["notebook"]
        return str(task["id"]), str(task["serviceAddress"])

    def end_notebook(self, id: str) -> None:
        """Kill a notebook unless it has ended."""
        if self._session.get(f"{V1}/notebooks/{id}")["notebook"]["state"] != "STATE_TERMINATED":
            self._session.post(f"{V1}/notebooks/{id}/kill")

    def fetch(self, path: str) -> tuple[int, str]:
        """Return the status and text of a task's page. Redirects are followed."""
        for _ in range(_MOST_REDIRECTS):
            status, headers, content = self._session.request_bytes("GET", path)
            if status not in _REDIRECTS or "location" not in headers:
                break
            target = urlsplit(headers["location"])
            path = target.path + (f"?{target.query}" if target.query else "")
        return status, content.decode("utf-8", "replace")


def _machine(row: dict[str, Any]) -> Machine:
    place = row["zone"] or row["region"]
    return Machine(
        id=row["id"], pool=row["pool"], provider=row["provider"], region=row["region"],
        offer=f"{row['provider']} {place} {row['machineType']} {row['capacity']}",
        capacity=row["capacity"], cloud_id=row["cloudId"] or "", agent_id=row["agentId"] or "",
        cost_usd=float(row["costUsd"]), requested_at=parsed(row["requestedAt"]),
        launched_at=_time(row["launchedAt"]), registered_at=_time(row["registeredAt"]),
        ended_at=_time(row["endedAt"]),
    )  # fmt: skip


def _time(text: str | None) -> datetime | None:
    return parsed(text) if text else None


def _run(row: dict[str, Any]) -> Run:
    agents = row["agentIds"] or [""]
    has_ended = row["endTime"] is not None
    return Run(row["allocationId"], agents[0], _time(row["startTime"]), row["isReady"], has_ended)


def _metric(row: dict[str, Any]) -> Metric:
    values = row["metrics"]["avgMetrics"]
    return Metric(
        row["totalBatches"], int(values["value"]), int(values["resumed_from"]), parsed(row["endTime"])
    )  # fmt: skip


def _checkpoint(row: dict[str, Any]) -> Checkpoint:
    files = [name for name in row.get("resources") or {} if not name.endswith("/")]
    is_complete = row["state"] == "STATE_COMPLETED"
    return Checkpoint(row["uuid"], row["totalBatches"], is_complete, files)
