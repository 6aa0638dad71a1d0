"""Take an ended experiment up again from its checkpoints (docs/reference/compatibility.md#experiments-and-trials)."""

from contextlib import suppress
from typing import Any

from det_controlplane.core import config as configs
from det_controlplane.core import search
from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.config.layers import merge
from det_controlplane.core.config.legacy import shim
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.experiments import continuing, submissions
from det_controlplane.db.experiments.continuing import EndedExperiment, EndedTrial
from det_controlplane.db.scheduling import jobs
from det_controlplane.db.trials import trials
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import WrongState
from det_controlplane.services.experiments import deadlines, live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.identity import host_access
from det_controlplane.services.identity.rights import require_submitter
from det_controlplane.services.money import spent_budgets
from det_controlplane.services.organization import config_policies
from det_controlplane.services.organization.projects import keep_open
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import capacity
from det_controlplane.services.search.journal import parse_space

_SEARCHERS = ("single", "random", "grid")
_QUEUE_KEYS = {"priority", "weight", "max_slots"}  # keys of `resources` that the job has, too


def resume(ctx: Context, user: User, experiment_id: int, override: str) -> None:
    """Run trials that did not complete again, each from its latest checkpoint, as a task of their own."""
    changes = _read(override)
    with live.locked_experiment(ctx, experiment_id) as experiment:
        row, config, again = _read_continuable(experiment, user, changes)
        _reopen(experiment, row, config, override if changes else None, changes)
        for trial in again:
            _reopen_trial(experiment, trial)
        if changes:
            _replace_plan(experiment, config, again[0].id)
        # The search is folded by its new configuration from here on, in every process.
        ctx.memory.pop_search(experiment_id)
        experiment.feed(search.Continued([str(t.request_id) for t in again]))
        experiment.journal.write_with_snapshot()
        for trial_row in trials.live(experiment.tx, experiment_id):
            experiment.patch_trials([trial_row], TrialState.ACTIVE)


class _DryRun(Exception):
    """Ends a dry run that met no objection: leave the transaction without a trace."""


def check(ctx: Context, user: User, experiment_id: int, override: str) -> None:
    """Raise the errors of `resume` without changing anything."""
    changes = _read(override)
    with suppress(_DryRun), live.locked_experiment(ctx, experiment_id) as experiment:
        _read_continuable(experiment, user, changes)
        raise _DryRun


def _read(override: str) -> dict[str, Any]:
    """Read the changes. The stock client sends an empty object if there are no changes."""
    return configs.load_yaml(override) if override.strip() else {}


def _read_continuable(
    experiment: LiveExperiment, user: User, changes: dict[str, Any]
) -> tuple[EndedExperiment, dict[str, Any], list[EndedTrial]]:
    """Return the continued experiment, its configuration, and the trials that run again."""
    row = continuing.experiment(experiment.tx, experiment.row.id)
    assert row is not None
    _check(experiment, row)
    ended = continuing.trials_of(experiment.tx, experiment.row.id)
    single = row.config["searcher"]["name"] == "single"
    again = [t for t in ended if single or t.state is not TrialState.COMPLETED]
    if not again:
        raise WrongState(
            f"experiment {experiment.row.id}: every trial has completed, nothing is left to continue"
        )
    spent_budgets.require(experiment.ctx, experiment.tx, experiment.row.id)
    if changes:
        experiment.row.pool = _chosen_pool(experiment, user, row, changes)
    config = _overridden(experiment, user, row, changes) if changes else row.config
    _require_room(experiment.ctx, user, experiment.row.pool, config["resources"])
    capacity.keep_open(experiment.ctx, experiment.tx, experiment.row.pool)
    return row, config, again


def _check(experiment: LiveExperiment, row: EndedExperiment) -> None:
    experiment_id, state = experiment.row.id, experiment.row.state
    ended = (ExperimentState.COMPLETED, ExperimentState.CANCELED, ExperimentState.ERROR)
    if row.unmanaged:
        raise WrongState(f"experiment {experiment_id} is unmanaged: its own process runs it")
    if state not in ended:
        raise WrongState(
            f"experiment {experiment_id} is {state.value}: only ended ones can be continued"
        )
    if row.archived or row.parent_archived:
        raise WrongState(f"experiment {experiment_id} is archived: unarchive it first")
    keep_open(experiment.tx, row.project_id)
    name = row.config["searcher"]["name"]
    if name not in _SEARCHERS:
        raise WrongState(
            f"experiment {experiment_id} searches by {name}: only single, random and grid can be continued;"
            " continue one of its trials (`det trial continue ID`), or create a new experiment from its configuration"
        )


def _chosen_pool(
    experiment: LiveExperiment, user: User, row: EndedExperiment, changes: dict[str, Any]
) -> str:
    """Return the pool that the changes name, checked as at creation, else the experiment's own."""
    requested = _resources(changes).get("resource_pool")
    project = submissions.project_by_id(experiment.ctx.db, row.project_id)
    if not requested or requested == experiment.row.pool or project is None:
        return experiment.row.pool
    return capacity.pool_of(experiment.ctx, changes, None, project, user).pool_name


def _resources(changes: dict[str, Any]) -> dict[str, Any]:
    resources = changes.get("resources")
    return resources if isinstance(resources, dict) else {}


