"""Store reports of slow ranks, send them to webhooks, and let slow machines be replaced."""

from dataclasses import replace

from det_controlplane.core.trials.stragglers import Straggler
from det_controlplane.db.trials import stragglers
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import WEBHOOKS_TOPIC, change
from det_controlplane.services.webhooks import events


def report(ctx: Context, user: User, trial_id: int, straggler: Straggler) -> None:
    """Store a report of a trial's chief. Reports of ended runs are ignored."""
    if user.allocation_id is None:
        raise Forbidden("only a running trial reports its slow ranks")
    with change(ctx) as changed:
        added = stragglers.add(changed.tx, trial_id, user.allocation_id, straggler, changed.now)
        if added is None or straggler.recovered:
            return
        changed.queue_changed(added.pool)  # the machine may have to be replaced
        if added.known:
            return
        known_agent = replace(straggler, agent_id=added.agent_id)
        if events.queue_straggler_messages(
            changed.tx, added.experiment_id, trial_id, known_agent, changed.now
        ):
            changed.wake(WEBHOOKS_TOPIC)
