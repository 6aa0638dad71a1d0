"""A lost agent joins again with its containers: its runs continue unless a replacement has begun."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.services.agents import containers, polling
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.checkpoints import records
from det_controlplane.services.checkpoints.records import CheckpointReport
from det_controlplane.services.context import Context
from det_controlplane.services.errors import NotSignedIn, Unready
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.identity import authentication
from det_controlplane.services.interactive import interactive
from det_controlplane.services.maintenance import tick
from det_controlplane.services.queue import why
from det_controlplane.services.tasks import generic
from det_controlplane.services.tasks.generic import NewGenericTask
from det_controlplane.services.tasks.launching import Submission
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, pass_time

_RUNS = text("SELECT run_id, state::text AS state FROM allocations ORDER BY run_id")
_TRIAL = text("SELECT id, run_id, state::text AS state, restarts, task_id FROM trials")
_TASK = text("SELECT ended_at, exit_status, state::text AS state FROM tasks")
_HELD = text("SELECT count(*) AS held FROM slots WHERE container_id IS NOT NULL")
_READY = text("UPDATE allocations SET ready = true WHERE state <> 'TERMINATED'")
_LOG = text("SELECT log FROM task_logs WHERE log LIKE 'Agent %is back%'")
_STEPS = text("""
    SELECT total_batches FROM metrics WHERE metric_group = 'training' AND NOT archived ORDER BY total_batches
