"""Lines about runs in a trial's log, in the words that scripts look for."""

from collections import OrderedDict
from itertools import count

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.patterns import MOST_LINES, PATTERN_S, PatternSearch
from det_controlplane.db.logs import logs
from det_controlplane.services import searching
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Oversized
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.logs import task_logs
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent

NAME = "Trial 1 (Experiment 1)"
POLICIES = """
log_policies:
  - {name: bad node, pattern: "broken .* link", action: exclude_node}
  - {name: hopeless, pattern: "out of luck", action: cancel_retries}
"""
_LOGS = text("SELECT level, log FROM task_logs WHERE source = 'master' ORDER BY id")
_TASK = text("SELECT id FROM tasks")


class Run:
    """A run of the only trial, on the only agent."""

    def __init__(self, ctx: Context, agent: Agent) -> None:
        self._agent = agent
        tick.run(ctx)
        (self._order,) = agent.poll()
        self._report(ContainerState.RUNNING)

    def exit(self, code: int) -> None:
        self._report(ContainerState.TERMINATED, code)

    def _report(self, state: ContainerState, code: int | None = None) -> None:
        failure = "container_failed" if code else None
        order = self._order
        self._agent.poll(Report(order["id"], order["epoch"], state, code, failure))


@pytest.fixture
def ctx(ctx: Context) -> Context:
    config = SINGLE + POLICIES
    creation.create(ctx, OWNER, creation.Submission(config=config))
    return ctx


@pytest.fixture
def agent(ctx: Context) -> Agent:
    return Agent.joined(ctx)


def told(ctx: Context, level: str = "LOG_LEVEL_INFO") -> list[str]:
    return [row.log for row in ctx.db.read(_LOGS) if row.level == level]


def write(ctx: Context, line: str, agent_id: str) -> None:
    task_id = ctx.db.read(_TASK)[0].id
    task_logs.store(ctx, [{"task_id": task_id, "log": line, "agent_id": agent_id}])


def test_log_of_a_successful_run_has_its_scheduling_agent_and_exit(
    ctx: Context, agent: Agent
) -> None:
    task_id = ctx.db.read(_TASK)[0].id
    Run(ctx, agent).exit(0)
    assert told(ctx) == [
        f"Scheduling {NAME} (id: {task_id}.1)",
        f"{NAME} was assigned to an agent: {agent.id}",
        f"{NAME} was terminated: allocation stopped after resources exited successfully with a zero exit code",
    ]


def test_log_of_a_failed_run_has_its_exit_code_and_next_run(ctx: Context, agent: Agent) -> None:
    task_id = ctx.db.read(_TASK)[0].id
    Run(ctx, agent).exit(3)
    (line,) = told(ctx, "LOG_LEVEL_ERROR")
    assert "resources failed with non-zero exit code" in line
    assert line.endswith("container failed with non-zero exit code: 3")
    assert f"Scheduling {NAME} (id: {task_id}.2)" in told(ctx)


def test_log_of_a_killed_run_names_the_kill(ctx: Context, agent: Agent) -> None:
    run = Run(ctx, agent)
    actions.command(ctx, 1, Command.KILL)
    run.exit(137)
    assert told(ctx)[-1] == (
        f"{NAME} was terminated: allocation killed: the experiment or trial was killed"
    )


def test_log_of_a_queued_trial_names_the_kill(ctx: Context) -> None:
    actions.command(ctx, 1, Command.KILL)
    assert told(ctx)[-1].startswith(f"{NAME} was terminated: ")
    assert told(ctx)[-1].endswith("the experiment or trial was killed")


def test_log_of_a_paused_trial_names_the_kill(ctx: Context) -> None:
    actions.command(ctx, 1, Command.PAUSE)
    actions.command(ctx, 1, Command.KILL)
    assert told(ctx)[-1] == f"{NAME} was terminated: the experiment or trial was killed"


def test_log_names_an_excluded_agent_once(ctx: Context, agent: Agent) -> None:
    for _ in range(2):
        write(ctx, "broken PCIe link\n", agent.id)
    expected = (
        "(log 'broken PCIe link') matched the pattern 'broken .* link' "
        f"therefore will not schedule on {agent.id}"
    )
    assert [line for line in told(ctx) if "matched" in line] == [expected]


def test_agents_search_for_the_patterns_of_all_policies(ctx: Context, agent: Agent) -> None:
    tick.run(ctx)
    (order,) = agent.poll()
    assert order["spec"]["log_patterns"] == (
        "broken .* link",
        "out of luck",
        ".*CUDA out of memory.*",
        ".*uncorrectable ECC error encountered.*",
    )


def test_matches_found_by_an_agent_are_applied_without_another_search(
    ctx: Context, agent: Agent
) -> None:
    task_id = ctx.db.read(_TASK)[0].id
    query = {"task_id": task_id, "log": "broken PCIe link", "agent_id": agent.id}
    task_logs.store(ctx, [{**query, "matched": ()}])
    assert not any("matched" in line for line in told(ctx))
    task_logs.store(ctx, [{**query, "matched": ()}, {**query, "matched": ("broken .* link",)}])
    assert told(ctx)[-1].endswith(f"therefore will not schedule on {agent.id}")


