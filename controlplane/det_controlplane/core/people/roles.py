"""The rights, the roles that combine them, and the rights of a user."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from types import MappingProxyType


class Right(Enum):
    """Permissions under Determined's names, without their prefix."""

    VIEW_WORKSPACE = "VIEW_WORKSPACE"
    VIEW_PROJECT = "VIEW_PROJECT"
    VIEW_EXPERIMENT_METADATA = "VIEW_EXPERIMENT_METADATA"
    VIEW_EXPERIMENT_ARTIFACTS = "VIEW_EXPERIMENT_ARTIFACTS"
    VIEW_NSC = "VIEW_NSC"
    VIEW_MODEL_REGISTRY = "VIEW_MODEL_REGISTRY"
    VIEW_TEMPLATES = "VIEW_TEMPLATES"
    VIEW_WORKSPACE_CONFIG_POLICIES = "VIEW_WORKSPACE_CONFIG_POLICIES"
    CREATE_EXPERIMENT = "CREATE_EXPERIMENT"
    UPDATE_EXPERIMENT = "UPDATE_EXPERIMENT"
    UPDATE_EXPERIMENT_METADATA = "UPDATE_EXPERIMENT_METADATA"
    DELETE_EXPERIMENT = "DELETE_EXPERIMENT"
    CREATE_PROJECT = "CREATE_PROJECT"
    UPDATE_PROJECT = "UPDATE_PROJECT"
    DELETE_PROJECT = "DELETE_PROJECT"
    CREATE_MODEL_REGISTRY = "CREATE_MODEL_REGISTRY"
    EDIT_MODEL_REGISTRY = "EDIT_MODEL_REGISTRY"
    DELETE_MODEL_REGISTRY = "DELETE_MODEL_REGISTRY"
    DELETE_MODEL_VERSION = "DELETE_MODEL_VERSION"
    CREATE_TEMPLATES = "CREATE_TEMPLATES"
    UPDATE_TEMPLATES = "UPDATE_TEMPLATES"
    DELETE_TEMPLATES = "DELETE_TEMPLATES"
    EDIT_WEBHOOKS = (
        "EDIT_WEBHOOKS"  # also required to list webhooks, because their URLs are often secret
    )
    CREATE_NSC = "CREATE_NSC"
    UPDATE_NSC = "UPDATE_NSC"
    UPDATE_WORKSPACE = "UPDATE_WORKSPACE"
    DELETE_WORKSPACE = "DELETE_WORKSPACE"
    MODIFY_WORKSPACE_CONFIG_POLICIES = "MODIFY_WORKSPACE_CONFIG_POLICIES"
    ASSIGN_ROLES = "ASSIGN_ROLES"
    # The following rights apply to the whole cluster.
    CREATE_WORKSPACE = "CREATE_WORKSPACE"
    UPDATE_AGENTS = "UPDATE_AGENTS"
    VIEW_CLUSTER_USAGE = "VIEW_CLUSTER_USAGE"
    VIEW_MASTER_LOGS = "VIEW_MASTER_LOGS"
    VIEW_MASTER_CONFIG = "VIEW_MASTER_CONFIG"
    UPDATE_MASTER_CONFIG = "UPDATE_MASTER_CONFIG"
    MODIFY_GLOBAL_CONFIG_POLICIES = "MODIFY_GLOBAL_CONFIG_POLICIES"
    MODIFY_RP_WORKSPACE_BINDINGS = "MODIFY_RP_WORKSPACE_BINDINGS"
    ADMINISTRATE_USER = "ADMINISTRATE_USER"
    UPDATE_GROUP = "UPDATE_GROUP"

    @property
    def of_workspaces(self) -> bool:
        """Return whether the right can be given for one workspace."""
        return self not in OF_CLUSTER


_READING = frozenset(right for right in Right if right.name.startswith("VIEW_"))
OF_CLUSTER = frozenset(list(Right)[list(Right).index(Right.CREATE_WORKSPACE) :])
_VIEWER = _READING - OF_CLUSTER
_INTERACTIVE = frozenset({Right.CREATE_NSC, Right.UPDATE_NSC})
# A user with this right may also change the objects of other users in the workspace.
PRESIDING = Right.ASSIGN_ROLES
_PRESIDENTS = frozenset({
    Right.UPDATE_WORKSPACE, Right.DELETE_WORKSPACE, Right.MODIFY_WORKSPACE_CONFIG_POLICIES, PRESIDING,
})  # fmt: skip
_EDITOR = frozenset(Right) - OF_CLUSTER - _PRESIDENTS


