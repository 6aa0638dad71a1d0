"""Run the steps of a rehearsal, record each outcome, and terminate the rented machines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from det_cli.deployment.rehearsal import steps_cluster, steps_training
from det_cli.deployment.rehearsal.plan import Plan, PlannedStep
from det_cli.deployment.rehearsal.records import (
    Outcome,
    Report,
    State,
    StepFailed,
    StepSkipped,
)
from det_cli.deployment.rehearsal.release import release
from det_cli.deployment.rehearsal.stage import FAILURES, Stage, cause_and_hint

ACTIONS: Mapping[str, Callable[[Stage, float], str]] = {
    "up": steps_cluster.up,
    "idle": steps_cluster.idle,
    "spot": steps_training.spot,
    "train": steps_training.train,
    "interruption": steps_training.interruption,
    "upgrade": steps_training.upgrade,
    "notebook": steps_cluster.notebook,
    "down": steps_cluster.down,
}
STOPPED = "stopped by Ctrl-C"


@dataclass
class Rehearsal:
    """A run of a plan."""

    plan: Plan
    stage: Stage
    place: str
    max_cost_usd: float
    versions: dict[str, str]
    save_report: Callable[[Report], None]  # called after each step, so that no outcome is lost
    outcomes: list[Outcome] = field(default_factory=list)
    leftovers: Sequence[str] = ()
    is_interrupted: bool = False
    _machines_usd: float = 0.0  # the cost of machines until now
    _started_at: datetime = field(init=False)

    def run(self) -> Report:
        """Run the plan. Machines are terminated at the end, even after an error."""
        self._started_at = self.stage.clock.now()
        try:
            for number, planned in enumerate(self.plan.steps, 1):
                self._say(
                    f"[{number}/{len(self.plan.steps)}] {planned.step.name}: {planned.step.does}"
                )
                self._record(self._outcome_of(planned))
        finally:
            self._release()
        report = self._report(is_finished=True)
        self.save_report(report)
        return report

    def _report(self, *, is_finished: bool) -> Report:
        stage = self.stage
        current = {"the cluster": stage.version} if stage.version else {}
        return Report(
            cluster_id=stage.deployed.cluster_id, cloud=stage.cloud.name, place=self.place,
            started_at=self._started_at, ended_at=stage.clock.now(), max_cost_usd=self.max_cost_usd,
            outcomes=tuple(self.outcomes), versions={**self.versions, **current}, leftovers=tuple(self.leftovers),
            remains=tuple(stage.remains), is_finished=is_finished,
        )  # fmt: skip

    def _record(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._say(f"  {outcome.state.value}: {outcome.detail}")
        if outcome.next_step:
            self._say(f"  next: {outcome.next_step}")
        self.save_report(self._report(is_finished=False))

    def _outcome_of(self, planned: PlannedStep) -> Outcome:
        name = planned.step.name
        reason = self._reason_to_skip(planned)
        if reason:
            return Outcome(name, State.SKIPPED, detail=reason)
        started_s = self.stage.clock.elapsed_s()
        state, detail, next_step = self._try(planned)
        seconds = self.stage.clock.elapsed_s() - started_s
        cost_usd = self._cost_usd(name, seconds)
        return Outcome(name, state, seconds, cost_usd, detail, next_step)

    def _try(self, planned: PlannedStep) -> tuple[State, str, str]:
        try:
            if planned.step.name == "down" and self.stage.removes:
                self._release()
            return State.PASSED, ACTIONS[planned.step.name](self.stage, planned.limit_s), ""
        except StepSkipped as e:
            return State.SKIPPED, str(e), ""
        except StepFailed as e:
            return State.FAILED, e.cause, e.next_step
        except KeyboardInterrupt:
            self.is_interrupted = True
            return State.FAILED, STOPPED, "rehearse again, optionally with --steps"
        except FAILURES as e:
            return (State.FAILED, *cause_and_hint(e))

    def _reason_to_skip(self, planned: PlannedStep) -> str:
        """Return the reason why a step cannot run after the earlier outcomes, or ''."""
        if self.is_interrupted:
            return STOPPED
        ended = {outcome.step: outcome.state for outcome in self.outcomes}
        missing = [n for n in planned.step.needs if ended.get(n, State.PASSED) is not State.PASSED]
        if missing:
            return f"it needs {', '.join(missing)}, which did not pass"
        failed = [step for step, state in ended.items() if state is State.FAILED]
        if planned.step.name == "down" and failed:
            return f"{', '.join(failed)} failed: the cluster is kept, so that you can read its logs"
        spent_usd = sum(outcome.cost_usd for outcome in self.outcomes)
        if planned.step.name != "down" and spent_usd + planned.most_usd > self.max_cost_usd:
            return (
                f"${spent_usd:.2f} of ${self.max_cost_usd:.2f} is spent, and the step may cost"
                f" ${planned.most_usd:.2f}"
            )
        return ""

    def _cost_usd(self, name: str, seconds: float) -> float:
        """Return the cost of machines since the last step and of the control plane in this step."""
        rates = self.plan.rates
        control_usd = (rates.idle if name == "idle" else rates.awake) * seconds / 3600
        return control_usd + self._new_machines_usd()

    def _new_machines_usd(self) -> float:
        stage, before = self.stage, self._machines_usd
        if stage.client is not None and not stage.is_removed:
            try:
                self._machines_usd = stage.client.spent_usd()
            except FAILURES:
                self._say("  warning: the cluster does not report the cost of its machines")
        return self._machines_usd - before

    def _release(self) -> None:
        """Terminate the machines. Their remaining cost is added to the last step."""
        self.leftovers = release(self.stage)
        more = self._new_machines_usd()
        if more and self.outcomes:
            last = self.outcomes[-1]
            self.outcomes[-1] = Outcome(
                last.step, last.state, last.seconds, last.cost_usd + more, last.detail, last.next_step
            )  # fmt: skip

    def _say(self, text: str) -> None:
        self.stage.say(text)
