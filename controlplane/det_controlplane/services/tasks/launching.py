"""Launching interactive tasks: read, merge and check the configuration, then one transaction makes all rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from det_controlplane.core import config as configs
from det_controlplane.core.config import ResolvedTask, TaskConfig
from det_controlplane.core.config import policies as policy_rules
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import TryAgain, Violated
from det_controlplane.db.experiments import contexts as context_rows
from det_controlplane.db.experiments import experiments, submissions
from det_controlplane.db.experiments.submissions import TargetWorkspace
from det_controlplane.db.scheduling import slots as slot_rows
from det_controlplane.db.schema.enums import WorkloadType
from det_controlplane.db.tasks import tasks
from det_controlplane.db.tasks.tasks import NewTask
from det_controlplane.services import sealing
from det_controlplane.services.code import model_definitions
from det_controlplane.services.code.model_definitions import File, Prepared
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState, require_open
from det_controlplane.services.identity import host_access
from det_controlplane.services.identity.route_rights import UNCATEGORIZED, require_in
from det_controlplane.services.money import spent_budgets
from det_controlplane.services.organization import config_policies, templates
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import capacity
from det_controlplane.services.tasks import access, lifecycle
from det_controlplane.services.tasks.programs import (
    LOWEST_PORTS,
    PORTS_OF_A_KIND,
    Program,
    ProgramContext,
)
from det_controlplane.services.use_case import Change, change

_SERVING = (TaskKind.NOTEBOOK, TaskKind.SHELL, TaskKind.TENSORBOARD)
_ADDRESSED = (TaskKind.NOTEBOOK, TaskKind.TENSORBOARD)  # by an address that opens by itself
# The same request may come twice at the same time: one of them makes the task, the other finds it.
_ONCE = "tasks_by_idempotency_key"


@dataclass(frozen=True, slots=True)
class Submission:
    kind: TaskKind
    config: Mapping[str, Any]
    files: Sequence[File] = ()
    context_id: UUID | None = None  # uploaded before
    shared_context_id: UUID | None = None  # of another task
    template: str = ""
    workspace_id: int = 0
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration that may be launched, and its warnings."""

    config: TaskConfig
    workspace: TargetWorkspace
    pool: Pool
    warnings: tuple[str, ...]
    exceeds_slots: bool


# Makes the program of a task from its configuration and place.
Build = Callable[[TaskConfig, ProgramContext], Program]


def repeated(ctx: Context, submission: Submission) -> str | None:
    """Return the task that an earlier try of the same request launched."""
    key = submission.idempotency_key
    return tasks.by_idempotency_key(ctx.db, key) if key else None


def resolve(ctx: Context, user: User, submission: Submission) -> Resolved:
    """Resolve the configuration of a task; raises InvalidConfig with every problem of it."""
    with _problems_of(submission.kind):
        return _resolve_submission(ctx, user, submission)


def _resolve_submission(ctx: Context, user: User, submission: Submission) -> Resolved:
    workspace = _workspace(ctx, user, submission.workspace_id or UNCATEGORIZED)
    submitted: dict[str, Any] = dict(sealing.completed(dict(submission.config), None))
    template = templates.to_merge(ctx, user, submission.template)
    with templates.naming(submission.template, submitted, template):
        resolved, pool = _merge_config(ctx, user, submission.kind, submitted, template, workspace)
    config = resolved.config
    host_access.require(ctx, user, config.to_json(), pool=pool.pool_name)
    limits = config_policies.merged(workspace.policies or [], WorkloadType.NTSC).constraints
    broken = policy_rules.check(config.to_json(), limits)
    if broken:
        raise InvalidConfig(broken)
    exceeds = _exceeds(ctx, pool, config.resources.slots)
    return Resolved(config, workspace, pool, resolved.warnings, exceeds)


def _merge_config(
    ctx: Context,
    user: User,
    kind: TaskKind,
    submitted: dict[str, Any],
    template: dict[str, Any] | None,
    workspace: TargetWorkspace,
) -> tuple[ResolvedTask, Pool]:
    pool, pool_problems = _pool(ctx, user, kind, submitted, template, workspace)
    sources = configs.task_sources_of(ctx.config, pool, template=template)
    name = configs.petname(ctx.random.seed())
    try:
        resolved = configs.resolve_task(kind, submitted, sources, name=name)
    except InvalidConfig as error:
        raise InvalidConfig([*pool_problems, *error.problems]) from error
    if pool_problems:
        raise InvalidConfig(pool_problems)
    return resolved, pool


@contextmanager
def _problems_of(kind: TaskKind) -> Iterator[None]:
    """Add the kind of the task to the message about an invalid configuration."""
    try:
        yield
    except InvalidConfig as e:
        name = "task" if kind is TaskKind.GENERIC else kind.value.lower()
        raise InvalidConfig(e.problems, what=f"{name} configuration") from e


def launch(
    ctx: Context, user: User, submission: Submission, resolved: Resolved, build: Build
) -> str:
    """Queue a task; return its id. Nothing is left behind when any part is refused."""
    with queued_task(ctx, user, submission, resolved, build) as (_, task_id):
        return task_id


