"""The plan of a rehearsal: its steps with their time limits and maximum costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from det_cli.deployment.rehearsal.records import Step
from det_cli.errors import UsageError

_MINUTE = 60.0
STEPS = (
    Step(
        "up",
        "create the cluster if it does not exist, and sign in as admin",
        "the deployment, its address and its first password work",
        expected_s=20 * _MINUTE,
        limit_s=60 * _MINUTE,
    ),
    Step(
        "idle",
        "leave the cluster idle, then check its machines, schedules and database in the cloud",
        "an idle cluster has no hourly costs",
        expected_s=0.0,  # set by --idle-minutes
        limit_s=5 * _MINUTE,
        needs=("up",),
    ),
    Step(
        "spot",
        "submit a small job and measure the time from the machine request to the first metric",
        "quotas, images and the join of a machine work",
        expected_s=10 * _MINUTE,
        limit_s=30 * _MINUTE,
        machines=1,
        needs=("up",),
    ),
    Step(
        "train",
        "complete a training, verify every metric, and check the checkpoint in the bucket",
        "metrics and checkpoints are complete, and machines can write to the bucket",
        expected_s=2 * _MINUTE,
        limit_s=30 * _MINUTE,
        machines=1,
        needs=("spot",),
    ),
    Step(
        "interruption",
        "terminate the machine of a running trial, and wait until the trial continues on another machine",
        "a trial resumes from its checkpoint on another machine and loses no metric",
        expected_s=10 * _MINUTE,
        limit_s=45 * _MINUTE,
        machines=2,
        needs=("train",),
    ),
    Step(
        "upgrade",
        "deploy the cluster again while a trial runs",
        "an upgrade in place loses no step of a running trial",
        expected_s=8 * _MINUTE,
        limit_s=45 * _MINUTE,
        machines=1,
        needs=("train",),
    ),
    Step(
        "notebook",
        "start a notebook, open its page through the cluster, and stop it",
        "the relay carries traffic to tasks",
        expected_s=8 * _MINUTE,
        limit_s=30 * _MINUTE,
        aux_machines=1,
        needs=("up",),
    ),
    Step(
        "down",
        "remove the cluster, and list the resources that are kept",
        "no resource with hourly costs remains",
        expected_s=25 * _MINUTE,
        limit_s=60 * _MINUTE,
        needs=("up",),
    ),
)
NAMES = tuple(step.name for step in STEPS)


@dataclass(frozen=True)
class Rates:
    """The hourly cost of each part of the cluster, in US dollars."""

    machine: float  # the most expensive offer of the rehearsal's pool
    aux_machine: float
    awake: float  # the control plane while machines run
    idle: float  # the idle control plane


@dataclass(frozen=True)
class PlannedStep:
    """A step with its limits in this rehearsal."""

    step: Step
    expected_s: float
    limit_s: float
    most_usd: float


@dataclass(frozen=True)
class Plan:
    steps: Sequence[PlannedStep]
    rates: Rates

    @property
    def most_usd(self) -> float:
        return sum(planned.most_usd for planned in self.steps)


def parse_steps(names: str | None) -> tuple[Step, ...]:
    """Return the steps of a list such as `spot,train`, in plan order and always with `up`. Raises UsageError."""
    if names is None:
        return STEPS
    selected = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in selected if name not in NAMES]
    if unknown or not selected:
        cause = f"there is no step {', '.join(unknown)}" if unknown else "--steps names no step"
        raise UsageError(cause, f"the steps are {', '.join(NAMES)}")
    return tuple(step for step in STEPS if step.name == "up" or step.name in selected)


def make(steps: Sequence[Step], rates: Rates, idle_minutes: float) -> Plan:
    """Return the plan of some steps. The limit of the idle step includes its waiting time."""
    planned_steps = []
    for step in steps:
        wait_s = idle_minutes * _MINUTE if step.name == "idle" else 0.0
        limit_s = step.limit_s + wait_s
        hourly = step.machines * rates.machine + step.aux_machines * rates.aux_machine + rates.awake
        planned_steps.append(
            PlannedStep(step, step.expected_s + wait_s, limit_s, hourly * limit_s / 3600)
        )
    return Plan(planned_steps, rates)


def check_budget(plan: Plan, max_cost_usd: float) -> None:
    """Raise UsageError if the rehearsal may cost more than its budget."""
    if max_cost_usd <= 0:
        raise UsageError("--max-cost must be more than 0", "give an amount in US dollars")
    if plan.most_usd > max_cost_usd:
        raise UsageError(
            f"the rehearsal may cost ${plan.most_usd:.2f}, more than --max-cost {max_cost_usd:g}",
            f"give --max-cost {_round_up(plan.most_usd):.2f}, a --pool with cheaper machines,"
            " or fewer --steps",
        )


def _round_up(usd: float) -> float:
    return -(-usd * 100 // 1) / 100


def lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the printed plan."""
    for planned in plan.steps:
        step = planned.step
        about = f"about {_minutes(planned.expected_s)}, at most {_minutes(planned.limit_s)}"
        yield f"{step.name}: {step.does} ({about} and ${planned.most_usd:.2f})"
        yield f"  proves: {step.proves}"
    expected_s = sum(planned.expected_s for planned in plan.steps)
    yield f"Total: about {_minutes(expected_s)}, at most ${plan.most_usd:.2f} at list prices."


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"
