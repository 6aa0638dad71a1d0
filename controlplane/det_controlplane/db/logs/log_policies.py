"""Read and change the rows of trials for log policies."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import any_, func, literal, select, update

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import experiments, tasks, trials


@dataclass(frozen=True, slots=True)
class LogPolicies:
    """The log policies of a running trial, and the name of the policy that the trial shows as matched."""

    trial_id: int
    matched: str | None
    policies: list[dict[str, Any]]


def of_task(tx: Tx, task_id: str) -> LogPolicies | None:
    """Return the log policies of the task's trial; None without any, or when the trial has ended."""
    policies = experiments.c.config["log_policies"]
    of_task = (
        select(trials.c.id, trials.c.log_policy_matched, policies)
        .select_from(tasks)
        .join(trials, trials.c.id == tasks.c.trial_id)
    )
    row = tx.execute(
        of_task.join(experiments, experiments.c.id == trials.c.experiment_id).where(
            tasks.c.id == task_id, trials.c.ended_at.is_(None), func.json_array_length(policies) > 0
        )
    ).first()
    return None if row is None else LogPolicies(*row)


def lock_experiments(tx: Tx, trial_ids: Collection[int]) -> None:
    """Lock the experiments of trials by id. The order of locks puts experiments before trials."""
    parents = select(trials.c.experiment_id).where(trials.c.id.in_(trial_ids))
    rows = select(experiments.c.id).where(experiments.c.id.in_(parents))
    tx.execute(rows.order_by(experiments.c.id).with_for_update(key_share=True))


def mark(tx: Tx, trial_id: int, policy: str, *, replaceable: Collection[str] = ()) -> bool:
    """Show a policy as the matched one of a trial. Return False if one is shown that is not replaceable."""
    policy_column = trials.c.log_policy_matched
    free = (trials.c.id == trial_id) & (policy_column.is_(None) | policy_column.in_(replaceable))
    return tx.execute(update(trials).where(free).values(log_policy_matched=policy)).rowcount == 1


def of_trial(tx: Tx, trial_id: int) -> list[dict[str, Any]]:
    join = trials.join(experiments, experiments.c.id == trials.c.experiment_id)
    query = select(experiments.c.config["log_policies"]).select_from(join)
    return tx.execute(query.where(trials.c.id == trial_id)).scalar() or []


def exclude_agent(tx: Tx, trial_id: int, agent_id: str) -> bool:
    """Return False where the agent was excluded before."""
    blocked = trials.c.blocked_agents
    new = (trials.c.id == trial_id) & ~(literal(agent_id) == any_(blocked))
    excluded = update(trials).where(new).values(blocked_agents=func.array_append(blocked, agent_id))
    return tx.execute(excluded).rowcount == 1