@contextmanager
def queued_task(
    ctx: Context, user: User, submission: Submission, resolved: Resolved, build: Build
) -> Iterator[tuple[Change, str]]:
    """Queue a task and leave the transaction open for related rows."""
    _require_traffic(ctx, submission.kind)
    config, resources = resolved.config, resolved.config.resources
    task_id, job_id = str(ctx.random.uuid()), ctx.random.uuid()
    context = _context(ctx, user, submission)
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        capacity.keep_open(ctx, tx, resolved.pool.pool_name)
        place = ProgramContext(task_id, _port(ctx, tx, submission.kind), ctx.random.token())
        program = build(config, place)
        with _problems_of(submission.kind):
            parts = sealing.seal(ctx, program.stored(submission.kind, config))
        if context is not None and context.row is not None:
            context_rows.insert(tx, context.row, user.id, now)
        experiments.insert_job(
            tx, id=job_id, kind=submission.kind.value, name=config.description, pool=resolved.pool.pool_name,
            priority=resources.priority, weight=float(resources.weight), max_slots=resources.max_slots,
            user_id=user.id, workspace_id=resolved.workspace.workspace_id, now=now,
        )  # fmt: skip
        new = NewTask(
            id=task_id, kind=submission.kind, job_id=job_id,
            context_id=_context_id(submission, context),
            config=parts.shown, sealed=parts.secrets, proxies=program.proxies,
            access_key=access.key_of(place.token) if submission.kind in _ADDRESSED else None,
            idle_timeout_s=_idle_timeout(ctx, submission.kind, config),
            idempotency_key=submission.idempotency_key,
        )  # fmt: skip
        _insert(tx, new, now)
        if resources.slots:
            spent_budgets.require_task(ctx, tx, task_id)
        if submission.kind in _SERVING:
            changed.wake("provision")  # the provisioner starts a stopped relay
        lifecycle.request(
            changed, task_id, job_id, 1, resolved.pool.pool_name, resources.slots,
            preempt_timeout_s=config.preemption_timeout if submission.kind is TaskKind.GENERIC else None,
        )  # fmt: skip
        yield changed, task_id
    ctx.recorder.add_objects(f"{submission.kind.value.lower()} {task_id}")


def _require_traffic(ctx: Context, kind: TaskKind) -> None:
    """Refuse a task that no user could reach, because its machine would cost money for nothing."""
    if kind in _SERVING and not ctx.host.relay_for_agents:
        raise WrongState(
            f"this cluster carries no traffic to tasks, so nobody could reach a {kind.value.lower()}:"
            " its administrator starts a relay and names it by DET_RELAY_URL (docs/guides/relay.md)"
        )


def _insert(tx: Tx, new: NewTask, now: datetime) -> None:
    try:
        tasks.insert_task(tx, new, now)
    except Violated as e:
        if e.constraint == _ONCE:
            raise TryAgain(f"another request launched this task just now: {e}") from e
        raise


def _workspace(ctx: Context, user: User, workspace_id: int) -> TargetWorkspace:
    workspace = submissions.workspace(ctx.db, workspace_id)
    if workspace is None:
        raise Missing(f"workspace {workspace_id} not found")
    require_in(user, Right.CREATE_NSC, workspace_id)
    what = f"workspace {workspace_id}"
    if workspace.archived:
        raise Missing(f"{what} is archived: unarchive it, or choose another")
    require_open(what, archived=False, deleting=workspace.deleting)
    return workspace


def _pool(
    ctx: Context,
    user: User,
    kind: TaskKind,
    submitted: Mapping[str, Any],
    template: Mapping[str, Any] | None,
    workspace: TargetWorkspace,
) -> tuple[Pool, list[Problem]]:
    if kind is not TaskKind.TENSORBOARD:
        return capacity.pool_and_problems(ctx, submitted, template, workspace, user, "slots")
    resources = submitted.get("resources")
    without_slots = {**(resources if isinstance(resources, Mapping) else {}), "slots": 0}
    return capacity.pool_and_problems(
        ctx, {**submitted, "resources": without_slots}, template, workspace, user, "slots"
    )


def _exceeds(ctx: Context, pool: Pool, slots: int) -> bool:
    """Return whether no agent has so many slots now. Refuse a task that no agent will ever hold.

    Agents cannot grow, so that the setting launch_error makes no difference here."""
    too_large = capacity.too_large_task(ctx, pool, slots) if slots else None
    if too_large is not None:
        raise InvalidConfig([too_large])
    most = slot_rows.of_largest_agent(ctx.db, pool.pool_name)
    return bool(most and slots > most)


def _context(ctx: Context, user: User, submission: Submission) -> Prepared | None:
    if submission.context_id is not None:
        model_definitions.check_uploaded(ctx, user, submission.context_id)
        return None
    archive = model_definitions.archive(submission.files) if submission.files else b""
    return model_definitions.prepare(ctx, user.id, archive) if archive else None


def _port(ctx: Context, tx: Tx, kind: TaskKind) -> int:
    """Return a port that no other task serves on: tasks may share a machine, and with processes its network."""
    base = LOWEST_PORTS.get(kind)
    if base is None:
        return 0
    in_use = tasks.ports_in_use(tx) | ctx.config.reserved_ports
    start = ctx.random.seed()
    every = [base + (start + n) % PORTS_OF_A_KIND for n in range(PORTS_OF_A_KIND)]
    return next((port for port in every if port not in in_use), every[0])


def _idle_timeout(ctx: Context, kind: TaskKind, config: TaskConfig) -> float | None:
    """Return after how many seconds without use a task ends; None: never."""
    of_cluster = {
        TaskKind.NOTEBOOK: ctx.config.notebook_timeout,
        TaskKind.TENSORBOARD: ctx.config.tensorboard_timeout,
    }
    timeout = config.idle_timeout
    return of_cluster.get(kind) if timeout is None else timeout or None


def _context_id(submission: Submission, context: Prepared | None) -> UUID | None:
    own = submission.context_id if context is None else context.context_id
    return own or submission.shared_context_id