""")
_CHECKPOINTS = text("SELECT steps_completed, state::text AS state FROM checkpoints ORDER BY 1")
COMMAND = {"entrypoint": ["ls"], "resources": {"slots": 1}}


def rows(ctx: Context, statement: Any) -> list[Any]:
    return [tuple(row) for row in ctx.db.read(statement)]


class ReturningAgent:
    """An agent with one container that joins, is lost, and joins again."""

    def __init__(self, ctx: Context, clock: list[datetime], id: str = "agent") -> None:
        self.ctx, self.clock, self.id = ctx, clock, id
        self.agent = Agent.joined(ctx, id)

    def run_what_is_ordered(self) -> None:
        tick.run(self.ctx)
        (order,) = self.agent.poll()
        self.order = order
        self.running = Report(order["id"], order["epoch"], ContainerState.RUNNING)
        self.agent.poll(self.running)
        with self.ctx.db.begin() as tx:
            tx.execute(_READY)

    @property
    def token(self) -> str:
        return str(self.order["spec"]["session_token"])

    def be_lost(self) -> None:
        pass_time(self.ctx, self.clock, 90)

    def come_back(self, *reports: Report) -> list[dict[str, Any]]:
        self.agent = Agent.joined(self.ctx, self.id, reports=reports)
        return self.agent.poll(*reports)

    def ended(self, code: int = 0) -> Report:
        failure = "container_failed" if code else None
        return Report(
            self.running.id, self.running.epoch, ContainerState.TERMINATED, exit_code=code, failure=failure
        )  # fmt: skip


@pytest.fixture
def played(ctx: Context, clock: list[datetime]) -> ReturningAgent:
    """A running trial."""
    agent = ReturningAgent(ctx, clock)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    agent.run_what_is_ordered()
    return agent


def report(ctx: Context, steps: int, run: int, group: str = "training") -> None:
    (trial,) = ctx.db.read(_TRIAL)
    metric_reports.take(ctx, MetricsReport(trial.id, run, group, steps, {"loss": 1.0 / steps}))


def checkpoint(ctx: Context, steps: int, run: int) -> None:
    (trial,) = ctx.db.read(_TRIAL)
    uuid, metadata = str(ctx.random.uuid()), {"steps_completed": steps}
    sent_report = CheckpointReport(
        uuid, trial.task_id, f"{trial.task_id}.{run}", {"w": "1"}, metadata
    )
    records.report(ctx, OWNER, sent_report)


def test_a_running_run_continues_when_its_agent_joins_again(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    assert rows(ctx, _RUNS) == [(1, "TERMINATED"), (2, "QUEUED")]
    (order,) = played.come_back(played.running)
    assert (order["id"], order["desired"]) == (played.running.id, "running")
    assert rows(ctx, _RUNS) == [(1, "RUNNING")]
    (trial,) = ctx.db.read(_TRIAL)
    assert (trial.run_id, trial.state, trial.restarts) == (1, "ACTIVE", 0)
    assert rows(ctx, _HELD) == [(1,)]
    assert rows(ctx, _LOG) == [
        (
            "Agent agent is back after 90 s out of contact. Run 1 goes on there. Run 2, which had not begun, is"
            " withdrawn.",
        )
    ]


def test_a_run_that_succeeded_while_its_agent_was_lost_completes(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    played.come_back(played.ended())
    assert rows(ctx, _RUNS) == [(1, "TERMINATED")]
    (trial,) = ctx.db.read(_TRIAL)
    assert (trial.state, trial.restarts) == ("COMPLETED", 0)


def test_a_run_that_failed_while_its_agent_was_lost_counts_as_a_restart(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    played.come_back(played.ended(1))
    (trial,) = ctx.db.read(_TRIAL)
    assert (trial.state, trial.restarts, trial.run_id) == ("ACTIVE", 1, 2)


def test_a_run_that_is_lost_again_after_its_return_is_repeated(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    played.come_back(played.running)
    played.be_lost()
    assert rows(ctx, _RUNS) == [(1, "TERMINATED"), (2, "QUEUED")]
    played.come_back(played.running)
    assert rows(ctx, _RUNS) == [(1, "RUNNING")]


def test_joining_again_with_a_continued_run_has_no_effect(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    for _ in range(2):
        (order,) = played.come_back(played.running)
        assert order["id"] == played.running.id
    assert rows(ctx, _RUNS) == [(1, "RUNNING")]


def test_replacement_that_has_not_begun_is_withdrawn(
    ctx: Context, clock: list[datetime], played: ReturningAgent
) -> None:
    played.be_lost()
    other = Agent.joined(ctx, "other")
    tick.run(ctx)
    (order,) = other.poll()
    starting = Report(order["id"], order["epoch"], ContainerState.RUNNING)
    other.poll(starting)
    played.come_back(played.running)
    assert rows(ctx, _RUNS) == [(1, "RUNNING")]
    assert other.poll(starting) == []
    assert rows(ctx, _HELD) == [(1,)]
    with pytest.raises(NotSignedIn):
        authentication.user_of(ctx, order["spec"]["session_token"])


def test_a_run_is_stopped_when_its_replacement_has_begun(
    ctx: Context, clock: list[datetime], played: ReturningAgent
) -> None:
    played.be_lost()
    other = ReturningAgent(ctx, clock, "other")
    other.run_what_is_ordered()
    assert played.come_back(played.running) == []
    assert rows(ctx, _RUNS) == [(1, "TERMINATED"), (2, "RUNNING")]
    assert rows(ctx, _LOG) == [
        ("Agent agent is back after 90 s out of contact. Run 1 is stopped there: run 2 has begun.",)
    ]


def test_a_run_of_a_paused_trial_saves_a_checkpoint_when_its_agent_joins_again(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    actions.command(ctx, 1, Command.PAUSE)
    (order,) = played.come_back(played.running)
    assert (order["desired"], order["preempt"]) == ("running", True)


def test_a_run_of_a_killed_trial_does_not_continue(ctx: Context, played: ReturningAgent) -> None:
    played.be_lost()
    actions.command(ctx, 1, Command.KILL)
    assert played.come_back(played.running) == []
    (trial,) = ctx.db.read(_TRIAL)
    assert trial.state == "CANCELED"


def test_a_run_without_free_slots_does_not_continue(ctx: Context, played: ReturningAgent) -> None:
    played.be_lost()
    Agent.joined(ctx)  # agents of earlier versions do not list their containers
    actions.command(ctx, 1, Command.PAUSE)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = played.come_back(played.running)
    assert order["id"] != played.running.id


def test_a_killed_container_does_not_end_a_run(ctx: Context, played: ReturningAgent) -> None:
    played.be_lost()
    killed_report = Report(
        played.running.id, played.running.epoch, ContainerState.TERMINATED, failure="aborted"
    )
    played.come_back(killed_report)
    (trial,) = ctx.db.read(_TRIAL)
    assert (trial.state, trial.run_id) == ("ACTIVE", 2)


def test_tick_does_not_end_containers_of_a_rejoined_agent(
    ctx: Context, played: ReturningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent joins after a tick has declared it lost and before the tick ends its containers."""
    end = containers.end_with_agent

    def joins_first(*args: Any) -> None:
        played.come_back(played.running)
        end(*args)

    monkeypatch.setattr(containers, "end_with_agent", joins_first)
    played.be_lost()
    assert rows(ctx, _RUNS) == [(1, "RUNNING")]


