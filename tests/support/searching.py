"""Experiments with running trials but without agents, for tests of their reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.engine.database import Database
from det_controlplane.ports.waker import NoWaker
from det_controlplane.services.agents import polling
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.principal import User
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

OWNER = User(2, "determined", False, 0)
CLUSTER = {"checkpoint_storage": {"type": "directory", "container_path": "/checkpoints"}}
ASHA = """
name: many
entrypoint: python3 train.py
hyperparameters: {{lr: {{type: log, base: 10, minval: -4, maxval: -1}}}}
searcher: {{name: async_halving, metric: loss, max_trials: {trials}, max_concurrent_trials: {trials}, num_rungs: 5,
            divisor: 4, time_metric: batches, max_time: 1024}}
reproducibility: {{experiment_seed: 7}}
"""
_RUN = text("""
    UPDATE allocations SET state = 'RUNNING', ready = true, epoch = 1, started_at = requested_at
    WHERE state = 'QUEUED' AND trial_id IN (SELECT id FROM trials WHERE experiment_id = :id)
""")
_TRIALS = text("SELECT id FROM trials WHERE experiment_id = :id ORDER BY id")


SINGLE = """
name: one
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 100}}
max_restarts: 1
"""


@dataclass(frozen=True, slots=True)
class Running:
    id: int
    trials: list[int]


def context(database: Database) -> Context:
    """Return one process of the API; each call is another one."""
    return Context(
        db=database, config=load_cluster(CLUSTER), waker=NoWaker(), objects=None,  # type: ignore[arg-type]
        cluster_id="test", bootstrap_token="bootstrap",
    )  # fmt: skip


def running(ctx: Context, config: str) -> Running:
    """Create an experiment with all trials running on slots."""
    experiment = creation.create(ctx, OWNER, creation.Submission(config=config))
    assert experiment.experiment_id is not None
    let_run(ctx, experiment.experiment_id)
    with ctx.db.begin() as tx:
        trials = [r[0] for r in tx.execute(_TRIALS, {"id": experiment.experiment_id}).all()]
    return Running(experiment.experiment_id, trials)


def let_run(ctx: Context, experiment_id: int) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_RUN, {"id": experiment_id})


def validate(ctx: Context, trial_id: int, batches: int, loss: float, run_id: int = 1) -> None:
    values = {"loss": loss, "batches": batches}
    metric_reports.take(ctx, MetricsReport(trial_id, run_id, "validation", batches, values))


@dataclass
class Agent:
    """The state of an agent between polls."""

    ctx: Context
    id: str
    token: str
    incarnation: str
    seq: int = 0

    @classmethod
    def joined(
        cls, ctx: Context, id: str = "agent", slots: int = 1, reports: Sequence[Report] = ()
    ) -> "Agent":
        """Join with the containers that still exist."""
        incarnation = ctx.random.uuid()
        joining = polling.Joining(
            agent_id=id, agent_key=f"key of {id}", incarnation=incarnation, pool="default", version="0.38.1",
            hostname=id, runtime="process", addresses=[], slots=[{"id": n, "type": "cpu"} for n in range(slots)],
            proof={"kind": "bootstrap_token", "token": ctx.bootstrap_token}, reports=reports,
        )  # fmt: skip
        answer = polling.join(ctx, joining)
        return cls(ctx, id, answer.agent_token, str(incarnation))

    def poll(
        self, *reports: Report, leaving: bool = False, out_of_service: str = ""
    ) -> list[dict[str, Any]]:
        self.seq += 1
        requested_poll = polling.Poll(
            self.token, self.incarnation, list(reports), self.seq, "", leaving,
            out_of_service=out_of_service,
        )  # fmt: skip
        return list(polling.poll(self.ctx, requested_poll).message.as_json()["containers"])


def pass_time(ctx: Context, clock: list[datetime], seconds: float) -> None:
    """Advance the clock with a tick every five seconds, as a running control plane does."""
    end = clock[0] + timedelta(seconds=seconds)
    while clock[0] < end:
        clock[0] = min(clock[0] + timedelta(seconds=5), end)
        tick.run(ctx)
