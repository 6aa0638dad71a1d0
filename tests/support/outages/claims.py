"""Claims about an outcome. Each function returns the problems that contradict its claim."""

import re
from collections.abc import Callable

from tests.e2e.outages import train
from tests.support.outages.outcome import Outcome, Points
from tests.support.outages.work import SERVES

# The line of a trial's log that explains the outage.
EXPLANATION = re.compile(r"\b(out of contact|unreachable|outage|silent)\b", re.IGNORECASE)
# A shorter silence does not make an agent lost, so the log needs no explanation.
LEASE_AND_WAIT_S = 55.0
EXIT_OK = "exited successfully with a zero exit code"


def is_in_the_middle(outcome: Outcome) -> list[str]:
    """Check the scenario itself: quick trials end their training during the outage, slow trials after it."""
    expected = {t.name for t in outcome.trials if t.name.startswith(train.QUICK)}
    names = {t.name for t in outcome.trials if t.trained_in_outage}
    if names == (expected if outcome.kind.trains_on else set()):
        return []
    return [f"during the outage ended the training of {sorted(names)}, not of {sorted(expected)}"]


def trials_complete_in_one_run(outcome: Outcome) -> list[str]:
    problems = [] if outcome.experiment == "COMPLETED" else [f"experiment {outcome.experiment}"]
    for trial in outcome.trials:
        if (trial.state, trial.restarts, trial.runs) != ("COMPLETED", 0, 1):
            problems.append(
                f"{trial.name}: {trial.state}, {trial.restarts} restarts, {trial.runs} runs"
            )
    return problems


def metrics_are_those_without_faults(outcome: Outcome) -> list[str]:
    """Compare every step and value, and the best value; check that each point is stored once."""
    problems = []
    for trial in outcome.trials:
        for group, points, expected in zip(
            ("training", "validation"),
            (trial.training, trial.validation),
            trial.expected,
            strict=True,
        ):
            if difference := _difference(points, expected):
                problems.append(f"{trial.name}: {group} metrics: {difference}")
        if trial.best != trial.best_expected:
            problems.append(f"{trial.name}: best {trial.best}, not {trial.best_expected}")
    return problems


def checkpoints_are_those_without_faults(outcome: Outcome) -> list[str]:
    return [
        f"{trial.name}: checkpoints of steps {trial.checkpoints}, not {trial.checkpoints_expected}"
        for trial in outcome.trials
        if trial.checkpoints != trial.checkpoints_expected
    ]


def no_step_is_trained_twice(outcome: Outcome) -> list[str]:
    once = list(range(1, train.STEPS + 1))
    return [
        f"{trial.name}: trained {ranges(trial.steps)}"
        for trial in outcome.trials
        if trial.steps != once
    ]


def logs_have_every_line_once(outcome: Outcome) -> list[str]:
    expected = list(range(train.PRINT_EVERY, train.STEPS + 1, train.PRINT_EVERY))
    return [
        f"{trial.name}: the log has lines of the steps {trial.printed}"
        for trial in outcome.trials
        if trial.printed != expected
    ]


def logs_have_no_errors(outcome: Outcome) -> list[str]:
    return [
        f"{trial.name}: {len(trial.errors)} lines of level ERROR, as: {trial.errors[0]}"
        for trial in outcome.trials
        if trial.errors
    ]


def logs_explain_the_outage_in_one_line(outcome: Outcome) -> list[str]:
    """Check that every trial of a silent agent has exactly one explanation in its log."""
    problems = []
    for trial in outcome.trials:
        printed_lines = [line for line in trial.log if line not in trial.errors]
        lines = [line for line in printed_lines if EXPLANATION.search(line)]
        if len(lines) > 1 or (_loses_its_agent(outcome) and not lines):
            problems.append(f"{trial.name}: {len(lines)} lines explain the outage: {lines[:3]}")
    return problems


def _loses_its_agent(outcome: Outcome) -> bool:
    """Return whether the API works long enough without the agent to declare it lost."""
    return outcome.kind.is_silent and outcome.kind.silence * outcome.length_s > LEASE_AND_WAIT_S


def tasks_that_ended_well_are_shown_so(outcome: Outcome) -> list[str]:
    command, task = outcome.command, outcome.task
    problems = []
    if (command.state, command.runs) != ("TERMINATED", 1) or EXIT_OK not in command.exit_status:
        problems.append(f"command: {command.state}, {command.exit_status}, {command.runs} runs")
    if (task.state, task.runs) != ("COMPLETED", 1):
        problems.append(f"generic task: {task.state}, {task.runs} runs: {task.log[-1:]}")
    for name, each in (("command", command), ("generic task", task)):
        if each.notes != ["started", "ended"]:
            problems.append(f"{name}: its containers noted {each.notes}")
    return problems


def a_lasting_command_keeps_its_container(outcome: Outcome) -> list[str]:
    lasting = outcome.lasting
    is_served = any(SERVES in line for line in lasting.log)
    if lasting.state == "RUNNING" and outcome.lasting_is_the_same and is_served:
        return []
    return [
        f"lasting command: {lasting.state}, {lasting.runs} runs, {lasting.notes}, log {lasting.log}"
    ]


def an_api_that_was_away_gives_up_no_agent(outcome: Outcome) -> list[str]:
    """Check that the cluster does not declare agents lost that could not reach the API during the outage."""
    return [] if outcome.kind.api_works else outcome.lost


def why_names_the_agent(outcome: Outcome) -> list[str]:
    """Check that `det why` names the agent during an outage that the API can see."""
    if not outcome.kind.api_works or any(outcome.agent in sentence for sentence in outcome.why):
        return []
    return [f"det why: {outcome.why}"]


CLAIMS: tuple[Callable[[Outcome], list[str]], ...] = (
    is_in_the_middle,
    trials_complete_in_one_run,
    metrics_are_those_without_faults,
    checkpoints_are_those_without_faults,
    no_step_is_trained_twice,
    logs_have_every_line_once,
    logs_have_no_errors,
    logs_explain_the_outage_in_one_line,
    tasks_that_ended_well_are_shown_so,
    a_lasting_command_keeps_its_container,
    an_api_that_was_away_gives_up_no_agent,
    why_names_the_agent,
)


def problems_of(outcome: Outcome) -> list[str]:
    return [problem for claim in CLAIMS for problem in claim(outcome)]


def _difference(points: Points, expected: Points) -> str:
    """Return the difference between the stored and the expected points, or '' if they are equal."""
    missing = [step for step, _ in expected if step not in {step for step, _ in points}]
    steps = [step for step, _ in points]
    twice = sorted({step for step in steps if steps.count(step) > 1})
    wrong_steps = sorted({step for step, loss in points if (step, loss) not in expected})
    parts = (("missing", missing), ("twice", twice), ("wrong", wrong_steps))
    return ", ".join(f"{word} are steps {numbers}" for word, numbers in parts if numbers)


def ranges(steps: list[int]) -> str:
    """Return ascending runs of steps as ranges: 1-30, 16-60."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{run[0]}-{run[-1]}" for run in runs)