def test_requests_of_a_lost_run_wait_until_its_agent_joins_again(
    ctx: Context, clock: list[datetime], played: ReturningAgent
) -> None:
    played.be_lost()
    clock[0] += timedelta(hours=24)
    with pytest.raises(Unready, match="agent agent was lost and has to join again first"):
        authentication.user_of(ctx, played.token)
    played.come_back(played.running)
    assert authentication.user_of(ctx, played.token).allocation_id


def test_token_of_a_stopped_run_expires_after_a_day(
    ctx: Context, clock: list[datetime], played: ReturningAgent
) -> None:
    played.be_lost()
    actions.command(ctx, 1, Command.KILL)
    played.come_back(played.running)
    assert authentication.user_of(ctx, played.token)
    clock[0] += timedelta(hours=25)
    with pytest.raises(NotSignedIn):
        authentication.user_of(ctx, played.token)


def test_lost_run_can_report_before_its_replacement_begins(
    ctx: Context, played: ReturningAgent
) -> None:
    report(ctx, 10, run=1)
    checkpoint(ctx, 10, run=1)
    played.be_lost()
    report(ctx, 20, run=1)
    checkpoint(ctx, 20, run=1)
    assert rows(ctx, _STEPS) == [(10,), (20,)]
    other = ReturningAgent(ctx, played.clock, "other")
    other.run_what_is_ordered()
    assert other.order["spec"]["env"]["DET_STEPS_COMPLETED"] == "20"


def test_reports_of_an_earlier_run_count_until_its_replacement_starts(
    ctx: Context, played: ReturningAgent
) -> None:
    report(ctx, 10, run=1)
    checkpoint(ctx, 10, run=1)
    played.be_lost()
    other = ReturningAgent(ctx, played.clock, "other")
    other.run_what_is_ordered()
    report(ctx, 10, run=1, group="validation")  # its step is the last that counts
    report(ctx, 20, run=1)
    checkpoint(ctx, 20, run=1)
    assert rows(ctx, _STEPS) == [(10,)]
    # Housekeeping deletes the uploaded files later, and no run starts from this checkpoint.
    assert rows(ctx, _CHECKPOINTS) == [(10, "COMPLETED"), (20, "ACTIVE")]
    report(ctx, 20, run=2)
    assert rows(ctx, _STEPS) == [(10,), (20,)]


def test_all_containers_of_a_run_start_from_the_same_checkpoint(
    ctx: Context, played: ReturningAgent
) -> None:
    checkpoint(ctx, 10, run=1)
    played.be_lost()
    other = Agent.joined(ctx, "other")
    tick.run(ctx)
    (first,) = other.poll()
    checkpoint(ctx, 20, run=1)
    (second_order,) = other.poll()
    for order in (first, second_order):
        assert order["spec"]["env"]["DET_STEPS_COMPLETED"] == "10"


@pytest.fixture
def command(ctx: Context, clock: list[datetime]) -> ReturningAgent:
    """A running command."""
    agent = ReturningAgent(ctx, clock)
    interactive.launch(ctx, OWNER, Submission(TaskKind.COMMAND, COMMAND))
    agent.run_what_is_ordered()
    return agent