def _overridden(
    experiment: LiveExperiment, user: User, row: EndedExperiment, changes: dict[str, Any]
) -> dict[str, Any]:
    """Override the configuration of a single trial only: others were sampled from theirs."""
    require_submitter(user, row.user_id, f"continue experiment {experiment.row.id} with changes")
    if row.config["searcher"]["name"] != "single":
        raise WrongState(
            f"experiment {experiment.row.id}: a configuration can only be overridden for searcher single"
        )
    problems = [
        Problem(key, "cannot be changed by continuing: use 'det experiment move'")
        for key in ("workspace", "project")
        if changes.get(key) and changes[key] != row.config.get(key)
    ]
    if (changes.get("searcher") or {}).get("name", "single") != "single":
        problems.append(
            Problem("searcher.name", "must stay single when an experiment is continued")
        )
    if problems:
        raise InvalidConfig(problems)
    demanded = config_policies.demanded(experiment.ctx, experiment.tx, row.workspace_id)
    config = _resolve_config(experiment, row, changes, demanded)
    # Check host mounts and devices as at creation, also for an experiment of an administrator, because the code may
    # have changed.
    host_access.require(
        experiment.ctx, user, config,
        pool=experiment.row.pool, storages=[row.workspace_storage], demanded=demanded,
    )  # fmt: skip
    broken = policy_rules.check(config, config_policies.merged(demanded).constraints)
    if broken:
        raise InvalidConfig(broken)
    return config


def _resolve_config(
    experiment: LiveExperiment,
    row: EndedExperiment,
    changes: dict[str, Any],
    demanded: list[dict[str, Any]],
) -> dict[str, Any]:
    """Merge the changes into the experiment's configuration and apply the config policies."""
    current = sealing.unsealed(experiment.ctx, row.config, row.sealed)
    merged = sealing.completed(merge(shim(changes)[0], current), current)
    invariants = tuple(p["invariant_config"] for p in demanded if p.get("invariant_config"))
    resolved = configs.resolve(
        merged,
        configs.Sources(invariant_policies=invariants),
        name=row.config["name"],
        seed=experiment.row.seed,
    )
    config = resolved.config.to_json()
    resources = config["resources"]
    if resources.get("deadline") != row.config["resources"].get("deadline") or resources.get(
        "finish_within"
    ):
        deadlines.settle(experiment.ctx, experiment.tx, config, experiment.row.pool)
    if config["searcher"]["name"] != "single":
        message = "is demanded by your administrator to be another than single: submit it anew"
        raise InvalidConfig([Problem("searcher.name", message)])
    return config


def _require_room(ctx: Context, user: User, pool_name: str, resources: dict[str, Any]) -> None:
    """Refuse a pool that the user may not use now, and a configuration that no agent of the pool can hold."""
    pool = ctx.config.pool(pool_name)
    fault = capacity.fault_of_pool(ctx, pool, user, [pool_name]) if pool is not None else ""
    if fault:
        message = f"{pool_name!r} {fault}; or start a new experiment in another pool"
        raise InvalidConfig([Problem("resources.resource_pool", message)])
    if pool is not None and resources.get("is_single_node"):
        lone = capacity.too_large_for_one_agent(ctx, pool, resources["slots_per_trial"])
        if lone is not None:
            raise InvalidConfig([lone])


def _reopen(
    experiment: LiveExperiment,
    ended: EndedExperiment,
    config: dict[str, Any],
    override: str | None,
    changes: dict[str, Any],
) -> None:
    tx, row, sealed = experiment.tx, experiment.row, ended.sealed
    if override is not None:
        override = sealing.text_without_secrets(override, changes)
        parts = sealing.seal(experiment.ctx, config)
        config, sealed = parts.shown, parts.secrets
    continuing.reopen(tx, row.id, row.job_id, config, sealed, override, experiment.now)
    changed_keys = _QUEUE_KEYS & _resources(changes).keys()
    values = {key: config["resources"].get(key) for key in changed_keys}
    if "weight" in values:
        values["weight"] = values["weight"] or 1
    jobs.change(tx, row.job_id, pool=row.pool, **values)
    if override is not None:
        deadlines.store(tx, row.id, config)
    row.state = ExperimentState.ACTIVE
    experiment.change.queue_changed(row.pool)


def _reopen_trial(experiment: LiveExperiment, trial: EndedTrial) -> None:
    task_id = trial.next_task(experiment.row.id)
    continuing.reopen_trial(experiment.tx, trial.id, task_id)
    trials.insert_task(
        experiment.tx, task_id, trial.id, experiment.row.id, experiment.row.job_id,
        experiment.row.context_id, experiment.now,
    )  # fmt: skip


def _replace_plan(experiment: LiveExperiment, config: dict[str, Any], trial_id: int) -> None:
    """Store the hyperparameters and the length that the searcher would have chosen with a changed configuration."""
    fresh = search.new(config["searcher"], parse_space(config), experiment.row.seed)
    actions = fresh.fold(search.Started())
    created = next(a for a in actions if isinstance(a, search.Create))
    length = next((a.length for a in actions if isinstance(a, search.TrainTo)), None)
    continuing.set_plan(experiment.tx, trial_id, dict(created.hparams), length)
