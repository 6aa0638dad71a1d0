"""Creating an experiment: read, merge and check its configuration, then one transaction makes all its rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from det_controlplane.core import config as configs
from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.documents import fault_of_labels
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.trace_context import parse_traceparent
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.engine.errors import TryAgain, Violated
from det_controlplane.db.experiments import experiment_pages, experiments, submissions
from det_controlplane.db.experiments.contexts import NewContext
from det_controlplane.db.experiments.experiment_pages import ShownExperiment
from det_controlplane.db.experiments.submissions import TargetProject
from det_controlplane.db.trials import start_times
from det_controlplane.services import sealing
from det_controlplane.services.code import model_definitions
from det_controlplane.services.code.model_definitions import File, Prepared
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState, require_open
from det_controlplane.services.experiments import deadlines, listing, live, warm_starts
from det_controlplane.services.experiments.actions import start_search
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.identity import host_access
from det_controlplane.services.identity.route_rights import (
    UNCATEGORIZED,
    require_in,
    require_things,
)
from det_controlplane.services.money import spent_budgets
from det_controlplane.services.organization import config_policies, templates
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import capacity
from det_controlplane.services.sealing import Sealed
from det_controlplane.services.use_case import change
from det_controlplane.services.webhooks import events

if (
    TYPE_CHECKING
):  # its models load slowly, and requests that only read experiments do not need them
    from det_controlplane.core.config import Resolved

# The same request may come twice at the same time: one of them makes the experiment, the other finds it.
_ONCE = ("experiments_idempotency_key_key", "experiments_external_id_key")

# The data of an earlier experiment that a fork or a warm start uses.
_READ = Right.VIEW_EXPERIMENT_ARTIFACTS


@dataclass(frozen=True, slots=True)
class Submission:
    config: str
    files: Sequence[File] = ()
    context_id: UUID | None = None  # uploaded before
    activate: bool = True
    template: str = ""
    project_id: int = 0
    parent_id: int | None = None
    unmanaged: bool = False
    validate_only: bool = False
    external_id: str | None = None
    idempotency_key: str | None = None
    traceparent: str = ""  # of the caller, as its header has it
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Created:
    experiment_id: int | None  # None: only validated
    shown: str  # JSON, as `config` is
    config: str
    warnings: tuple[str, ...]
    exceeds_slots: bool = False


def create(ctx: Context, user: User, submission: Submission) -> Created:
    """Create an experiment. If any part is refused, nothing is stored."""
    submitted = configs.load_yaml(submission.config)
    repeated = _find_repeated(ctx, submission)
    if repeated is not None:
        return _read_existing(ctx, repeated)
    if submission.parent_id is not None:
        require_things(ctx, user, _READ, "experiment", [submission.parent_id])
    submitted = sealing.completed(submitted, _earlier(ctx, user, submission))
    project = _project(ctx, user, submission.project_id, submitted)
    template = templates.to_merge(ctx, user, submission.template)
    demanded = [sealing.unsealed(ctx, *policy) for policy in project.policies or []]
    limits = config_policies.merged(demanded).constraints
    with templates.naming(submission.template, submitted, template):
        resolved, pool, exceeds = _resolve(
            ctx, user, submission, submitted, project, template, demanded
        )
    config = resolved.config.to_json()
    if not submission.unmanaged:
        with ctx.db.autocommit() as tx:
            deadlines.settle(ctx, tx, config, pool)
    _check_labels(config)
    storages = [project.checkpoint_storage]
    host_access.require(ctx, user, config, pool=pool, storages=storages, demanded=demanded)
    broken = policy_rules.check(config, limits)
    if broken:
        raise InvalidConfig(broken)
    events.require_known_webhooks(ctx, config, project.workspace_id)
    warm_starts.settle(ctx, user, config)
    sealed = sealing.seal(ctx, config)
    if submission.validate_only:
        blank = as_json(listing.blank_experiment(sealed.shown))
        return Created(None, blank, as_json(sealed.shown), resolved.warnings, exceeds)
    if submission.context_id is not None:
        model_definitions.check_uploaded(ctx, user, submission.context_id)
    archive = model_definitions.archive(submission.files) if submission.files else b""
    context = model_definitions.prepare(ctx, user.id, archive) if archive else None
    try:
        original = sealing.text_without_secrets(submission.config, submitted)
        submission = replace(submission, config=original)
        id, view = _insert(ctx, user, submission, sealed, project, pool, context)
    except Violated as e:
        if e.constraint in _ONCE:
            raise TryAgain(f"another request made this experiment just now: {e}") from e
        raise
    return Created(id, view.shown, view.config, resolved.warnings, exceeds)


def _check_labels(config: dict[str, Any]) -> None:
    fault = fault_of_labels(config["labels"])
    if fault is not None:
        raise InvalidConfig([Problem("labels", fault)])


def _find_repeated(ctx: Context, submission: Submission) -> int | None:
    key = submission.idempotency_key
    return experiments.by_idempotency_key(ctx.db, key) if key else None


def _earlier(ctx: Context, user: User, submission: Submission) -> Any:
    """Return the configuration of the forked experiment. It includes secrets only if the caller owns it."""
    if submission.parent_id is None:
        return None
    parent = submissions.experiment_config(ctx.db, submission.parent_id)
    if parent is None or parent.user_id != user.id:
        return None
    return sealing.unsealed(ctx, parent.config, parent.sealed)


def _read_existing(ctx: Context, experiment_id: int) -> Created:
    # The process of the first request may have died before it sent its answer.
    ctx.waker.wake("schedule")
    view = listing.experiment(ctx, experiment_id)
    return Created(experiment_id, view.shown, view.config, ())


def _project(ctx: Context, user: User, project_id: int, submitted: dict[str, Any]) -> TargetProject:
    workspace, project = submitted.get("workspace"), submitted.get("project")
    by_name = project_id <= 1 and workspace and project
    if by_name:
        row = submissions.project_by_name(ctx.db, str(workspace), str(project))
    else:
        row = submissions.project_by_id(ctx.db, max(project_id, UNCATEGORIZED))
    if row is None or (row.id != UNCATEGORIZED and not _may_view(user, row.workspace_id)):
        if not by_name:
            raise Missing(f"project {project_id} not found")
        its_workspace = submissions.workspace_named(ctx.db, str(workspace))
        if its_workspace is None or not _may_view(user, its_workspace):
            raise Missing(f"workspace {workspace!r} not found: see 'det workspace list'")
        raise Missing(f"project {project!r} of workspace {workspace!r} not found")
    require_in(user, Right.CREATE_EXPERIMENT, row.workspace_id)
    require_open(f"project {row.id}", archived=row.archived, deleting=row.deleting)
    return row


def _may_view(user: User, workspace_id: int) -> bool:
    return user.grants.has(Right.VIEW_PROJECT, workspace_id)


def _resolve(
    ctx: Context,
    user: User,
    submission: Submission,
    submitted: dict[str, Any],
    project: TargetProject,
    template: dict[str, Any] | None,
    demanded: list[dict[str, Any]],
) -> "tuple[Resolved, str, bool]":
    seed = ctx.random.seed()
    runs_here = None if submission.unmanaged else user
    pool, pool_problems = capacity.pool_and_problems(ctx, submitted, template, project, runs_here)
    name = "" if submitted.get("name") else f"Experiment ({configs.petname(seed)})"
    invariants = tuple(p["invariant_config"] for p in demanded if p.get("invariant_config"))
    sources = configs.sources_of(
        ctx.config, pool, template=template,
        workspace_storage=sealing.unsealed(ctx, project.checkpoint_storage, project.storage_secrets),
        invariant_policies=invariants,
    )  # fmt: skip
    try:
        resolved = configs.resolve(
            submitted, sources, name=name, seed=seed,
            managed=not submission.unmanaged,
        )  # fmt: skip
    except InvalidConfig as error:
        raise InvalidConfig([*pool_problems, *error.problems]) from error
    if pool_problems:
        raise InvalidConfig(pool_problems)
    exceeds = not submission.unmanaged and _exceeds(ctx, pool, resolved)
    return resolved, pool.pool_name, exceeds


def _exceeds(ctx: Context, pool: Pool, resolved: "Resolved") -> bool:
    """Return whether a trial asks for more slots than its pool has; refuse it where it could never start."""
    resources = resolved.config.resources
    slots = resources.least_slots
    # Waiting cannot help while the agents stay the same, so launch_error does not matter.
    if resources.is_single_node:
        lone = capacity.too_large_for_one_agent(ctx, pool, slots)
        if lone is not None:
            raise InvalidConfig([lone])
    exceeds = capacity.exceeds(ctx, pool.pool_name, slots)
    if exceeds and ctx.config.launch_error:
        sentence = capacity.sentence(slots, pool, capacity.of_pool(ctx, pool.pool_name))
        raise InvalidConfig([Problem("resources.slots_per_trial", sentence)])
    return exceeds


def _model_definition(
    tx: Tx, submission: Submission, context: Prepared | None
) -> tuple[UUID | None, NewContext | None]:
    """Return the id of the new experiment's model definition, and its row unless that is there: forks have their parent's."""
    if submission.parent_id is None:
        return (
            (submission.context_id, None) if context is None else (context.context_id, context.row)
        )
    parent = submissions.parent(tx, submission.parent_id)
    if parent is None:
        raise Missing(f"experiment {submission.parent_id} not found")
    if parent.archived:
        raise WrongState(
            f"experiment {submission.parent_id} cannot be forked: its project is archived"
        )
    return parent.context_id, None


def _insert(
    ctx: Context,
    user: User,
    submission: Submission,
    sealed: Sealed,
    project: TargetProject,
    pool: str,
    context: Prepared | None,
) -> tuple[int, ShownExperiment]:
    job_id, config = ctx.random.uuid(), sealed.shown
    resources = config["resources"]
    with change(ctx) as changed:
        tx = changed.tx
        if not submission.unmanaged:
            capacity.keep_open(ctx, tx, pool)
        context_id, new_context = _model_definition(tx, submission, context)
        state = ExperimentState.ACTIVE if submission.activate else ExperimentState.PAUSED
        retention = config.get("retention_policy") or {}
        new = experiments.NewExperiment(
            job_id=job_id, config=config, sealed=sealed.secrets, original_config=submission.config, name=config["name"],
            description=config.get("description") or "", labels=list(config.get("labels") or []),
            user_id=user.id, project_id=project.id, workspace_id=project.workspace_id, context_id=context_id,
            parent_id=submission.parent_id, unmanaged=submission.unmanaged,
            external_id=submission.external_id, seed=config["reproducibility"]["experiment_seed"],
            log_retention_days=retention.get("log_retention_days"),
            idempotency_key=submission.idempotency_key, pool=pool,
            priority=resources.get("priority"), weight=float(resources.get("weight") or 1),
            max_slots=resources.get("max_slots"),
        )  # fmt: skip
        row, searched = experiments.insert(tx, new, new_context, state, changed.now)
        ctx.recorder.add_objects(f"experiment {row.id}")
        if ctx.spans is not None and not submission.unmanaged:
            caller = parse_traceparent(submission.traceparent)
            received_at = submission.received_at or changed.now
            start_times.add_submission(tx, row.id, caller.header() if caller else None, received_at)
        if resources.get("deadline") and not submission.unmanaged:
            deadlines.store(tx, row.id, config)
        if submission.activate and not submission.unmanaged:
            spent_budgets.require(ctx, tx, row.id)
        experiment = LiveExperiment(ctx, changed, row)
        if not submission.unmanaged:
            start_search(experiment, searched)
        live.close(experiment)
        view = experiment_pages.one(tx, row.id)
        assert view is not None
    return row.id, view


def put(ctx: Context, user: User, submission: Submission) -> Created:
    """Make an unmanaged experiment by a name of the user's once, find it afterwards."""
    experiment_id = experiments.by_external_id(ctx.db, submission.external_id or "")
    if experiment_id is None:
        return create(ctx, user, submission)
    require_things(ctx, user, Right.UPDATE_EXPERIMENT, "experiment", [experiment_id])
    return _read_existing(ctx, experiment_id)
