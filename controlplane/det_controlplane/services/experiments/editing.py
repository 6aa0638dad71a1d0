"""Change the editable fields of an experiment (name, labels, notes, flags, resources, retention) and its project."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from det_controlplane.core.checkpoints import gc
from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.documents import fault_of_labels
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.schedule.job_settings import out_of_bounds
from det_controlplane.db.experiments import experiments
from det_controlplane.db.scheduling import jobs
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.experiments import deadlines, live
from det_controlplane.services.identity.rights import require_owner, require_removal
from det_controlplane.services.organization import config_policies
from det_controlplane.services.organization.projects import open_project
from det_controlplane.services.principal import User


def set_archived(ctx: Context, experiment_id: int, archived: bool) -> None:
    with live.locked_experiment(ctx, experiment_id) as experiment:
        if not experiment.row.state.terminal:
            raise WrongState(
                f"experiment {experiment_id} is {experiment.row.state.value}; only ended ones can be archived"
            )
        experiments.change(experiment.tx, experiment_id, archived=archived)


@dataclass(frozen=True, slots=True)
class Changes:
    """Hold the changes of an edit; absent fields stay. `resources` has priority, weight, max_slots and deadline; `policy` the save_* numbers."""

    texts: Mapping[str, str]
    labels: Sequence[str] | None
    resources: Mapping[str, Any]
    policy: Mapping[str, int]


def patch(ctx: Context, user: User, experiment_id: int, changes: Changes) -> None:
    with live.locked_experiment(ctx, experiment_id) as experiment:
        tx = experiment.tx
        if not changes.texts.get("name", "named").strip():
            raise Invalid("name must not be blank")
        described: dict[str, Any] = dict(changes.texts)
        notes = described.pop("notes", None)
        if changes.labels is not None:
            described["labels"] = _checked_labels(experiment_id, set(changes.labels))
        if described:
            experiments.change_described(tx, experiment_id, **described)
        if notes is not None:
            experiments.change(tx, experiment_id, notes=notes)
        for name, value in changes.resources.items():
            if name == "deadline":
                deadlines.change(experiment, value)
            else:
                change_resource(experiment, name, value)
        _patch_policy(experiment, user, changes.policy)


def change_resource(experiment: live.LiveExperiment, name: str, value: Any) -> None:
    """Change priority, weight or max_slots of a queued or running experiment; its stored configuration follows."""
    if experiment.row.state.terminal:
        raise Missing(f"experiment {experiment.row.id} has ended: it has no resources to change")
    if wrong := out_of_bounds(name, value):
        raise Invalid(wrong)
    _check_policies(experiment, name, value)
    jobs.change(experiment.tx, experiment.row.job_id, **{name: value})
    experiments.set_config(experiment.tx, experiment.row.id, "resources", name, value)
    experiment.change.queue_changed(experiment.row.pool)


def _check_policies(experiment: live.LiveExperiment, name: str, value: Any) -> None:
    workspace_id = jobs.workspace_of(experiment.tx, experiment.row.job_id)
    in_force = config_policies.in_force(experiment.tx, workspace_id)
    broken = policy_rules.check_change(name, value, in_force)
    if broken:
        raise InvalidConfig(broken, what="change")


def _patch_policy(experiment: live.LiveExperiment, user: User, policy: Mapping[str, int]) -> None:
    """Keep other checkpoints at the end; fewer, which deletes some, for the owner only."""
    if not policy:
        return
    before = gc.policy_of(experiments.config(experiment.tx, experiment.row.id))
    if replace(before, **policy).keeps_less_than(before):
        what = f"keep fewer checkpoints of experiment {experiment.row.id}"
        require_owner(user, experiment.row.user_id, what)
    for name, value in policy.items():
        if value < 0:
            raise Invalid(f"{name} must be at least 0, not {value}")
        experiments.set_config(experiment.tx, experiment.row.id, "checkpoint_storage", name, value)
    if experiment.row.state.terminal:
        key = f"policy {experiment.now.isoformat()}"
        experiment.change.later(EffectKind.CHECKPOINT_GC, experiment_id=experiment.row.id, key=key)


def add_label(ctx: Context, experiment_id: int, label: str) -> list[str]:
    return _change_labels(ctx, experiment_id, {label}, set())


def remove_label(ctx: Context, experiment_id: int, label: str) -> list[str]:
    return _change_labels(ctx, experiment_id, set(), {label})


def _change_labels(
    ctx: Context, experiment_id: int, added: set[str], removed: set[str]
) -> list[str]:
    with ctx.db.begin() as tx:
        before = experiments.lock_labels(tx, experiment_id)
        if before is None:
            raise Missing(f"experiment {experiment_id} not found")
        labels = sorted((set(before) | added) - removed)
        if added:
            _checked_labels(experiment_id, labels)
        experiments.change_described(tx, experiment_id, labels=labels)
    return labels


def _checked_labels(experiment_id: int, labels: Collection[str]) -> list[str]:
    fault = fault_of_labels(labels)
    if fault is not None:
        raise Invalid(f"experiment {experiment_id}: {fault}")
    return sorted(labels)


def move(ctx: Context, caller: User, experiment_id: int, project_id: int) -> None:
    with live.locked_experiment(ctx, experiment_id) as experiment:
        tx, row = experiment.tx, experiment.row
        if experiments.is_archived(tx, experiment_id):
            raise WrongState(
                f"experiment {experiment_id} or its project is archived: unarchive it first"
            )
        if row.state is ExperimentState.DELETING:
            raise WrongState(f"experiment {experiment_id} is being deleted")
        project = open_project(tx, project_id)
        source = jobs.workspace_of(tx, row.job_id)
        what = f"experiment {experiment_id}"
        require_removal(caller, row.user_id, source, project.workspace_id, what)
        experiments.change(tx, experiment_id, project_id=project_id)
        jobs.change(tx, row.job_id, workspace_id=project.workspace_id)
