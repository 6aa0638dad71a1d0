"""Rules for searches that end early (`searcher.stop_when`): of their actions in every world, and of their ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core import search
from det_controlplane.core.search import (
    Action,
    Create,
    Ending,
    EndReason,
    Event,
    Exited,
    ExitedEarly,
    Park,
    Stop,
    TrainTo,
)
from det_controlplane.core.search.events import Continued
from det_controlplane.db.engine.database import Tx
from sqlalchemy import text

from tests.world.ledger import Ledger, Run
from tests.world.violation import Violation

_CONTAINERS = text("""
    SELECT c.id::text AS id FROM containers c JOIN allocations a ON a.id = c.allocation_id
    JOIN tasks k ON k.id = a.task_id JOIN trials t ON t.id = k.trial_id WHERE t.experiment_id = :id
""")
_EXPERIMENT = text("SELECT state::text AS state, config FROM experiments WHERE id = :id")
_TRIALS = text("""
    SELECT t.id, t.request_id::text AS request_id, t.state::text AS state, t.early_exit, x.run_id, x.exit_kind, x.clean,
        (SELECT max(m.total_batches) FROM metrics m
         WHERE m.trial_id = t.id AND m.metric_group = 'validation') AS steps
    FROM trials t LEFT JOIN LATERAL (
        SELECT a.run_id, a.exit_kind::text AS exit_kind, (SELECT bool_and(c.exit_code = 0 AND c.failure IS NULL)
            FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch) AS clean
        FROM allocations a WHERE a.trial_id = t.id ORDER BY a.run_id DESC LIMIT 1) x ON true
    WHERE t.experiment_id = :id ORDER BY t.id
""")


class EndWatch:
    """Follows the actions of one search. After its end, it creates, continues and parks no trial."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self.targets: dict[str, int] = {}  # the lengths to which trials were asked to train
        self._live: set[str] = set()  # trials that neither ended nor were stopped
        self._parked: set[str] = set()

    def see(self, event: Event, actions: Sequence[Action], ending: Ending | None) -> None:
        """Check the actions of an event. `ending` is the ending of the search after the event."""
        if isinstance(event, Continued):
            self.ending, self._live, self._parked = None, set(event.request_ids), set()
        if self.ending not in (None, ending):
            raise Violation(f"a search ended by {self.ending}, and later by {ending}")
        own = getattr(event, "request_id", None)
        for action in actions:
            self._check(action, own, ending)
            self._follow(action)
        if isinstance(event, (Exited, ExitedEarly)):
            self._leave(event.request_id)
        if ending is not None and self._parked:
            raise Violation(f"trials {self._parked} wait although {ending}")
        if ending is not None and ending.reason is EndReason.COST_ABOVE and self._live:
            raise Violation(f"trials {self._live} continue although {ending}")
        self.ending = ending

    def _check(self, action: Action, own: str | None, ending: Ending | None) -> None:
        if self.ending is not None:  # since an earlier event
            if isinstance(action, Create):
                raise Violation(f"{action} after {self.ending}")
            is_over = self.ending.reason is EndReason.COST_ABOVE
            if isinstance(action, TrainTo) and (is_over or action.request_id in self._parked):
                raise Violation(f"{action} after {self.ending}")
        if (
            isinstance(action, Stop)
            and ending is not None
            and ending.reason is EndReason.GAIN_BELOW
            and action.request_id not in (own, *self._parked)
        ):
            raise Violation(f"{action} of a trial that trains, although only {ending}")

    def _follow(self, action: Action) -> None:
        if isinstance(action, Create):
            self._live.add(action.request_id)
        elif isinstance(action, Park):
            self._parked.add(action.request_id)
        elif isinstance(action, TrainTo):
            self._parked.discard(action.request_id)
            self.targets[action.request_id] = action.length
        elif isinstance(action, Stop):
            self._leave(action.request_id)

    def _leave(self, request_id: str) -> None:
        self._live.discard(request_id)
        self._parked.discard(request_id)


class Endings:
    """The experiments of a world that ended early, and the rules for their trials."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._containers: dict[int, set[str]] = {}  # of searches that ended by their cost

    def check_step(self, tx: Tx, watches: Mapping[int, EndWatch]) -> None:
        """Check that no run starts after the end of a search by its cost."""
        for id, watch in watches.items():
            if watch.ending is not None and watch.ending.reason is EndReason.COST_ABOVE:
                containers = {row.id for row in tx.execute(_CONTAINERS, {"id": id})}
                late = containers - self._containers.setdefault(id, containers)
                if late:
                    raise Violation(f"containers {late} of experiment {id} after {watch.ending}")

    def check_end(self, tx: Tx, watches: Mapping[int, EndWatch]) -> list[EndReason]:
        """Check the experiments that ended early and not by a user, and return their reasons."""
        reasons = []
        for id, watch in watches.items():
            row = tx.execute(_EXPERIMENT, {"id": id}).first()
            ended_by_user = id in self._ledger.ending | self._ledger.deleting
            if watch.ending is None or row is None or ended_by_user or row.state == "PAUSED":
                continue
            if row.state != "COMPLETED":
                raise Violation(f"experiment {id} is {row.state} after {watch.ending}")
            lengths = search.report_lengths(row.config["searcher"])
            for trial in tx.execute(_TRIALS, {"id": id}):
                if trial.state != "COMPLETED" or trial.early_exit:
                    continue
                steps, target = trial.steps or 0, watch.targets.get(trial.request_id)
                if watch.ending.reason is EndReason.GAIN_BELOW:
                    if steps < (target or lengths[0]):
                        raise Violation(f"trial {trial.id} was cut short at {steps} batches")
                elif steps < (target or lengths[-1]):
                    self._check_checkpoint(trial)
            reasons.append(watch.ending.reason)
        return reasons

    def _check_checkpoint(self, trial: Any) -> None:
        """Check that the last run was not killed, and saved its last report. A lost machine may prevent this."""
        runs = [run for run in self._ledger.runs.values() if run.trial_id == trial.id]
        last = max(runs, key=lambda run: run.run_id, default=None)
        if last is None or last.run_id != trial.run_id or not last.reported:
            return
        if trial.exit_kind == "killed":
            raise Violation(f"trial {trial.id} was killed, although its search only stopped it")
        if trial.clean and not self._has_saved(last, last.reported[-1][0]):
            raise Violation(f"trial {trial.id} stopped ({trial.exit_kind}) without a checkpoint")

    def _has_saved(self, run: Run, steps: int) -> bool:
        return any(s.run is run and s.steps == steps for s in self._ledger.saved.values())
