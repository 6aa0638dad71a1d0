"""Creating an experiment: read, merge and check its configuration, then one transaction makes all its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from det_controlplane.core import config as configs
from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db import experiments
from det_controlplane.db.engine import TryAgain, Violated
from det_controlplane.db.sql import text
from det_controlplane.services import capacity, contexts, live, policies, warm_starts
from det_controlplane.services.context import Context
from det_controlplane.services.contexts import File
from det_controlplane.services.effects import Effects
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.experiments import start_search
from det_controlplane.services.principal import User

# The same request may come twice at the same time: one of them makes the experiment, the other finds it.
_ONCE = ("experiments_idempotency_key_key", "experiments_external_id_key")

_TEMPLATE = text("SELECT config FROM templates WHERE name = :name")
_PROJECT = text("""
    SELECT p.id, p.workspace_id, p.archived OR w.archived AS archived, p.state IS NOT NULL AS deleting, w.checkpoint_storage, w.default_compute_pool,
           w.default_aux_pool
    FROM projects p JOIN workspaces w ON w.id = p.workspace_id
    WHERE CASE WHEN cast(:id AS integer) IS NULL THEN lower(w.name) = lower(:workspace) AND lower(p.name) = lower(:project)
          ELSE p.id = :id END
""")
_PARENT = text("""
    SELECT e.context_id, p.archived OR w.archived AS archived FROM experiments e JOIN projects p ON p.id = e.project_id
    JOIN workspaces w ON w.id = p.workspace_id WHERE e.id = :id
""")
_POLICIES = text("""
    SELECT policy FROM config_policies WHERE workload_type = 'EXPERIMENT' AND workspace_id IN (0, :workspace_id)
    ORDER BY workspace_id DESC
