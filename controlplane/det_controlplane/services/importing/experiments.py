"""Import a batch of experiments in one transaction, so that they appear when they are complete."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from det_controlplane.core.importing import experiments as convert
from det_controlplane.core.importing.ids import Ids
from det_controlplane.core.importing.options import Options
from det_controlplane.core.importing.remarks import Remarks
from det_controlplane.core.importing.replay import Replay
from det_controlplane.core.importing.values import uuid_of
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.importing import reading, target
from det_controlplane.db.importing.piping import Pipe
from det_controlplane.db.importing.reading import Batch, Row
from det_controlplane.db.importing.source import Source
from det_controlplane.db.trials import trials
from det_controlplane.db.trials.trials import PlannedTrial
from det_controlplane.services.importing import searches


@dataclass(slots=True)
class Counts:
    experiments: int = 0
    trials: int = 0
    metrics: int = 0
    logs: int = 0


@dataclass(slots=True)
class ExperimentImport:
    """Imports experiments with their trials, metrics, logs and checkpoints."""

    source: Source
    ids: Ids
    options: Options
    remarks: Remarks
    now: datetime
    counts: Counts = field(default_factory=Counts)
    _storages: dict[int, Row] = field(default_factory=dict)
    _repeats: bool = False  # some step was reported twice

    def __post_init__(self) -> None:
        self._storages = reading.storages(self.source)

    def run(self, tx: Tx, old_ids: Sequence[int]) -> None:
        batch = reading.batch(self.source, old_ids)
        _BatchImport(self, tx, batch).run()
        self.counts.experiments += len(batch.experiments)
        self.counts.trials += len(batch.trials)
        self._copy_metrics(tx, batch)
        self._copy_logs(tx, batch)

    def _copy_metrics(self, tx: Tx, batch: Batch) -> None:
        if not batch.trials:
            return
        produce = partial(
            reading.copy_metrics, self.source, batch.trial_ids, self.ids.offsets["trials"], self.ids.offsets["metrics"],
        )  # fmt: skip
        if not self._repeats:
            try:
                with tx.begin_nested():
                    self.counts.metrics += Pipe().pump(produce, partial(target.copy_metrics, tx))
                return
            except Violated:
                self._repeats = True
        self.counts.metrics += Pipe().pump(produce, partial(target.copy_repeated_metrics, tx))

    def _copy_logs(self, tx: Tx, batch: Batch) -> None:
        logs = self.options.logs
        if logs.kind == "none" or not self.source.has("task_logs"):
            return
        failed = {row["id"] for row in batch.trials if row["state"] == "ERROR"}
        task_ids = {
            task["task_id"]: batch.task_id(trial_id) or ""
            for trial_id, tasks in batch.tasks.items()
            if logs.kind != "errors" or trial_id in failed
            for task in tasks
        }
        if task_ids:
            produce = partial(self.source.copy, reading.logs_sql(self.source, task_ids, logs.since))
            self.counts.logs += Pipe().pump(
                produce, partial(target.copy_logs, tx), reading.log_line
            )

    def storage(self, tx: Tx, storage_id: int | None) -> int | None:
        """Return the storage here of a storage there."""
        config = self._storages.get(storage_id or 0)
        if config is None:
            return None
        return target.storage_of(tx, config)


class _BatchImport:
    """Writes the rows of a batch. Rows come before the rows that refer to them."""

    def __init__(self, whole: ExperimentImport, tx: Tx, batch: Batch) -> None:
        self._whole, self._tx, self._batch = whole, tx, batch
        self._ids, self._remarks = whole.ids, whole.remarks
        self._workspaces = target.workspace_of_projects(tx)
        self._by_experiment: dict[int, list[Row]] = {}
        for row in batch.trials:
            self._by_experiment.setdefault(row["experiment_id"], []).append(row)
        self._new_trials: dict[int, dict[str, Any]] = {}  # by old id

    def run(self) -> None:
        parents = [row["parent_id"] for row in self._batch.experiments if row.get("parent_id")]
        new_parents = [self._ids.new("experiments", id) for id in parents]
        present = target.experiments_present(self._tx, new_parents)
        present |= {self._ids.new("experiments", row["id"]) for row in self._batch.experiments}
        for row in self._batch.experiments:
            self._import_experiment(row, present)
        self._import_checkpoints()

    def _import_experiment(self, row: Row, present: set[int]) -> None:
        project_id = self._ids.new("projects", row.get("project_id") or 1)
        workspace_id, workspace = self._workspaces[project_id]
        config = convert.readable_config(row["config"])
        context = self._add_context(row)
        job = convert.job(row, self._ids, workspace_id, self._whole.options.default_pool)
        target.add(self._tx, "jobs", [job])
        old_trials = self._by_experiment.get(row["id"], [])
        best = next((t for t in old_trials if t["id"] == row.get("best_trial_id")), None)
        parent = self._ids.optional("experiments", row.get("parent_id"))
        new = convert.experiment(
            row,
            self._ids,
            context=context,
            parent_exists=parent in present,
            best=best,
            config=config,
        )
        replay = self._rebuild_search(row, old_trials, config)
        if replay.problem:
            new |= {
                "state": ExperimentState.CANCELED.value,
                "ended_at": new["ended_at"] or convert.last_activity(old_trials) or self._whole.now,
            }
        target.add(self._tx, "experiments", [new])
        self._add_trials(row, new, old_trials, replay, job["id"], context, workspace)
        self._add_search(new, replay)
        names = convert.metric_names([t.get("summary_metrics") or {} for t in old_trials])
        target.add(self._tx, "metric_names", [{"experiment_id": new["id"], "names": names}])

    def _add_context(self, row: Row) -> str | None:
        content = reading.model_definition(self._whole.source, row["id"])
        if not content:
            return None
        id = convert.context_id(row)
        context = {
            "id": id, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "content": content,
            "user_id": self._ids.new("users", row["owner_id"]), "created_at": self._whole.now,
        }  # fmt: skip
        target.add_context(self._tx, context)
        return id

    def _rebuild_search(
        self, row: Row, old_trials: Sequence[Row], config: Mapping[str, Any]
    ) -> Replay:
        replay = searches.rebuilt(self._whole.source, row, old_trials, config)
        if replay.problem:
            self._remarks.add(f"experiment {row['id']}", searches.remark(replay))
        return replay

    def _add_trials(
        self, row: Row, new: Mapping[str, Any], old_trials: Sequence[Row], replay: Replay, job: str,
        context: str | None, workspace: str,
    ) -> None:  # fmt: skip
        state = ExperimentState(new["state"])
        rows, tasks, runs = [], [], []
        for old in old_trials:
            task_id = self._batch.task_id(old["id"]) or f"{row['id']}.imported.{old['id']}"
            allocations = [
                run for task in self._batch.tasks.get(old["id"], []) for run in self._batch.allocations.get(task["task_id"], [])
            ]  # fmt: skip
            request_id = replay.request_ids.get(old["id"]) or uuid_of(
                old.get("request_id"), "trial", old["id"]
            )
            trial = convert.trial(old, self._ids, state, task_id, request_id, len(allocations))
            trial |= _search_columns(old["id"], trial, replay, self._whole.now)
            self._new_trials[old["id"]] = trial
            rows.append(trial)
            first = self._batch.tasks.get(old["id"], [None])[0]
            tasks.append(convert.trial_task(first, trial, job, context))
            runs += [
                convert.allocation(run, number, trial, job, workspace)
                for number, run in enumerate(allocations, start=1)
            ]
        target.add(self._tx, "trials", rows)
        target.add(self._tx, "tasks", tasks)
        target.add(self._tx, "allocations", runs)

    def _add_search(self, new: Mapping[str, Any], replay: Replay) -> None:
        closed = not ExperimentState(new["state"]).live
        search = {"experiment_id": new["id"], "seq": len(replay.events), "closed": closed}
        target.add(self._tx, "searches", [search])
        events = [
            {"experiment_id": new["id"], "seq": seq, "event": event}
            for seq, event in enumerate(replay.events, start=1)
        ]
        target.add(self._tx, "search_events", events)
        planned = [
            PlannedTrial(c.request_id, c.seed, c.hparams, c.warm_start_from, c.checkpoint)
            for c in replay.created
        ]
        if planned:
            trials.insert_many(self._tx, new["id"], planned, TrialState.PAUSED, self._whole.now)

    def _import_checkpoints(self) -> None:
        rows = []
        for row in self._batch.checkpoints:
            trial = self._new_trials.get(self._batch.trial_of_checkpoint.get(row["uuid"], 0))
            storage_id = self._whole.storage(self._tx, row.get("storage_id"))
            task_id = None if trial is None else trial["task_id"]
            rows.append(convert.checkpoint(row, storage_id, trial, task_id))
        target.add(self._tx, "checkpoints", rows, skip_existing=True)


def _search_columns(
    old_id: int, trial: Mapping[str, Any], replay: Replay, now: datetime
) -> dict[str, Any]:
    """Return the columns of a trial that its search decides. A stopped trial that had not ended ends now."""
    stopped = old_id in replay.stopped
    columns: dict[str, Any] = {
        "stop_requested": stopped, "stopped_early": stopped, "train_to": replay.train_to.get(old_id),
    }  # fmt: skip
    if stopped and trial["ended_at"] is None:
        columns |= {"state": TrialState.COMPLETED.value, "ended_at": now}
    return columns
