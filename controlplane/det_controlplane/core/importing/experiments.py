"""Convert experiments with their jobs, trials, tasks, allocations and checkpoints."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from det_controlplane.core.importing.ids import Ids
from det_controlplane.core.importing.values import Row, first_instant, instant, uuid_of
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState

_ENDS = {
    "COMPLETED": "COMPLETED", "CANCELED": "CANCELED", "ERROR": "ERROR", "STOPPING_COMPLETED": "COMPLETED",
    "STOPPING_CANCELED": "CANCELED", "STOPPING_KILLED": "CANCELED", "STOPPING_ERROR": "ERROR",
}  # fmt: skip
_DELETED = ("DELETING", "DELETE_FAILED")
_CHECKPOINTS = {"ACTIVE": "ERROR"}  # an upload that has not ended
_DEFAULT_WEIGHT = 1.0


def experiment_state(row: Row) -> ExperimentState:
    """Return the state of an experiment here. An experiment that has not ended is paused."""
    if row["state"] in _DELETED:
        return ExperimentState.DELETE_FAILED
    end = _ENDS.get(row["state"])
    if end is None and row.get("unmanaged"):
        end = "CANCELED"
    return ExperimentState(end) if end else ExperimentState.PAUSED


def trial_state(row: Row, experiment: ExperimentState) -> TrialState:
    end = _ENDS.get(row["state"])
    if end is None and experiment.terminal:
        end = "CANCELED"
    return TrialState(end) if end else TrialState.PAUSED


def job(row: Row, ids: Ids, workspace_id: int, pool: str) -> dict[str, Any]:
    config = row["config"]
    resources = config.get("resources") or {}
    submitted = first_instant(row.get("start_time"))
    priority, weight = resources.get("priority"), resources.get("weight")
    return {
        "id": job_id(row), "kind": "EXPERIMENT", "name": config.get("name") or "",
        "pool": resources.get("resource_pool") or pool,
        "priority": priority if isinstance(priority, int) and 1 <= priority <= 99 else None,
        "weight": weight if isinstance(weight, int | float) and weight > 0 else _DEFAULT_WEIGHT,
        "max_slots": resources.get("max_slots"), "position": round(submitted.timestamp() * 1e6),
        "user_id": ids.new("users", row["owner_id"]), "workspace_id": workspace_id, "submitted_at": submitted,
    }  # fmt: skip


def job_id(row: Row) -> str:
    return uuid_of(row.get("job_id"), "job", row["id"], row.get("start_time"))


def context_id(row: Row) -> str:
    return uuid_of(None, "context", job_id(row))


def seed_of(config: Mapping[str, Any]) -> int:
    seed = (config.get("reproducibility") or {}).get("experiment_seed")
    return seed if isinstance(seed, int) else 0


def experiment(
    row: Row, ids: Ids, *, context: str | None, parent_exists: bool, best: Row | None, config: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    state = experiment_state(row)
    started = first_instant(row.get("start_time"))
    ended = instant(row.get("end_time")) or started
    return {
        "id": ids.new("experiments", row["id"]), "job_id": job_id(row), "state": state.value, "config": config,
        "original_config": row.get("original_config") or "", "name": config.get("name") or "",
        "description": config.get("description") or "", "notes": row.get("notes") or "",
        "labels": labels_of(config), "user_id": ids.new("users", row["owner_id"]),
        "project_id": ids.new("projects", row.get("project_id") or 1), "context_id": context,
        "parent_id": ids.optional("experiments", row.get("parent_id")) if parent_exists else None,
        "archived": bool(row.get("archived")), "unmanaged": bool(row.get("unmanaged")),
        "external_id": row.get("external_experiment_id") or None, "progress": row.get("progress"),
        "best_trial_id": None if best is None else ids.new("trials", best["id"]),
        "best_metric": None if best is None else best.get("searcher_metric_value"),
        "seed": seed_of(config), "created_at": started, "started_at": started,
        "ended_at": ended if state.terminal else None,
    }  # fmt: skip


def last_activity(trials: Sequence[Row]) -> datetime | None:
    """Return the time of the newest end or activity of trials, if one is known."""
    times = (instant(t.get("end_time")) or instant(t.get("last_activity")) for t in trials)
    return max((time for time in times if time is not None), default=None)


def labels_of(config: Mapping[str, Any]) -> list[str]:
    """Return the labels. Old configurations have them as the keys of an object."""
    return sorted(str(label) for label in config.get("labels") or ())


def readable_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in which the columns of experiments find numbers where they expect them."""
    readable = dict(config)
    if not isinstance(readable.get("max_restarts", 0), int):
        readable["max_restarts"] = 5
    resources = readable.get("resources")
    slots = resources.get("slots_per_trial", 1) if isinstance(resources, Mapping) else 1
    if not isinstance(slots, int):
        readable["resources"] = {**(resources or {}), "slots_per_trial": 1}
    return readable


