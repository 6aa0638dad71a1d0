"""The cause of failure of a gang in which some containers ended before the others were killed."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent

GANG = SINGLE + "resources: {slots_per_trial: 2}\npreemption_timeout: 5\n"
_TRIAL = text("SELECT state::text AS state, restarts FROM trials")
_READY = text("UPDATE allocations SET ready = true")
_DAEMON = text("UPDATE containers SET daemon = true WHERE agent_id = 'second'")


class Gang:
    """One trial over two agents."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.agents = [Agent.joined(ctx, name) for name in ("first", "second")]
        experiment = creation.create(ctx, OWNER, creation.Submission(config=GANG))
        assert experiment.experiment_id is not None
        self.experiment_id = experiment.experiment_id
        tick.run(ctx)
        self._orders = [order for agent in self.agents for order in agent.poll()]
        for number in range(2):
            self._report(number, ContainerState.RUNNING)
        with ctx.db.begin() as tx:
            tx.execute(_READY)

    def exit(self, number: int, code: int) -> None:
        self._report(number, ContainerState.TERMINATED, code)

    def _report(self, number: int, state: ContainerState, code: int | None = None) -> None:
        order = self._orders[number]
        failure = "container_failed" if code else None
        self.agents[number].poll(Report(order["id"], order["epoch"], state, code, failure))

    def trial(self) -> Sequence[object]:
        row = self._ctx.db.read(_TRIAL)[0]
        return row.state, row.restarts


def test_container_killed_after_a_pause_is_not_a_failure(
    ctx: Context, clock: list[datetime]
) -> None:
    gang = Gang(ctx)
    actions.command(ctx, gang.experiment_id, Command.PAUSE)
    gang.exit(0, 0)
    clock[0] += timedelta(seconds=10)
    tick.run(ctx)
    gang.exit(1, 137)
    assert gang.trial() == ("PAUSED", 0)


def test_failed_container_and_its_killed_peer_count_as_one_failure(ctx: Context) -> None:
    gang = Gang(ctx)
    gang.exit(0, 1)
    gang.exit(1, 137)
    assert gang.trial() == ("ACTIVE", 1)


def test_killed_daemon_does_not_fail_a_completed_trial(ctx: Context) -> None:
    gang = Gang(ctx)
    with ctx.db.begin() as tx:
        tx.execute(_DAEMON)
    gang.exit(0, 0)
    gang.exit(1, 137)
    assert gang.trial() == ("COMPLETED", 0)