@dataclass(frozen=True, slots=True)
class Role:
    id: int  # the number in the API
    name: str
    rights: frozenset[Right]
    meaning: str

    @property
    def of_workspaces(self) -> bool:
        """Return whether the role can be given for one workspace."""
        return self.rights.isdisjoint(OF_CLUSTER)


ROLES: Mapping[str, Role] = MappingProxyType({
    role.name: role
    for role in (
        Role(1, "ClusterAdmin", frozenset(Right), "manage everything, including accounts and roles"),
        Role(2, "WorkspaceAdmin", frozenset(Right) - OF_CLUSTER,
             "manage a workspace, its roles and the objects of all its users"),
        Role(3, "WorkspaceCreator", frozenset({Right.CREATE_WORKSPACE}), "create workspaces and manage them"),
        Role(4, "Viewer", _VIEWER, "view everything in a workspace"),
        Role(5, "Editor", _EDITOR, "view everything; edit experiments, projects, models, templates and webhooks"),
        Role(6, "EditorRestricted", _EDITOR - _INTERACTIVE,
             "edit as an Editor, without notebooks, shells and commands"),
        Role(7, "AgentOperator", frozenset({
            Right.UPDATE_AGENTS, Right.VIEW_CLUSTER_USAGE, Right.VIEW_MASTER_LOGS, Right.MODIFY_RP_WORKSPACE_BINDINGS,
        }), "manage agents, machines and pools, and view their costs"),
    )
})  # fmt: skip
BY_ID: Mapping[int, Role] = MappingProxyType({role.id: role for role in ROLES.values()})
CLUSTER_ADMIN, WORKSPACE_ADMIN = ROLES["ClusterAdmin"], ROLES["WorkspaceAdmin"]

_FOR_TASKS = frozenset({Right.CREATE_WORKSPACE, Right.VIEW_CLUSTER_USAGE})
CLUSTER = 0  # stands for the whole cluster in place of a workspace id


@dataclass(frozen=True, slots=True)
class Grants:
    """The rights of a caller: in the whole cluster, and in single workspaces."""

    everywhere: frozenset[Right]
    by_workspace: Mapping[int, frozenset[Right]]

    def has(self, right: Right, workspace_id: int = CLUSTER) -> bool:
        return right in self.everywhere or right in self.by_workspace.get(workspace_id, ())

    def somewhere(self, right: Right) -> bool:
        return right in self.everywhere or any(right in r for r in self.by_workspace.values())

    def workspaces(self, right: Right) -> tuple[int, ...] | None:
        """Return the workspaces in which the caller has a right. None means all workspaces."""
        if right in self.everywhere:
            return None
        return tuple(sorted(id for id, rights in self.by_workspace.items() if right in rights))

    def for_task(self) -> "Grants":
        """Return the rights of a task's code, which acts for its owner. It gets no rights of administrators."""
        admin_rights = _PRESIDENTS | OF_CLUSTER - _FOR_TASKS
        own = {id: rights - admin_rights for id, rights in self.by_workspace.items()}
        return replace(self, everywhere=self.everywhere - admin_rights, by_workspace=own)


# Without roles, everyone is an editor everywhere, except for these rights. The services check the actions that are
# reserved for owners.
ADMINISTRATORS_ONLY = frozenset({
    PRESIDING, Right.UPDATE_AGENTS, Right.VIEW_MASTER_CONFIG, Right.UPDATE_MASTER_CONFIG,
    Right.MODIFY_GLOBAL_CONFIG_POLICIES, Right.MODIFY_RP_WORKSPACE_BINDINGS, Right.ADMINISTRATE_USER,
    Right.UPDATE_GROUP,
})  # fmt: skip
OPEN = Grants(frozenset(Right) - ADMINISTRATORS_ONLY, MappingProxyType({}))
ALL = Grants(frozenset(Right), MappingProxyType({}))


@lru_cache(maxsize=1024)
def grants_of(assigned: tuple[tuple[str, int], ...], *, admin: bool) -> Grants:
    """Return the rights from roles, each assigned for a workspace or the cluster. Unknown roles give no rights."""
    if admin or (CLUSTER_ADMIN.name, CLUSTER) in assigned:
        return ALL
    by_workspace: dict[int, frozenset[Right]] = {}
    for name, workspace_id in assigned:
        rights = ROLES[name].rights if name in ROLES else frozenset[Right]()
        by_workspace[workspace_id] = by_workspace.get(workspace_id, frozenset()) | rights
    everywhere = by_workspace.pop(CLUSTER, frozenset())
    return Grants(everywhere, MappingProxyType(by_workspace))


def roles_with(right: Right) -> Iterable[str]:
    """Return the names of the roles that have a right."""
    return (role.name for role in ROLES.values() if right in role.rights)
