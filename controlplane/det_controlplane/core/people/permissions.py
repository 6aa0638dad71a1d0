"""Return the rule of a route: the rights that its caller needs, and the permissions of a task's token.

`permission_table.TABLE` has a row for each route: method, path, rule for tasks, needs.

A need is `RIGHT@subject,subject`: a right in the workspaces of the named objects. A subject is `kind:source`, such as
`experiment:id` (of the path), `trial:query.trialIds` or `checkpoint:body.checkpoints.uuid`. If the request does not
contain the source, the subject needs no right. A subject can also be `cluster` (the right must hold everywhere),
`somewhere` (in any workspace), `listed` (the answer or change is limited to workspaces with the right) or `service`
(the use case checks the right). The need `everybody` only requires a signed-in user.

A task acts as its owner, because its code registers models and creates experiments. It cannot report for other
tasks, change experiments of other users, or manage accounts and the cluster. With `+own`, a route also accepts a
token that is limited to the task itself.

With `+session`, a route manages people: it requires a sign-in, or an access token if the cluster allows these.

With `+report`, a route reports for the trial or changes the allocation in its path. Only tasks of the trial or the
allocation, its owner and administrators may call it. Unmanaged trials are open to everybody with the right."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache

from det_controlplane.core.people.roles import Right
from det_controlplane.core.permission_table import TABLE

_V1 = "/api/v1/"


class TaskRule(Enum):
    """The rules for tasks, as the table names them."""

    READ = "read"  # what its owner may read
    AS_OWNER = "owner"  # what its owner may do
    OWN_TRIAL = "trial"  # for its own trial, or an unmanaged one of its owner
    OWN_EXPERIMENT = "experiment"  # for experiments of its owner
    OWN_TASK = "task"  # for tasks of its owner
    BY_SERVICE = "service"  # what the request names in its body decides
    NEVER = "never"


class NeedScope(Enum):
    """The place in which a needed right must be held."""

    NAMED = "named"
    CLUSTER = "cluster"
    SOMEWHERE = "somewhere"
    LISTED = "listed"
    SERVICE = "service"


# What a request can name, with the right to see it.
KINDS: Mapping[str, Right] = {
    "workspace": Right.VIEW_WORKSPACE,
    "project": Right.VIEW_PROJECT,
    "project-or-all": Right.VIEW_PROJECT,  # 0 stands for the whole cluster
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
# Tasks of no experiment (notebooks, commands …) have rights of their own in place of those of experiments.
OF_TASKS: Mapping[Right, Right] = {
    Right.VIEW_EXPERIMENT_METADATA: Right.VIEW_NSC,
    Right.VIEW_EXPERIMENT_ARTIFACTS: Right.VIEW_NSC,
}
_FROM_PATH = "{kind}"  # the path itself has the kind


@dataclass(frozen=True, slots=True)
class Need:
    right: Right
    of: NeedScope
    kind: str = ""
    place: str = ""  # path, query or body
    names: tuple[str, ...] = ()  # the way to what is named there

    def kind_of(self, params: Mapping[str, str]) -> str:
        return params.get("kind", "") if self.kind == _FROM_PATH else self.kind


@dataclass(frozen=True, slots=True)
class Rule:
    needs: tuple[Need, ...]
    task: TaskRule
    own: bool  # also for a token that is limited to the task itself
    session: bool  # not for access tokens, unless the cluster lets them administer
    report: bool  # for a managed trial or an allocation: only from its tasks, its owner and administrators


@lru_cache(maxsize=512)
def rule_of(method: str, path: str) -> Rule | None:
    """Return the rule for a route, by its method and the path with its parameters' names."""
    below = path.removeprefix(_V1) if path.startswith(_V1) else path
    row = rows().get(("GET" if method == "HEAD" else method, below))
    if row is None:
        return None
    task, *needs = row.split()
    name, *marks = task.split("+")
    found = tuple(n for text in needs for n in _needs(text))
    return Rule(found, TaskRule(name), "own" in marks, "session" in marks, "report" in marks)


@cache
def rows() -> Mapping[tuple[str, str], str]:
    """Return the table by method and path; a process that answers one request parses one row."""
    split = (row.split(maxsplit=2) for row in TABLE.strip().splitlines())
    return {(method, path): rest for method, path, rest in split}


def _needs(text: str) -> tuple[Need, ...]:
    if text == "everybody":
        return ()
    right, _, subjects = text.partition("@")
    return tuple(_need(Right(right), subject) for subject in subjects.split(","))


def _need(right: Right, subject: str) -> Need:
    kind, colon, source = subject.partition(":")
    if not colon:
        return Need(right, NeedScope(subject))
    place, *names = source.split(".") if "." in source else ("path", source)
    return Need(right, NeedScope.NAMED, kind, place, tuple(names))
