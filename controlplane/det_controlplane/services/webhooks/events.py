"""What webhooks tell: the end of experiments, lines of logs, and alerts of training code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from det_controlplane.core.patterns import matches
from det_controlplane.core.webhooks import TriggerType
from det_controlplane.db import experiments, webhooks
from det_controlplane.db.engine import Tx
from det_controlplane.db.webhooks import Listening
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing
from det_controlplane.services.identity.principal import User
from det_controlplane.services.use_case import WEBHOOKS_TOPIC


@dataclass(frozen=True, slots=True)
class Heard:
    """A line of a task that a trigger waits for."""

    listening: Listening
    task_id: str
    log: str
    agent_id: str | None


def heard(ctx: Context, task_id: str, lines: Sequence[Mapping[str, Any]]) -> list[Heard]:
    """Return the first line, with its agent, for each trigger; outside of transactions, as it may take a while."""
    with ctx.db.autocommit() as tx:
        waiting = webhooks.listening(tx, task_id)
    found = []
    for trigger in waiting:
        hit = next((line for line in lines if matches(trigger.regex, line["log"])), None)
        if hit is not None:
            found.append(Heard(trigger, task_id, hit["log"], hit["agent_id"]))
    return found


def tell_line(tx: Tx, line: Heard, now: datetime) -> int:
    data = {
        "task_id": line.task_id,
        "node_name": line.agent_id or "",
        "triggering_log": line.log.removesuffix("\n"),
    }
    return webhooks.promise_line(tx, line.listening, line.task_id, data, now)


def alert(
    ctx: Context, caller: User, experiment_id: int, trial_id: int | None, custom: dict[str, str]
) -> None:
    """Tell the webhooks that the experiment names, and that listen to alerts."""
    if caller.experiment_id is not None and caller.experiment_id != experiment_id:
        raise Forbidden("a task's token may only send alerts of its own experiment")
    with ctx.db.begin() as tx:
        if not experiments.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
        told = webhooks.promise(
            tx,
            TriggerType.CUSTOM,
            experiment_id,
            ctx.now(),
            data={"custom_data": custom},
            more={"trial_id": trial_id} if trial_id else {},
        )
    if told:
        ctx.waker.wake(WEBHOOKS_TOPIC)