""")


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


@dataclass(frozen=True, slots=True)
class Created:
    experiment_id: int | None  # None: only validated
    config: dict[str, Any]
    warnings: tuple[str, ...]
    exceeds_slots: bool = False


def create(ctx: Context, user: User, submission: Submission) -> Created:
    """Nothing is left behind when any part is refused."""
    submitted = configs.load_yaml(submission.config)
    with ctx.db.begin() as tx:
        repeated = _repeated(tx, submission)
        project = _project(tx, submission.project_id, submitted)
        template = _template(tx, submission.template)
        demanded = [r[0] for r in tx.rows(_POLICIES, {"workspace_id": project.workspace_id})]
        limits = policies.in_force(tx, project.workspace_id).constraints
    if repeated is not None:
        return _existing(ctx, repeated)
    resolved, pool, exceeds = _resolve(ctx, submission, submitted, project, template, demanded)
    config = resolved.config.to_json()
    broken = policy_rules.check(config, limits)
    if broken:
        raise InvalidConfig(broken)
    warm_starts.settle(ctx, config)
    if submission.validate_only:
        return Created(None, config, resolved.warnings, exceeds)
    if submission.context_id is not None:
        contexts.check_uploaded(ctx, submission.context_id)
    archive = contexts.archive(submission.files) if submission.files else b""
    row = contexts.prepare(ctx, archive) if archive else None
    try:
        experiment_id = _insert(ctx, user, submission, config, project, pool, row)
    except Violated as e:
        if e.constraint in _ONCE:
            raise TryAgain(f"another request made this experiment just now: {e}") from e
        raise
    return Created(experiment_id, config, resolved.warnings, exceeds)


def _repeated(tx: Any, submission: Submission) -> int | None:
    key = submission.idempotency_key
    return experiments.by_idempotency_key(tx, key) if key else None


def _existing(ctx: Context, experiment_id: int) -> Created:
    with ctx.db.begin() as tx:
        return Created(experiment_id, experiments.config(tx, experiment_id), ())


def _project(tx: Any, project_id: int, submitted: dict[str, Any]) -> Any:
    workspace, project = submitted.get("workspace"), submitted.get("project")
    by_name = project_id <= 1 and workspace and project
    params = {
        "id": None if by_name else max(project_id, 1),
        "workspace": str(workspace or ""),
        "project": str(project or ""),
    }
    row = tx.row(_PROJECT, params)
    if row is None:
        what = (
            f"project {project!r} of workspace {workspace!r}"
            if by_name
            else f"project {project_id}"
        )
        raise Missing(f"{what} not found")
    if row.archived:
        raise WrongState(f"project {row.id} is archived: unarchive it, or choose another")
    if row.deleting:
        raise WrongState(f"project {row.id} is being deleted: choose another")
    return row


def _template(tx: Any, name: str) -> dict[str, Any] | None:
    if not name:
        return None
    row = tx.row(_TEMPLATE, {"name": name})
    if row is None:
        raise Missing(f"template '{name}' not found")
    found: dict[str, Any] = row[0]
    return found


def _resolve(
    ctx: Context,
    submission: Submission,
    submitted: dict[str, Any],
    project: Any,
    template: dict[str, Any] | None,
    demanded: list[dict[str, Any]],
) -> tuple[configs.Resolved, str, bool]:
    seed = ctx.new_seed()
    pool, in_vain = _pool(ctx, submitted, template, project)
    invariants = tuple(p["invariant_config"] for p in demanded if p.get("invariant_config"))
    sources = configs.sources_of(
        ctx.config, pool, template=template, workspace_storage=project.checkpoint_storage,
        invariant_policies=invariants,
    )  # fmt: skip
    try:
        resolved = configs.resolve(
            submitted, sources, name=f"Experiment ({configs.petname(seed)})", seed=seed,
            managed=not submission.unmanaged,
        )  # fmt: skip
    except InvalidConfig as error:
        raise InvalidConfig([*in_vain, *error.problems]) from error
    if in_vain:
        raise InvalidConfig(in_vain)
    if submission.unmanaged:
        return resolved, pool.pool_name, False
    resources = resolved.config.resources
    exceeds = capacity.exceeds(ctx, pool.pool_name, resources.slots_per_trial)
    if exceeds and ctx.config.launch_error:
        most = capacity.of_pool(ctx, pool.pool_name)
        raise InvalidConfig(
            [
                Problem(
                    "resources.slots_per_trial",
                    capacity.sentence(resources.slots_per_trial, pool, most),
                )
            ]
        )
    return resolved, pool.pool_name, exceeds


def _pool(
    ctx: Context, submitted: dict[str, Any], template: dict[str, Any] | None, project: Any
) -> tuple[Pool, list[Problem]]:
    """The pool, or what is wrong with it and another one to find the other problems with."""
    try:
        return capacity.pool_of(ctx, submitted, template, project), []
    except InvalidConfig as error:
        return ctx.config.resource_pools[0], list(error.problems)


def _insert(
    ctx: Context,
    user: User,
    submission: Submission,
    config: dict[str, Any],
    project: Any,
    pool: str,
    context_row: dict[str, Any] | None,
) -> int:
    effects, now, job_id = Effects(ctx), ctx.now(), ctx.new_uuid()
    resources = config["resources"]
    with ctx.db.begin() as tx:
        context_id = submission.context_id
        if submission.parent_id is not None:
            parent = tx.row(_PARENT, {"id": submission.parent_id})
            if parent is None:
                raise Missing(f"experiment {submission.parent_id} not found")
            if parent.archived:
                raise WrongState(
                    f"experiment {submission.parent_id} cannot be forked: its project is archived"
                )
            context_id = parent.context_id
        elif context_row is not None:
            context_id = contexts.insert(ctx, tx, context_row, user.id)
        experiments.insert_job(
            tx, id=job_id, kind="EXPERIMENT", name=config["name"], pool=pool,
            priority=resources.get("priority"), weight=float(resources.get("weight") or 1),
            max_slots=resources.get("max_slots"), user_id=user.id,
            workspace_id=project.workspace_id, now=now,
        )  # fmt: skip
        state = ExperimentState.ACTIVE if submission.activate else ExperimentState.PAUSED
        retention = config.get("retention_policy") or {}
        new = experiments.NewExperiment(
            job_id=job_id, config=config, original_config=submission.config, name=config["name"],
            description=config.get("description") or "", labels=list(config.get("labels") or []),
            user_id=user.id, project_id=project.id, context_id=context_id,
            parent_id=submission.parent_id, unmanaged=submission.unmanaged,
            external_id=submission.external_id, seed=config["reproducibility"]["experiment_seed"],
            log_retention_days=retention.get("log_retention_days"),
            idempotency_key=submission.idempotency_key,
        )  # fmt: skip
        experiment_id = experiments.insert(tx, new, state, now)
        experiment = live.lock(ctx, tx, experiment_id, effects)
        if not submission.unmanaged:
            start_search(experiment)
        live.close(experiment)
    experiment.journal.keep()
    effects.announce()
    return experiment_id


_BY_EXTERNAL = text("SELECT id FROM experiments WHERE external_id = :id")


def put(ctx: Context, user: User, submission: Submission) -> Created:
    """Unmanaged experiments by a name of the user's: made once, found afterwards."""
    with ctx.db.begin() as tx:
        found = tx.value(_BY_EXTERNAL, {"id": submission.external_id})
    return create(ctx, user, submission) if found is None else _existing(ctx, int(found))