def trial(
    row: Row, ids: Ids, experiment: ExperimentState, task_id: str, request_id: str, runs: int
) -> dict[str, Any]:  # fmt: skip
    state = trial_state(row, experiment)
    started = first_instant(row.get("start_time"))
    ended = instant(row.get("end_time")) or instant(row.get("last_activity")) or started
    return {
        "id": ids.new("trials", row["id"]), "experiment_id": ids.new("experiments", row["experiment_id"]),
        "request_id": request_id, "external_id": row.get("external_run_id") or row.get("external_trial_id"),
        "state": state.value, "hparams": row.get("hparams") or {}, "seed": row.get("seed") or 0,
        "run_id": max(runs, row.get("restart_id") or row.get("run_id") or 0), "restarts": row.get("restarts") or 0,
        "total_batches": row.get("total_batches") or 0, "searcher_metric": row.get("searcher_metric_value"),
        "best_validation_id": ids.optional("metrics", row.get("best_validation_id")),
        "latest_validation_id": ids.optional("metrics", row.get("latest_validation_id")),
        "summary_metrics": row.get("summary_metrics") or {}, "metadata": row.get("metadata"),
        "archived": bool(row.get("archived")), "task_id": task_id, "log_policy_matched": row.get("log_policy_matched"),
        "log_retention_days": row.get("log_retention_days"), "started_at": started,
        "ended_at": ended if state.terminal else None,
    }  # fmt: skip


def trial_task(
    task: Row | None, trial: Mapping[str, Any], job: str, context: str | None
) -> dict[str, Any]:
    return {
        "id": trial["task_id"], "kind": "TRIAL", "job_id": job, "trial_id": trial["id"],
        "experiment_id": trial["experiment_id"], "context_id": context,
        "started_at": first_instant((task or {}).get("start_time")) if task else trial["started_at"],
        "ended_at": trial["ended_at"],
    }  # fmt: skip


def allocation(
    row: Row, run_id: int, trial: Mapping[str, Any], job: str, workspace: str
) -> dict[str, Any]:
    """Return a run of a trial, which has ended: runs do not move while they work."""
    started = instant(row.get("start_time"))
    ended = instant(row.get("end_time")) or started or trial["started_at"]
    return {
        "id": row["allocation_id"], "task_id": trial["task_id"], "trial_id": trial["id"], "job_id": job,
        "run_id": run_id, "pool": row.get("resource_pool") or "", "slots": row.get("slots") or 0, "state": "TERMINATED",
        "preemptible": True, "requested_at": started or ended, "assigned_at": started, "started_at": started,
        "workspace_name": workspace, "ended_at": ended, "exit_reason": _exit_reason(row),
        "exit_code": row.get("status_code"),
    }  # fmt: skip


def _exit_reason(row: Row) -> str | None:
    return row.get("exit_error") or row.get("exit_reason")


def other_allocation(
    row: Row, task: Row, user_id: int, workspace: str
) -> dict[str, Any] | None:  # fmt: skip
    """Return the usage of a run of another task, for reports; None if it never ran or has not ended."""
    started, ended = instant(row.get("start_time")), instant(row.get("end_time"))
    if started is None or ended is None:
        return None
    return {
        "id": row["allocation_id"], "task_kind": task["task_type"], "user_id": user_id, "workspace_name": workspace,
        "labels": [], "slots": row.get("slots") or 0, "pool": row.get("resource_pool") or "", "started_at": started,
        "ended_at": max(started, ended), "pull_s": 0.0,
    }  # fmt: skip


def checkpoint(
    row: Row, storage_id: int | None, trial: Mapping[str, Any] | None, task_id: str | None
) -> dict[str, Any]:  # fmt: skip
    metadata = row.get("metadata") or {}
    steps = metadata.get("steps_completed")
    return {
        "uuid": row["uuid"], "task_id": task_id, "allocation_id": row.get("allocation_id"), "storage_id": storage_id,
        "trial_id": None if trial is None else trial["id"],
        "experiment_id": None if trial is None else trial["experiment_id"],
        "state": _CHECKPOINTS.get(row["state"], row["state"]),
        "steps_completed": steps if isinstance(steps, int) else 0,
        "resources": row.get("resources") or {}, "metadata": metadata, "size": row.get("size") or 0,
        "reported_at": first_instant(row.get("report_time")),
    }  # fmt: skip


def metric_names(summaries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the names of an experiment's metrics with their types, by group."""
    groups = {"avg_metrics": "training", "validation_metrics": "validation"}
    names: dict[str, dict[str, str]] = {}
    for summary in summaries:
        for key, metrics in summary.items():
            if not isinstance(metrics, Mapping):
                continue
            known = names.setdefault(groups.get(key, key), {})
            for name, entry in metrics.items():
                kind = (
                    str(entry.get("type") or "number") if isinstance(entry, Mapping) else "number"
                )
                known[name] = kind if known.get(name, kind) == kind else "string"
    return names
