"""`python -m det_controlplane.api.permission_reference`: roles, rights and routes for docs/reference/permissions.md."""

from collections.abc import Iterable

from det_controlplane.core.people import permissions
from det_controlplane.core.people.roles import ADMINISTRATORS_ONLY, ROLES, Right

_HEAD = """# Permissions

Which roles there are, what each may do, and what every route needs; made from `core/people/roles.py` and
`core/permission_table.py` by `python -m det_controlplane.api.permission_reference`, and a test holds this page to them.
[People, groups and roles](../guides/people.md) tells how they are used.

They decide where the cluster's configuration says `security.authz.type: rbac`. With `basic`, the default, everybody who
is signed in has all rights but those marked *, which only administrators have; and only owners and administrators
delete experiments and checkpoints, and change workspaces, projects and model versions of their own.

## Roles
"""
_ROUTES = """
## Routes

A route needs the right in the workspaces of what it names. *Listed* means that it answers with, or reaches, what lies
in workspaces with the right; *cluster* that the right must hold everywhere; *somewhere* that it must hold in any
workspace; *by name* that the request decides, as the project does into which an experiment is put. What a caller
may not see is answered like what is not there, by 404. Of tasks of no experiment, such as notebooks and commands,
VIEW_NSC is asked in place of VIEW_EXPERIMENT_METADATA and VIEW_EXPERIMENT_ARTIFACTS. Paths are below `/api/v1/` unless
they begin with a slash.

The last column is for the token of a task: what its owner may *read*; all its *owner* may; only its own *trial*, or
*experiments* or *tasks* of its owner; what its request names (*service*); *never*.
With *own*, also for `environment.det_token: task`.
With *session*, the route manages people: no access token is good for it, also not an administrator's, unless
`security.token.administers` says so.
With *report*, the route reports for a trial or changes an allocation. Only the tasks, the owner and administrators may
call it, unless the trial is unmanaged.

| method | path | right | of | task |
|---|---|---|---|---|
"""
_WORDS = {"service": "by name"}


def page() -> str:
    roles = [f"| `{r.name}` | {_scope(r.of_workspaces)} | {r.meaning} |" for r in ROLES.values()]
    rights = [f"| `{right.value}`{_star(right)} | {_holders(right)} |" for right in Right]
    rows = [row for key, rest in permissions.rows().items() for row in _rows(*key, rest)]
    return "\n".join([
        _HEAD, "| role | given | may |", "|---|---|---|", *roles, "", "## Rights", "",
        "| right | roles |", "|---|---|", *rights, _ROUTES + "\n".join(rows), "",
    ])  # fmt: skip


def _scope(of_workspaces: bool) -> str:
    return "for a workspace, or everywhere" if of_workspaces else "everywhere"


def _star(right: Right) -> str:
    return " *" if right in ADMINISTRATORS_ONLY else ""


def _holders(right: Right) -> str:
    return ", ".join(role.name for role in ROLES.values() if right in role.rights)


def _rows(method: str, path: str, rest: str) -> Iterable[str]:
    task, *needs = rest.split()
    task = task.replace("+", ", ")
    if needs == ["everybody"]:
        yield f"| {method} | `{path}` | – | everybody | {task} |"
        return
    for need in needs:
        right, _, subjects = need.partition("@")
        named = dict.fromkeys(_subject(subject) for subject in subjects.split(","))
        yield f"| {method} | `{path}` | `{right}` | {', '.join(named)} | {task} |"


def _subject(subject: str) -> str:
    kind = subject.partition(":")[0].strip("{}").removesuffix("-or-all")
    kind = "what is asked about" if kind == "kind" else kind.partition("-")[0]
    return _WORDS.get(kind, kind)


if __name__ == "__main__":
    print(page(), end="")
