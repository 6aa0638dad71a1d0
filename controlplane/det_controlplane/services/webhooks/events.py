"""Send webhooks for ended experiments, log lines, alerts of training code, spent budgets, and deadlines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from det_controlplane.core.config.moments import format_moment
from det_controlplane.core.money.budget import (
    Budget,
    BudgetScope,
    BudgetState,
    is_spent,
    sentence_of,
)
from det_controlplane.core.patterns import matches
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.provision.deadline_model import DeadlineDecision, DeadlineState
from det_controlplane.core.trials.stragglers import Straggler
from det_controlplane.core.trials.stragglers import sentence as sentence_of_straggler
from det_controlplane.core.webhooks import BUDGETS, DEADLINES, STRAGGLERS, TriggerType
from det_controlplane.db.cluster import webhooks
from det_controlplane.db.cluster.webhooks import LogTrigger
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import experiments
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing
from det_controlplane.services.identity import task_rights
from det_controlplane.services.principal import User
from det_controlplane.services.searching import LogSearch
from det_controlplane.services.use_case import WEBHOOKS_TOPIC, Change

_NUMBERED = (BudgetScope.EXPERIMENT, BudgetScope.WORKSPACE)


@dataclass(frozen=True, slots=True)
class TriggeredLine:
    """A line of a task that a trigger waits for."""

    trigger: LogTrigger
    task_id: str
    log: str
    agent_id: str | None


def triggered_lines(
    ctx: Context, task_id: str, lines: Sequence[Mapping[str, Any]], searching: LogSearch
) -> list[TriggeredLine]:
    """Return the first line, with its agent, for each trigger; outside of transactions, as it may take a while."""
    with ctx.db.autocommit() as tx:
        waiting = webhooks.log_triggers(tx, task_id)
    result = []
    for trigger in waiting:
        label = f"webhook trigger {trigger.trigger_id}"
        line = searching.first(task_id, trigger.regex, label, lines, partial(_has, trigger.regex))
        if line is not None:
            result.append(TriggeredLine(trigger, task_id, line["log"], line["agent_id"]))
    return result


def _has(pattern: str, line: Mapping[str, Any]) -> bool:
    return matches(pattern, line["log"])


def queue_line_messages(tx: Tx, line: TriggeredLine, now: datetime) -> int:
    data = {
        "task_id": line.task_id,
        "node_name": line.agent_id or "",
        "triggering_log": line.log.removesuffix("\n"),
    }
    return webhooks.queue_messages_of_line(tx, line.trigger, line.task_id, data, now)


def alert(
    ctx: Context, caller: User, experiment_id: int, trial_id: int | None, custom: dict[str, str]
) -> None:
    """Queue an alert for the webhooks that the experiment names and that listen to alerts."""
    if caller.experiment_id is not None and caller.experiment_id != experiment_id:
        raise Forbidden("a task's token may only send alerts of its own experiment")
    task_rights.require_experiment(ctx, caller, experiment_id)
    with ctx.db.begin() as tx:
        if not experiments.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
        count = webhooks.queue_messages(
            tx,
            TriggerType.CUSTOM,
            experiment_id,
            ctx.now(),
            data={"custom_data": custom},
            more={"trial_id": trial_id} if trial_id else {},
        )
    if count:
        ctx.waker.wake(WEBHOOKS_TOPIC)


def queue_budget_messages(
    tx: Tx, budget: Budget, state: BudgetState, spent_usd: Decimal, now: datetime
) -> int:
    """Send a message about a reached limit to the webhooks of an experiment or a workspace, and to the
    webhooks of the cluster."""
    sentence = sentence_of(budget, state)
    of = int(budget.scope_id) if budget.scope in _NUMBERED else None
    data = {
        "custom_data": {
            "title": sentence[0].upper() + sentence[1:],
            "description": f"${spent_usd:.2f} of ${budget.limit_usd:.2f} spent; raise it with `det budget set`.",
            "level": "ERROR" if is_spent(state) else "WARNING",
        },
        "budget": {
            "id": budget.id, "scope": budget.scope.value, "scope_name": budget.scope_name, "state": state.value,
            "period": budget.period.value, "limit_usd": float(budget.limit_usd), "spent_usd": float(round(spent_usd, 6)),
        },
    }  # fmt: skip
    return webhooks.queue_messages(
        tx,
        TriggerType.CUSTOM,
        of if budget.scope is BudgetScope.EXPERIMENT else None,
        now,
        workspace_id=of if budget.scope is BudgetScope.WORKSPACE else None,
        subject=BUDGETS,
        data=data,
    )


def queue_straggler_messages(
    tx: Tx, experiment_id: int, trial_id: int, straggler: Straggler, now: datetime
) -> int:
    """Send a message about a rank that became slow to the webhooks of its experiment."""
    sentence = sentence_of_straggler(straggler)
    data = {
        "custom_data": {
            "title": f"Trial {trial_id} has a slow rank",
            "description": sentence[0].upper() + sentence[1:],
            "level": "WARNING",
        },
        "straggler": {"trial_id": trial_id, **asdict(straggler)},
    }
    return webhooks.queue_messages(
        tx,
        TriggerType.CUSTOM,
        experiment_id,
        now,
        subject=STRAGGLERS,
        data=data,
        more={"trial_id": trial_id},
    )


_DEADLINE_TITLES = {
    DeadlineState.LAST_CHANCE: "uses machines on demand for its deadline",
    DeadlineState.IN_DANGER: "will probably miss its deadline",
    DeadlineState.MISSED: "has missed its deadline",
}


def report_deadlines(change: Change, decisions: Iterable[DeadlineDecision]) -> None:
    """Report the deadlines that are in a worse state than before."""
    news = [decision for decision in decisions if decision.is_news]
    if sum(_queue_deadline_messages(change.tx, one, change.now) for one in news):
        change.wake(WEBHOOKS_TOPIC)


def _queue_deadline_messages(tx: Tx, decision: DeadlineDecision, now: datetime) -> int:
    """Send a message about a deadline in a worse state to the webhooks of its experiment."""
    is_warning = decision.state is DeadlineState.LAST_CHANCE
    end_at = decision.end_at and datetime.fromtimestamp(decision.end_at, now.tzinfo)
    data = {
        "custom_data": {
            "title": f"Experiment {decision.experiment_id} {_DEADLINE_TITLES[decision.state]}",
            "description": decision.sentence[0].upper() + decision.sentence[1:],
            "level": "WARNING" if is_warning else "ERROR",
        },
        "deadline": {
            "state": decision.state.value, "choice": decision.way and decision.way.value,
            "predicted_end": format_moment(end_at) if end_at else None,
            "probability": None if decision.probability is None else round(decision.probability, 3),
        },
    }  # fmt: skip
    return webhooks.queue_messages(
        tx, TriggerType.CUSTOM, decision.experiment_id, now, subject=DEADLINES, data=data
    )


def require_known_webhooks(ctx: Context, config: Mapping[str, Any], workspace_id: int) -> None:
    """Raise InvalidConfig where a configuration names webhooks that its workspace does not have."""
    choice = (config.get("integrations") or {}).get("webhooks") or {}
    ids, names = choice.get("webhook_id") or [], choice.get("webhook_name") or []
    if not ids and not names:
        return
    with ctx.db.autocommit() as tx:
        unknown_ids, unknown_names = webhooks.unknown(tx, ids, names, workspace_id)
    problem = f"is no webhook of workspace {workspace_id} or of the cluster: see 'det webhook list'"
    problems = [
        *(Problem("integrations.webhooks.webhook_id", f"{i} {problem}") for i in unknown_ids),
        *(Problem("integrations.webhooks.webhook_name", f"{n!r} {problem}") for n in unknown_names),
    ]
    if problems:
        raise InvalidConfig(problems)
