"""Check a caller against the rule of a route, before a use case sees the request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from det_controlplane.core.numerals import whole
from det_controlplane.core.people.permissions import KINDS, OF_TASKS, Need, NeedScope, Rule
from det_controlplane.core.people.roles import OPEN, PRESIDING, Grants, Right, roles_with
from det_controlplane.db.people import ownership, workspaces
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing
from det_controlplane.services.identity import task_rights
from det_controlplane.services.identity.rights import require_sign_in
from det_controlplane.services.principal import User

Names = Callable[[Need], Sequence[object]]  # names from the request, as the client wrote them
_UUIDS = ("checkpoint", "job")
_TEXTS = ("project-key", "experiment-external", "task", "allocation", "model", "template")
UNCATEGORIZED = 1  # the workspace and project for requests that name none
_ALL = ("0", "-1")  # where a project or workspace could be named
_DEEDS = {
    Right.UPDATE_AGENTS: "take agents, slots and machines in and out of service",
    Right.UPDATE_GROUP: "manage groups",
    Right.ADMINISTRATE_USER: "manage users",
    Right.VIEW_MASTER_CONFIG: "see the cluster's configuration",
    Right.UPDATE_MASTER_CONFIG: "change the cluster's settings",
    Right.MODIFY_GLOBAL_CONFIG_POLICIES: "set config policies of the cluster",
    Right.MODIFY_RP_WORKSPACE_BINDINGS: "bind pools to workspaces and change access to pools",
}


@dataclass(frozen=True, slots=True)
class AuthorizedCaller:
    """A caller, and the workspaces to which the answer is limited; None stands for all of them."""

    user: User
    within: tuple[int, ...] | None


def admit(
    ctx: Context, user: User, rule: Rule, params: Mapping[str, str], names: Names
) -> AuthorizedCaller:
    """Allow or refuse a request. Objects that the caller may not see are reported as missing."""
    within: tuple[int, ...] | None = None
    presides: list[bool] = []
    for need in rule.needs:
        if need.of is NeedScope.NAMED:
            kind = need.kind_of(params)
            if user.narrow:
                _require_own(ctx, user, need, kind, names(need))
            if kind not in KINDS or _holds_everywhere(user.grants, need.right, kind):
                presides.append(PRESIDING in user.grants.everywhere)
            elif objects := _list_other_objects(ctx, user, rule, need.right, kind, names(need)):
                presides.append(require_things(ctx, user, need.right, kind, objects))
        elif need.of is NeedScope.LISTED:
            within = user.grants.workspaces(need.right)
        elif need.of is NeedScope.CLUSTER:
            require_in(user, need.right, None)
        elif need.of is NeedScope.SOMEWHERE and not user.grants.somewhere(need.right):
            raise _forbidden(user, need.right, "in any workspace")
    if rule.session:
        require_sign_in(user, "manage accounts, groups, roles and tokens")
    over_all = any(presides) and all(presides) and user.allocation_id is None
    return AuthorizedCaller(replace(user, presides=True) if over_all else user, within)


def require_in(user: User, right: Right, workspace_id: int | None) -> None:
    """Require a right in a workspace that the caller has named; None: in the whole cluster."""
    if workspace_id is None:
        if right not in user.grants.everywhere:
            raise _forbidden(user, right, "in the cluster")
    elif workspace_id == UNCATEGORIZED and not user.grants.has(right, workspace_id):
        raise Forbidden(
            f"user {user.username} lacks {right.value} in workspace Uncategorized, where all goes that names no other:"
            " name a workspace of yours by --workspace-name, for an experiment a project by --project_id or by"
            " workspace and project in its configuration"
        )
    elif not user.grants.has(Right.VIEW_WORKSPACE, workspace_id):
        raise Missing(f"workspace {workspace_id} not found")
    elif not user.grants.has(right, workspace_id):
        raise _forbidden(user, right, f"in workspace {workspace_id}")


def require_things(
    ctx: Context, user: User, right: Right, kind: str, names: Iterable[object]
) -> bool:
    """Require a right on each of some things; return whether the caller administrates the workspaces of all."""
    if _holds_everywhere(user.grants, right, kind):
        return PRESIDING in user.grants.everywhere
    texts = [text for name in names if (text := _readable(kind, name))]
    workspace_ids = _workspaces(ctx, user, kind, texts)
    for name in texts:
        workspace_id = workspace_ids.get(name)
        view_right, required_right = _rights_for(ctx, user, right, kind, name, workspace_id)
        if workspace_id is None or not user.grants.has(view_right, workspace_id):
            raise Missing(f"{kind.partition('-')[0]} {name} not found")
        if not user.grants.has(required_right, workspace_id):
            where = f"in workspace {_workspace_name(ctx, user, workspace_id)}"
            there = "" if kind == "workspace" else f", where {kind} {name} is"
            raise _forbidden(user, required_right, f"{where}{there}")
    return bool(texts) and all(user.grants.has(PRESIDING, workspace_ids[name]) for name in texts)


def _workspace_name(ctx: Context, user: User, workspace_id: int) -> str:
    """Return how a refusal names a workspace: by its number where the caller may not see it."""
    names: dict[int, str] = {}
    if user.grants.has(Right.VIEW_WORKSPACE, workspace_id):
        with ctx.db.autocommit() as tx:
            names = workspaces.named(tx, [workspace_id], [])
    return repr(names[workspace_id]) if names else str(workspace_id)


def _rights_for(
    ctx: Context, user: User, right: Right, kind: str, name: str, workspace_id: int | None
) -> tuple[Right, Right]:
    """Return the right to see an object and the right for the request. Tasks without an experiment have their own
    rights."""
    of_experiment = KINDS[kind], right
    if kind not in ownership.WORK_KINDS or workspace_id is None:
        return of_experiment
    view_right, required_right = (OF_TASKS.get(r, r) for r in of_experiment)

    def has_each(rights: tuple[Right, Right]) -> list[bool]:
        return [user.grants.has(r, workspace_id) for r in rights]

    # Most roles have both rights or neither. Then the kind of the task does not matter.
    if has_each(of_experiment) == has_each((view_right, required_right)):
        return of_experiment
    alone = ownership.is_of_no_experiment(ctx.db, kind, name)
    return (view_right, required_right) if alone else of_experiment


def _workspaces(ctx: Context, user: User, kind: str, names: Sequence[str]) -> Mapping[str, int]:
    place = user.place
    if place is not None and (place.kind, [place.name]) == (kind, list(names)):
        return {} if place.workspace_id is None else {place.name: place.workspace_id}
    return ownership.workspaces_of(ctx.db, kind, names) if names else {}


def named_by_path(rule: Rule, params: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the kind and name of an object in the path, if its workspace can be read together with the caller."""
    for need in rule.needs:
        if need.of is NeedScope.NAMED and need.place == "path":
            kind = need.kind_of(params)
            name = _readable(kind, params[need.names[0]]) if kind in KINDS else ""
            return (kind, name) if name else None
    return None


