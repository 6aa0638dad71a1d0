"""Elastic gangs lose an agent, continue on the others, and grow when it is back."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.api.agent_protocol import ContainerReport, PollBody, poll
from det_controlplane.api.http import Request
from det_controlplane.core.lifecycle.agent import LEASE
from det_controlplane.core.lifecycle.allocation import LOST_PEER_STATUS, ContainerState
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.schedule.growth import SHORTEST_RUN_S
from det_controlplane.services.agents.containers import PAUSED_POLL, Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.queue import why
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent

ELASTIC = (
    SINGLE.replace("max_restarts: 1", "max_restarts: 0")
    + "resources: {slots_per_trial: 3, min_slots_per_trial: 2}\n"
)
_TRIAL = text("SELECT state::text AS state, restarts FROM trials")
_READY = text("UPDATE allocations SET ready = true WHERE state <> 'TERMINATED'")
_LIVE = text(
    "SELECT run_id, slots, state::text, preempt_reason FROM allocations WHERE ended_at IS NULL"
)
_ACKNOWLEDGED = text("UPDATE allocations SET preempt_acked = true")
_AGENTS = text("SELECT id, state::text FROM agents ORDER BY id")


class Gang:
    """One elastic trial over three agents."""

    def __init__(self, ctx: Context, clock: list[datetime]) -> None:
        self.ctx, self.clock = ctx, clock
        self.agents = {name: Agent.joined(ctx, name) for name in ("a", "b", "c")}
        creation.create(ctx, OWNER, creation.Submission(config=ELASTIC))
        self.orders: dict[str, Any] = {}
        self.run("a", "b", "c")

    def run(self, *names: str) -> None:
        """Start the containers of the next run."""
        tick.run(self.ctx)
        for name in names:
            (self.orders[name],) = self.agents[name].poll()
            self.report(name, ContainerState.RUNNING)
        with self.ctx.db.begin() as tx:
            tx.execute(_READY)

    def report(self, name: str, state: ContainerState, code: int | None = None) -> list[Any]:
        order = self.orders[name]
        failure = "container_failed" if code else None
        return self.agents[name].poll(Report(order["id"], order["epoch"], state, code, failure))

    def fail(self, *names: str, status: int = 1) -> None:
        for name in names:
            self.clock[0] += timedelta(seconds=0.1)
            self.report(name, ContainerState.TERMINATED, status)

    def pass_time(self, wait: timedelta) -> None:
        self.clock[0] += wait
        tick.run(self.ctx)

    def live(self) -> tuple[object, ...]:
        (row,) = self.ctx.db.read(_LIVE)
        return row.run_id, row.slots, row.state

    def trial(self) -> tuple[object, ...]:
        (row,) = self.ctx.db.read(_TRIAL)
        return row.state, row.restarts


@pytest.fixture
def gang(ctx: Context, clock: list[datetime]) -> Gang:
    return Gang(ctx, clock)


def test_gang_continues_on_the_survivors_before_the_lease_ends(gang: Gang) -> None:
    gang.fail("a", "b")
    assert gang.live() == (1, 3, "TERMINATING")
    gang.pass_time(PAUSED_POLL)
    assert PAUSED_POLL < LEASE
    gang.run("a", "b")
    assert gang.live() == (2, 2, "RUNNING")
    assert gang.trial() == ("ACTIVE", 0)


def test_silent_agent_is_suspect_and_gets_no_work(gang: Gang) -> None:
    gang.fail("a", "b")
    gang.pass_time(PAUSED_POLL)
    states = {row.id: row.state for row in gang.ctx.db.read(_AGENTS)}
    assert states == {"a": "JOINED", "b": "JOINED", "c": "SUSPECT"}


def test_held_poll_that_a_failure_wakes_is_no_sign_of_life(gang: Gang) -> None:
    order, agent = gang.orders["c"], gang.agents["c"]
    running = ContainerReport(order["id"], order["epoch"], "running")
    body = PollBody(agent.incarnation, [running], seq=agent.seq + 1, wait_s=15)
    headers = {"authorization": f"Bearer {agent.token}"}
    request = Request("POST", "/agents/v1/poll", headers=headers)
    poll(gang.ctx, request, body)
    gang.fail("a", "b")
    poll(gang.ctx, request, body)  # the host calls the handler again; the agent is gone
    gang.pass_time(PAUSED_POLL)
    gang.run("a", "b")
    assert gang.live() == (2, 2, "RUNNING")


def test_reason_names_the_unreachable_agent_of_a_gang(gang: Gang) -> None:
    for _ in range(4):
        gang.pass_time(LEASE / 4)
        gang.report("a", ContainerState.RUNNING)
        gang.report("b", ContainerState.RUNNING)
    gang.pass_time(LEASE / 4)
    (reason,) = why.of(gang.ctx, "trial", "1")
    assert "; agent c has been unreachable since" in reason["sentence"]


def test_agent_that_polls_is_waited_for(gang: Gang) -> None:
    gang.fail("a", "b")
    gang.clock[0] += timedelta(seconds=1)
    (order,) = gang.report("c", ContainerState.RUNNING)
    assert order["desired"] == "killed"
    gang.pass_time(PAUSED_POLL)
    assert gang.live() == (1, 3, "TERMINATING")


def test_failure_of_the_code_on_live_agents_counts_as_a_failure(gang: Gang) -> None:
    gang.fail("a", "b", "c")
    assert gang.trial() == ("ERROR", 0)


def test_ranks_that_lost_each_other_are_no_failure_of_the_code(gang: Gang) -> None:
    gang.fail("a", "b", "c", status=LOST_PEER_STATUS)
    assert gang.trial() == ("ACTIVE", 0)


def test_failure_of_one_rank_counts_although_others_lost_it(gang: Gang) -> None:
    gang.fail("a", "b", status=LOST_PEER_STATUS)
    gang.fail("c")
    assert gang.trial() == ("ERROR", 0)


def test_gang_continues_without_a_machine_that_gets_a_spot_notice(gang: Gang) -> None:
    order = gang.orders["c"]
    running = Report(order["id"], order["epoch"], ContainerState.RUNNING)
    gang.agents["c"].poll(running, leaving=True)
    (row,) = gang.ctx.db.read(_LIVE)
    assert "the machine of agent c goes away" in row.preempt_reason
    with gang.ctx.db.begin() as tx:
        tx.execute(_ACKNOWLEDGED)
    for name in ("a", "b", "c"):
        gang.report(name, ContainerState.TERMINATED, 0)
    gang.run("a", "b")
    assert gang.live() == (2, 2, "RUNNING")
    assert gang.trial() == ("ACTIVE", 0)


@pytest.mark.parametrize("is_first", [True, False])
def test_gang_continues_without_a_machine_with_a_gpu_error(gang: Gang, is_first: bool) -> None:
    def break_gpu() -> None:
        order = gang.orders["c"]
        broken = Report(order["id"], order["epoch"], ContainerState.TERMINATED, 1, "agent_error")
        gang.agents["c"].poll(broken, out_of_service="GPU 0 is lost (XID 79)")

    if is_first:
        break_gpu()
        gang.fail("a", "b")
    else:
        gang.fail("a", "b")
        break_gpu()
    gang.run("a", "b")
    assert gang.live() == (2, 2, "RUNNING")
    assert gang.trial() == ("ACTIVE", 0)


def test_gang_below_its_minimum_waits(gang: Gang) -> None:
    gang.fail("a")
    gang.pass_time(PAUSED_POLL)
    gang.agents["a"].poll()
    tick.run(gang.ctx)
    assert gang.live() == (2, 3, "QUEUED")
    (reason,) = why.of(gang.ctx, "experiment", "1")
    assert "needs 2 to 3 slots" in reason["sentence"]


def test_gang_grows_after_the_agent_is_back(gang: Gang) -> None:
    gang.fail("a", "b")
    gang.pass_time(PAUSED_POLL)
    gang.run("a", "b")
    gang.agents["c"].poll()
    gang.pass_time(timedelta(seconds=10))
    (reason,) = why.of(gang.ctx, "experiment", "1")
    assert "2 of 3 slots" in reason["sentence"]
    for _ in range(int(SHORTEST_RUN_S // 10)):
        gang.agents["c"].poll()
        for name in ("a", "b"):
            gang.report(name, ContainerState.RUNNING)
        gang.pass_time(timedelta(seconds=10))
    (row,) = gang.ctx.db.read(_LIVE)
    assert row.preempt_reason == "it grows from 2 to 3 slots"


@pytest.mark.parametrize(
    ("resources", "entrypoint", "problem"),
    [
        ("{slots_per_trial: 2, min_slots_per_trial: 3}", "python3 t.py", "must not be larger"),
        ("{slots_per_trial: 2, min_slots_per_trial: 0}", "python3 t.py", "min_slots_per_trial"),
        (
            "{slots_per_trial: 2, min_slots_per_trial: 1}",
            "python3 -m determined.launch.horovod python3 t.py",
            "does not change its number of ranks",
        ),
    ],
)
def test_impossible_elastic_trials_are_refused(
    ctx: Context, resources: str, entrypoint: str, problem: str
) -> None:
    config = SINGLE.replace("python3 train.py", entrypoint) + f"resources: {resources}\n"
    with pytest.raises(InvalidConfig, match=problem):
        creation.create(ctx, OWNER, creation.Submission(config=config))