def test_slow_pattern_does_not_block_other_lines(ctx: Context) -> None:
    config = SINGLE + 'log_policies: [{pattern: "^(a+)+$", action: cancel_retries}]'
    experiment = creation.create(ctx, OWNER, creation.Submission(config=config))
    assert experiment.experiment_id is not None
    task_id = ctx.db.read(_TASK)[-1].id
    task_logs.store(ctx, [{"task_id": task_id, "log": "a" * 60_000 + "b"}])
    assert not any("matched" in line for line in told(ctx))
    task_logs.store(ctx, [{"task_id": task_id, "log": "aaa"}])
    assert told(ctx)[-1].endswith("therefore will not retry")


@pytest.mark.parametrize("others", [0, 1])
def test_trial_fails_if_its_policies_exclude_too_many_agents(
    ctx: Context, agent: Agent, others: int
) -> None:
    run = Run(ctx, agent)
    for number in range(others):
        Agent.joined(ctx, f"other-{number}")
    write(ctx, "broken PCIe link", agent.id)
    run.exit(3)
    state = ctx.db.read(text("SELECT state::text AS state FROM trials"))[0].state
    assert state == ("ACTIVE" if others else "ERROR")
    assert ("those left have too few slots" in told(ctx)[-1]) is (others == 0)


def matched(ctx: Context) -> str | None:
    policy: str | None = ctx.db.read(text("SELECT log_policy_matched FROM trials"))[0][0]
    return policy


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("RuntimeError: CUDA out of memory.", "CUDA OOM"),
        ("CUDA error: uncorrectable ECC error encountered", "ECC Error"),
        ("broken PCIe link", "bad node"),
        ("all is well", None),
    ],
)
def test_a_matched_policy_is_shown_with_the_trial(
    ctx: Context, agent: Agent, line: str, name: str | None
) -> None:
    write(ctx, line, agent.id)
    assert matched(ctx) == name


def test_a_policy_without_an_action_does_not_cancel_retries(ctx: Context, agent: Agent) -> None:
    run = Run(ctx, agent)
    write(ctx, "CUDA out of memory", agent.id)
    run.exit(3)
    assert ctx.db.read(text("SELECT state::text FROM trials"))[0][0] == "ACTIVE"
    assert not any("therefore" in line for line in told(ctx))


def test_a_policy_that_cancels_retries_replaces_the_label_of_another(
    ctx: Context, agent: Agent
) -> None:
    run = Run(ctx, agent)
    write(ctx, "CUDA out of memory", agent.id)
    write(ctx, "out of luck", agent.id)
    write(ctx, "CUDA out of memory", agent.id)
    assert matched(ctx) == "hopeless"
    run.exit(3)
    assert ctx.db.read(text("SELECT state::text FROM trials"))[0][0] == "ERROR"


def test_log_names_the_policy_at_its_match_and_at_the_failure(ctx: Context, agent: Agent) -> None:
    run = Run(ctx, agent)
    write(ctx, "out of luck", agent.id)
    assert told(ctx)[-1].endswith("therefore will not retry")
    run.exit(3)
    assert "trial failed and matched logs to a don't retry policy" in told(ctx)[-1]


def test_log_lines_of_many_tasks_are_stored_in_order(ctx: Context) -> None:
    """The ids define the order of lines for readers. A sorted join would order by task."""
    for _ in range(4):
        creation.create(ctx, OWNER, creation.Submission(config=SINGLE, activate=True))
    ids = sorted((row.id for row in ctx.db.read(_TASK)), reverse=True)
    lines = [logs.NamedLine(id, f" line {n}") for n in range(2) for id in ids]
    with ctx.db.begin() as tx:
        tx.execute(text("SET LOCAL enable_nestloop = off"))
        tx.execute(text("SET LOCAL enable_hashjoin = off"))
        logs.add_named_lines(tx, lines, ctx.now())
    rows = ctx.db.read(text("SELECT task_id, log FROM task_logs ORDER BY id"))[-len(lines) :]
    assert [
        (r.task_id, r.log.endswith(line.after)) for r, line in zip(rows, lines, strict=True)
    ] == [(line.task_id, True) for line in lines]


def test_slow_pattern_is_dropped_with_a_warning(
    ctx: Context, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of this clock costs so much that a pattern sees two of them."""
    ticks = count(step=PATTERN_S / 2.5)
    monkeypatch.setattr(
        searching, "PatternSearch", lambda clock, longest_s: PatternSearch(lambda: next(ticks))
    )
    monkeypatch.setattr(searching, "_dropped", OrderedDict())
    task_id = ctx.db.read(_TASK)[0].id
    lines = [{"task_id": task_id, "log": "all is well", "agent_id": agent.id}] * 5
    task_logs.store(ctx, lines)
    warnings = [line for line in told(ctx, "LOG_LEVEL_WARNING") if "'hopeless' takes too" in line]
    assert len(warnings) == 1
    write(ctx, "out of luck", agent.id)
    task_logs.store(ctx, lines)
    warnings_again = [
        line for line in told(ctx, "LOG_LEVEL_WARNING") if "'hopeless' takes too" in line
    ]
    assert warnings_again == warnings
    assert not any("will not retry" in line for line in told(ctx))


def test_rejects_requests_with_too_many_log_lines(ctx: Context, agent: Agent) -> None:
    lines = [{"task_id": "t", "log": ""}] * (MOST_LINES + 1)
    with pytest.raises(Oversized, match="at most 20000"):
        task_logs.store(ctx, lines)