def _list_other_objects(
    ctx: Context, user: User, rule: Rule, right: Right, kind: str, names: Sequence[object]
) -> list[object]:
    """Return the objects that a request names; for a task without itself, which no role of its owner takes away."""
    if kind in ("project", "workspace"):
        return [name for name in names if str(name) not in _ALL]
    if rule.own and user.allocation_id is not None:
        if kind == "checkpoint":
            own = _own_checkpoints(ctx, user, right, names)
            return [name for name in names if _readable(kind, name) not in own]
        return [name for name in names if not task_rights.is_own(user, kind, name)]
    return list(names)


def _holds_everywhere(grants: Grants, right: Right, kind: str) -> bool:
    """Return whether no look at the workspace is needed: it could neither refuse nor give more."""
    rights = {right, KINDS[kind]}
    if kind in ownership.WORK_KINDS:
        rights |= {OF_TASKS.get(r, r) for r in rights}
    if not grants.everywhere.issuperset(rights):
        return False
    return PRESIDING in grants.everywhere or not grants.somewhere(PRESIDING)


def _require_own(ctx: Context, user: User, need: Need, kind: str, names: Sequence[object]) -> None:
    """Restrict a task with a narrow token to its own objects, even if its owner has more rights."""
    if kind == "checkpoint":
        own = _own_checkpoints(ctx, user, need.right, names)
        mine = all(_readable(kind, name) in own for name in names)
    else:
        mine = all(task_rights.is_own(user, kind, _readable(kind, name)) for name in names)
    if not mine:
        raise task_rights.only_for_itself(user)


def _own_checkpoints(ctx: Context, user: User, right: Right, names: Sequence[object]) -> set[str]:
    """Return the checkpoints of a task's own experiment; to look at also the one that its trial started from."""
    uuids = [uuid for name in names if (uuid := _readable("checkpoint", name))]
    if not uuids:
        return set()
    started = right is KINDS["checkpoint"]
    return ownership.checkpoints_of_task(
        ctx.db, uuids, user.experiment_id, user.trial_id, started=started
    )


def _readable(kind: str, name: object) -> str:
    """Return the name as stored, or "" if it is not a valid name. The use case rejects ""."""
    text = str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)
    if kind in _TEXTS:
        return text if "\0" not in text else ""
    if kind in _UUIDS:
        try:
            return str(UUID(text))
        except ValueError:
            return ""
    number = whole(text)
    return "" if number is None else str(number)


def _forbidden(user: User, right: Right, where: str) -> Forbidden:
    if user.grants is OPEN:
        action = _DEEDS.get(right, "do this")
        return Forbidden(
            f"only an administrator may {action}; you are signed in as {user.username}"
        )
    roles = ", ".join(roles_with(right))
    return Forbidden(
        f"user {user.username} lacks {right.value} {where}: it comes with one of the roles {roles}"
    )
