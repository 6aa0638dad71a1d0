"""The rule of a route: the rights that its caller needs, and the permissions of a task's token.

Each route states its rule in its record: `require(in_path(Right.DELETE_EXPERIMENT, "experiment", "experimentId"),
task=TaskRule.OWN_EXPERIMENT)`. A rule without needs only requires a signed-in user.

A task acts as its owner, because its code registers models and creates experiments. It cannot report for other
tasks, change experiments of other users, or manage accounts and the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from det_controlplane.core.people.roles import Right


class TaskRule(Enum):
    """The access of a task's token to a route."""

    READ = "read"  # The task may read everything that its owner may read.
    AS_OWNER = "owner"  # The task may do everything that its owner may do.
    OWN_TRIAL = "trial"  # Only for its own trial, or for an unmanaged trial of its owner.
    OWN_EXPERIMENT = "experiment"  # Only for experiments of its owner.
    OWN_TASK = "task"  # Only for tasks of its owner.
    BY_SERVICE = "service"  # The service decides by the objects that the body names.
    NEVER = "never"


class NeedScope(Enum):
    """The place in which a needed right must be held."""

    NAMED = "named"
    CLUSTER = "cluster"
    SOMEWHERE = "somewhere"
    LISTED = "listed"
    SERVICE = "service"


# The kinds of objects that a request can name, with the right to see each kind.
KINDS: Mapping[str, Right] = {
    "workspace": Right.VIEW_WORKSPACE,
    "project": Right.VIEW_PROJECT,
    "project-key": Right.VIEW_PROJECT,
    "experiment": Right.VIEW_EXPERIMENT_METADATA,
    "experiment-external": Right.VIEW_EXPERIMENT_METADATA,
    "trial": Right.VIEW_EXPERIMENT_METADATA,
    "task": Right.VIEW_EXPERIMENT_METADATA,
    "allocation": Right.VIEW_EXPERIMENT_METADATA,
    "checkpoint": Right.VIEW_EXPERIMENT_METADATA,
    "job": Right.VIEW_EXPERIMENT_METADATA,
    "model": Right.VIEW_MODEL_REGISTRY,
    "template": Right.VIEW_TEMPLATES,
}
# Tasks without an experiment (notebooks, commands …) require these rights instead of the experiment rights.
OF_TASKS: Mapping[Right, Right] = {
    Right.VIEW_EXPERIMENT_METADATA: Right.VIEW_NSC,
    Right.VIEW_EXPERIMENT_ARTIFACTS: Right.VIEW_NSC,
}
_FROM_PATH = "{kind}"  # the path contains the kind


@dataclass(frozen=True, slots=True)
class Need:
    right: Right
    of: NeedScope
    kind: str = ""
    place: str = ""  # path, query or body
    names: tuple[str, ...] = ()  # the parameter, or the path of fields to the names in the body

    def kind_of(self, params: Mapping[str, str]) -> str:
        return params.get("kind", "") if self.kind == _FROM_PATH else self.kind


@dataclass(frozen=True, slots=True)
class Rule:
    needs: tuple[Need, ...]
    task: TaskRule
    own: bool  # also accepts a token that is limited to the task itself
    session: bool  # rejects access tokens, unless the cluster lets them administer
    report: bool  # for managed trials and allocations: accepts only their tasks, their owner and administrators


def require(
    *needs: Need, task: TaskRule, own: bool = False, session: bool = False, report: bool = False
) -> Rule:
    """Return the rule of a route.

    `own`: the route also accepts a token that is limited to the task itself. `session`: the route manages people, so
    it requires a sign-in, or an access token if the cluster allows these. `report`: the route reports for the trial or
    changes the allocation in its path. Only tasks of the trial or the allocation, its owner and administrators may
    call it. Unmanaged trials are open to everybody with the right."""
    return Rule(needs, task, own, session, report)


def in_path(right: Right, kind: str, parameter: str) -> Need:
    """Need a right in the workspace of the object that a parameter of the path names."""
    return Need(right, NeedScope.NAMED, kind, "path", (parameter,))


def in_query(right: Right, kind: str, parameter: str) -> Need:
    """Need a right in the workspaces of the objects that the query names; none if the query names none."""
    return Need(right, NeedScope.NAMED, kind, "query", (parameter,))


def in_body(right: Right, kind: str, field: str) -> Need:
    """Need a right in the workspaces of the objects in a field of the body, such as `checkpoints.uuid`.

    If the body does not contain the field, this need is met."""
    return Need(right, NeedScope.NAMED, kind, "body", tuple(field.split(".")))


def in_cluster(right: Right) -> Need:
    """Need a right in the whole cluster."""
    return Need(right, NeedScope.CLUSTER)


def in_any_workspace(right: Right) -> Need:
    """Need a right in any workspace."""
    return Need(right, NeedScope.SOMEWHERE)


def in_listing(right: Right) -> Need:
    """Limit the answer, or a change of many objects, to the workspaces in which the caller has the right."""
    return Need(right, NeedScope.LISTED)


def by_service(right: Right) -> Need:
    """Leave the check of a right to the use case."""
    return Need(right, NeedScope.SERVICE)
