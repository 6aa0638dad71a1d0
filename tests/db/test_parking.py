"""Trials of promotion searches wait without slots, and continue when they are promoted."""

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.db.engine.database import Database
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.scheduling import schedule_pool
from det_controlplane.services.trials import trial_reports
from sqlalchemy import text

from tests.support.searching import OWNER, Agent, context

PROMOTION = """
name: promotion
entrypoint: python3 train.py
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
searcher: {name: async_halving, metric: loss, max_trials: 4, max_concurrent_trials: 2, num_rungs: 2, divisor: 2,
           max_length: {batches: 64}}
"""
_TRIAL = text("""
    SELECT t.state::text AS state, t.parked, t.train_to, t.restarts,
           (SELECT array_agg(a.state::text ORDER BY a.run_id) FROM allocations a WHERE a.trial_id = t.id) AS runs
    FROM trials t WHERE t.id = :id
""")
_READY = text("UPDATE allocations SET ready = true WHERE state = 'ASSIGNED' OR state = 'RUNNING'")


def trial_of(ctx: Context, id: int) -> tuple[str, bool, float, int, list[str]]:
    row = ctx.db.read(_TRIAL, {"id": id})[0]
    return row.state, row.parked, row.train_to, row.restarts, row.runs


@pytest.mark.parametrize("exit_code", [0, 1])
def test_trial_promoted_while_its_parked_run_exits_is_queued_again(
    database: Database, exit_code: int
) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx, slots=2)
    experiment = creation.create(ctx, OWNER, creation.Submission(config=PROMOTION))
    assert experiment.experiment_id is not None
    schedule_pool.run(ctx, "default")
    orders = agent.poll()
    agent.poll(*(Report(o["id"], o["epoch"], ContainerState.RUNNING) for o in orders))
    with ctx.db.begin() as tx:
        tx.execute(_READY)
    first = next(o for o in orders if o["spec"]["env"]["DET_TRIAL_ID"] == "1")
    trial_reports.complete_operation(ctx, 1, 32, 0.1)
    assert trial_of(ctx, 1)[1]
    trial_reports.complete_operation(ctx, 2, 32, 0.9)
    assert trial_of(ctx, 1) == ("ACTIVE", False, 64.0, 0, ["RUNNING"])
    agent.poll(Report(first["id"], first["epoch"], ContainerState.TERMINATED, exit_code=exit_code))
    assert trial_of(ctx, 1) == ("ACTIVE", False, 64.0, 0, ["TERMINATED", "QUEUED"])