def test_why_explains_that_a_run_continues_if_its_agent_joins_again(
    ctx: Context, clock: list[datetime], played: ReturningAgent
) -> None:
    pass_time(ctx, clock, 35)
    (reason,) = why.of(ctx, "trial", "1")
    assert (
        reason["sentence"] == "runs on agent; agent agent has been unreachable since 12:00:00 UTC"
    )
    played.be_lost()
    (reason,) = why.of(ctx, "trial", "1")
    sentence = "its run on agent agent, which is unreachable, continues if the agent returns first"
    assert reason["sentence"].endswith(sentence)


def test_a_command_that_succeeded_while_its_agent_was_lost_is_completed(
    ctx: Context, command: ReturningAgent
) -> None:
    command.be_lost()
    (task,) = ctx.db.read(_TASK)
    assert "agent agent was lost" in task.exit_status
    command.come_back(command.ended())
    (task,) = ctx.db.read(_TASK)
    assert task.ended_at is not None
    assert "exited successfully" in task.exit_status


def test_a_running_command_continues_when_its_agent_joins_again(
    ctx: Context, command: ReturningAgent
) -> None:
    command.be_lost()
    (order,) = command.come_back(command.running)
    assert order["id"] == command.running.id
    (task,) = ctx.db.read(_TASK)
    assert (task.ended_at, task.exit_status) == (None, None)


def test_a_command_that_was_killed_after_the_loss_of_its_agent_does_not_continue(
    ctx: Context, command: ReturningAgent
) -> None:
    command.be_lost()
    (task_id,) = (row.id for row in ctx.db.read(text("SELECT id FROM tasks")))
    interactive.kill(ctx, OWNER, TaskKind.COMMAND, task_id)
    assert command.come_back(command.running) == []
    (task,) = ctx.db.read(_TASK)
    assert task.ended_at is not None


@pytest.fixture
def generic_task(ctx: Context, clock: list[datetime]) -> ReturningAgent:
    agent = ReturningAgent(ctx, clock)
    config = "entrypoint: [ls]\nresources: {slots: 1}\n"
    generic.create(ctx, OWNER, NewGenericTask(config, Submission(TaskKind.GENERIC, {})))
    agent.run_what_is_ordered()
    return agent


def test_a_generic_task_that_failed_because_of_its_lost_agent_continues(
    ctx: Context, generic_task: ReturningAgent
) -> None:
    generic_task.be_lost()
    assert rows(ctx, text("SELECT state::text FROM tasks")) == [("ERROR",)]
    generic_task.come_back(generic_task.running)
    (task,) = ctx.db.read(_TASK)
    assert (task.state, task.ended_at) == ("ACTIVE", None)
    generic_task.agent.poll(generic_task.ended())
    assert rows(ctx, text("SELECT state::text FROM tasks")) == [("COMPLETED",)]


def test_a_generic_task_that_was_canceled_does_not_continue(
    ctx: Context, generic_task: ReturningAgent
) -> None:
    (task_id,) = (row.id for row in ctx.db.read(text("SELECT id FROM tasks")))
    generic.pause(ctx, OWNER, task_id)
    generic_task.be_lost()
    generic.kill(ctx, OWNER, task_id, from_root=False)
    assert generic_task.come_back(generic_task.running) == []


def test_a_generic_task_that_was_killed_after_the_loss_of_its_agent_does_not_continue(
    ctx: Context, generic_task: ReturningAgent
) -> None:
    (task_id,) = (row.id for row in ctx.db.read(text("SELECT id FROM tasks")))
    generic_task.be_lost()
    generic.kill(ctx, OWNER, task_id, from_root=False)
    assert generic_task.come_back(generic_task.running) == []
    assert rows(ctx, text("SELECT state::text FROM tasks")) == [("ERROR",)]


def test_polling_with_the_token_of_a_lost_agent_asks_it_to_join(
    ctx: Context, played: ReturningAgent
) -> None:
    played.be_lost()
    poll = polling.Poll(played.agent.token, played.agent.incarnation, [played.running], 9)
    with pytest.raises(NotSignedIn):
        polling.poll(ctx, poll)
