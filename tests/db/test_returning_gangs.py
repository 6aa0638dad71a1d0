"""Lost agents come back with containers of a run over several agents: it continues if all of them can."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.core.lifecycle.agent import WATCH
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.db.agents import lost_runs
from det_controlplane.services.agents import silence
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unready
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.identity import authentication
from det_controlplane.services.maintenance import tick
from det_controlplane.services.queue import why
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, pass_time

_RUNS = text("SELECT run_id, state::text FROM allocations ORDER BY run_id")
_TRIAL = text("SELECT run_id, state::text AS state, restarts FROM trials")
_HELD = text("SELECT agent_id FROM slots WHERE container_id IS NOT NULL ORDER BY agent_id")
_READY = text("UPDATE allocations SET ready = true WHERE state <> 'TERMINATED'")
_LOG = text("SELECT log FROM task_logs WHERE log LIKE 'Agent %is back%' ORDER BY id")
GANG = f"{SINGLE}resources: {{slots_per_trial: 2}}\n"
GOES_ON = [(1, "RUNNING")]
REPEATED = [(1, "TERMINATED"), (2, "QUEUED")]


class Member:
    """An agent with one slot and the container of a gang that it runs."""

    def __init__(self, ctx: Context, id: str) -> None:
        self.ctx, self.id = ctx, id
        self.agent = Agent.joined(ctx, id)

    def start(self) -> None:
        (order,) = self.agent.poll()
        self.token = str(order["spec"]["session_token"])
        self.running = Report(order["id"], order["epoch"], ContainerState.RUNNING)
        self.agent.poll(self.running)

    def ended(self, code: int | None = 0) -> Report:
        failure = {0: None, None: "aborted"}.get(code, "container_failed")
        id, epoch = self.running.id, self.running.epoch
        return Report(id, epoch, ContainerState.TERMINATED, exit_code=code, failure=failure)

    def come_back(self, *reports: Report) -> list[dict[str, Any]]:
        """Join again with containers, and poll once."""
        self.agent = Agent.joined(self.ctx, self.id, reports=reports)
        return self.agent.poll(*reports)

    @property
    def desired(self) -> str:
        orders = self.agent.poll(self.running)
        return orders[0]["desired"] if orders else "not ordered"


class Gang:
    """A trial that runs on two agents, `a` and `b`."""

    def __init__(self, ctx: Context, clock: list[datetime]) -> None:
        self.ctx, self.clock = ctx, clock
        self.a, self.b = Member(ctx, "a"), Member(ctx, "b")
        creation.create(ctx, OWNER, creation.Submission(config=GANG))
        tick.run(ctx)
        self.a.start()
        self.b.start()
        with ctx.db.begin() as tx:
            tx.execute(_READY)

    def lose_both(self) -> None:
        pass_time(self.ctx, self.clock, 90)
        assert self.runs == REPEATED

    def pass_time(self, seconds: float, *connected: Member) -> None:
        """Let time pass in which some agents poll."""
        for _ in range(int(seconds // 10)):
            pass_time(self.ctx, self.clock, 10)
            for member in connected:
                member.agent.poll(member.running)

    @property
    def runs(self) -> list[Any]:
        return self.rows(_RUNS)

    def rows(self, statement: Any) -> list[Any]:
        return [tuple(row) for row in self.ctx.db.read(statement)]


@pytest.fixture
def gang(ctx: Context, clock: list[datetime]) -> Gang:
    return Gang(ctx, clock)


def test_run_continues_when_all_its_agents_have_rejoined(gang: Gang) -> None:
    gang.lose_both()
    (order,) = gang.a.come_back(gang.a.running)
    assert order["desired"] == "running"
    gang.pass_time(40, gang.a)
    (order,) = gang.b.come_back(gang.b.running)
    assert order["desired"] == "running"
    gang.pass_time(120, gang.a, gang.b)
    assert gang.runs == GOES_ON
    assert gang.rows(_TRIAL) == [(1, "ACTIVE", 0)]
    assert gang.rows(_HELD) == [("a",), ("b",)]
    assert gang.rows(_LOG) == [
        (
            "Agent a is back after 90 s out of contact. Run 1 goes on there and waits up to 55 s for agent b."
            " Run 2, which had not begun, is withdrawn.",
        ),
        ("Agent b is back after 130 s out of contact. Run 1 goes on there.",),
    ]


def test_waiting_gang_keeps_its_slots(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    gang.pass_time(30, gang.a)
    assert gang.rows(_HELD) == [("a",), ("b",)]
    assert gang.a.desired == "running"


def test_gang_is_repeated_if_one_agent_does_not_rejoin(gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    gang.pass_time(50, gang.a)
    assert gang.runs == GOES_ON
    gang.pass_time(10, gang.a)
    assert gang.a.desired == "killed"
    gang.a.agent.poll(gang.a.ended(None))
    assert gang.runs == REPEATED
    assert gang.rows(_TRIAL) == [(2, "ACTIVE", 0)]
    assert gang.b.come_back(gang.b.running) == []
    assert gang.rows(_LOG)[1] == (
        "Agent b is back after 150 s out of contact. Run 1 is stopped there: its container on agent a was stopped.",
    )


def test_tick_is_due_at_the_end_of_a_gangs_wait(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    gang.pass_time(50, gang.a)
    due_s = tick.run(ctx)
    assert due_s is not None
    assert due_s <= 5


def test_gang_is_repeated_if_an_agent_rejoins_without_its_container(gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    gang.b.come_back()
    assert gang.a.desired == "killed"
    gang.a.agent.poll(gang.a.ended(None))
    assert gang.runs == REPEATED


def test_gang_is_not_continued_after_an_agent_rejoined_without_its_container(gang: Gang) -> None:
    gang.lose_both()
    gang.b.come_back()
    assert gang.a.come_back(gang.a.running) == []
    assert "its container on agent b is gone" in gang.rows(_LOG)[0][0]


def test_gang_that_succeeded_while_its_agents_were_lost_completes(gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.ended())
    gang.b.come_back(gang.b.running)
    assert gang.runs == [(1, "TERMINATING")]
    gang.b.agent.poll(gang.b.ended())
    assert gang.rows(_TRIAL) == [(1, "COMPLETED", 0)]


def test_gang_continues_if_one_container_had_already_succeeded(gang: Gang) -> None:
    gang.b.agent.poll(gang.b.ended())
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    assert gang.runs == [(1, "TERMINATING")]
    gang.a.agent.poll(gang.a.ended())
    assert gang.rows(_TRIAL) == [(1, "COMPLETED", 0)]


def test_gang_is_not_continued_after_a_container_failed(gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.ended(1))
    assert gang.b.come_back(gang.b.running) == []
    assert gang.rows(_TRIAL) == [(2, "ACTIVE", 0)]


def test_gang_is_not_continued_after_another_agent_killed_its_container(gang: Gang) -> None:
    gang.pass_time(90, gang.b)
    assert gang.b.desired == "killed"
    gang.b.agent.poll(gang.b.ended(None))
    assert gang.runs == REPEATED
    assert gang.a.come_back(gang.a.running) == []
    assert "its container on agent b was stopped" in gang.rows(_LOG)[0][0]


def test_gang_is_not_continued_while_another_agent_kills_its_container(gang: Gang) -> None:
    gang.pass_time(90, gang.b)
    assert gang.b.desired == "killed"
    assert gang.a.come_back(gang.a.running) == []
    assert gang.b.desired == "killed"


def test_gang_continues_if_its_other_agent_has_not_polled_since(
    ctx: Context, clock: list[datetime], gang: Gang
) -> None:
    """Agent b is suspect when agent a is lost, and polls only after a has joined again."""
    pass_time(ctx, clock, 20)
    gang.b.agent.poll(gang.b.running)
    pass_time(ctx, clock, 45)
    assert gang.runs == [(1, "TERMINATING")]
    gang.a.come_back(gang.a.running)
    assert gang.runs == GOES_ON
    assert (gang.a.desired, gang.b.desired) == ("running", "running")


def test_gang_is_stopped_if_its_replacement_has_begun(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    others = [Member(ctx, "c"), Member(ctx, "d")]
    tick.run(ctx)
    for member in others:
        member.start()
    with ctx.db.begin() as tx:
        tx.execute(_READY)
    assert gang.a.come_back(gang.a.running) == []
    assert gang.runs == [(1, "TERMINATED"), (2, "RUNNING")]


def test_gang_of_a_paused_trial_saves_a_checkpoint_after_rejoining(
    ctx: Context, gang: Gang
) -> None:
    gang.lose_both()
    actions.command(ctx, 1, Command.PAUSE)
    (order,) = gang.a.come_back(gang.a.running)
    assert (order["desired"], order["preempt"]) == ("running", True)
    (order,) = gang.b.come_back(gang.b.running)
    assert (order["desired"], order["preempt"]) == ("running", True)


def test_a_gang_that_waits_for_an_agent_can_be_killed(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    actions.command(ctx, 1, Command.KILL)
    with ctx.db.begin() as tx:
        assert silence.next_due(tx, ctx.now()) == ctx.now() + WATCH
    assert gang.a.desired == "killed"
    gang.a.agent.poll(gang.a.ended(None))
    tick.run(ctx)
    assert gang.rows(_TRIAL) == [(1, "CANCELED", 0)]


def test_gang_that_was_not_ready_is_repeated(ctx: Context, gang: Gang) -> None:
    with ctx.db.begin() as tx:
        tx.execute(text("UPDATE allocations SET ready = false"))
    gang.lose_both()
    assert gang.a.come_back(gang.a.running) == []


def test_requests_of_a_lost_gang_wait_until_its_run_continues(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    for member in (gang.a, gang.b):
        with pytest.raises(Unready):
            authentication.user_of(ctx, member.token)
    gang.a.come_back(gang.a.running)
    for member in (gang.a, gang.b):
        assert authentication.user_of(ctx, member.token).allocation_id


def test_an_interruption_of_the_control_plane_does_not_count_as_waiting(
    ctx: Context, clock: list[datetime], gang: Gang
) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    clock[0] += timedelta(seconds=300)
    tick.run(ctx)
    gang.pass_time(40, gang.a)
    gang.b.come_back(gang.b.running)
    assert gang.runs == GOES_ON


def test_gang_does_not_wait_for_a_terminated_machine(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    gang.a.come_back(gang.a.running)
    with ctx.db.begin() as tx:
        lost_runs.stop_waiting_for(tx, "b")
    tick.run(ctx)
    assert gang.a.desired == "killed"


def test_tick_does_not_end_containers_of_a_rejoined_gang(
    ctx: Context, gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agent a joins after a tick has read the containers of lost agents, and before it ends them."""
    from det_controlplane.db.agents import agents

    gang.lose_both()
    find = agents.abandoned_containers

    def joins_meanwhile(tx: Any, now: datetime) -> Any:
        rows = find(tx, now)
        (row,) = tx.execute(text("SELECT id FROM containers WHERE agent_id = 'b'"))
        return {**rows, "b": [row.id]}

    gang.a.come_back(gang.a.running)
    monkeypatch.setattr(agents, "abandoned_containers", joins_meanwhile)
    tick.run(ctx)
    assert gang.runs == GOES_ON


def test_why_names_the_agents_that_a_gang_waits_for(ctx: Context, gang: Gang) -> None:
    gang.lose_both()
    (reason,) = why.of(ctx, "trial", "1")
    expected = (
        "its run on agents a, b, which are unreachable, continues if all of them return first"
    )
    assert reason["sentence"].endswith(expected)
    gang.a.come_back(gang.a.running)
    (reason,) = why.of(ctx, "trial", "1")
    assert reason["sentence"] == "runs on a, b; waiting until 12:02:25 UTC for agent b to rejoin"
    gang.b.come_back(gang.b.running)
    (reason,) = why.of(ctx, "trial", "1")
    assert reason["sentence"] == "runs on a, b"


def test_why_does_not_announce_the_return_of_a_stopped_gang(gang: Gang, ctx: Context) -> None:
    gang.pass_time(90, gang.b)
    gang.b.agent.poll(gang.b.ended(None))
    (reason,) = why.of(ctx, "trial", "1")
    assert "unreachable" not in reason["sentence"]
