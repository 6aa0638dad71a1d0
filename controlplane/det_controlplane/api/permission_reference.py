"""The page docs/reference/permissions.md: roles, rights, and rules of routes. scripts/route_pages.py writes it."""

from collections.abc import Iterable

from det_controlplane.api.router import Route
from det_controlplane.core.people.permissions import Need, NeedScope, Rule
from det_controlplane.core.people.roles import ADMINISTRATORS_ONLY, ROLES, Right

_HEAD = """# Permissions

This page lists the roles, their rights, and the rights that each route needs. `scripts/route_pages.py --write` makes it
from `core/people/roles.py` and the records of the routes, and a test compares them.
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
_V1 = "/api/v1/"


def page(routes: Iterable[Route]) -> str:
    roles = [f"| `{r.name}` | {_scope(r.of_workspaces)} | {r.meaning} |" for r in ROLES.values()]
    rights = [f"| `{right.value}`{_star(right)} | {_holders(right)} |" for right in Right]
    ordered = sorted(routes, key=lambda r: (r.path.removeprefix(_V1).split("/"), r.method))
    rows = [row for r in ordered if r.rule is not None for row in _rows(r, r.rule)]
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


def _rows(route: Route, rule: Rule) -> Iterable[str]:
    marks = [name for name in ("own", "session", "report") if getattr(rule, name)]
    task = ", ".join([rule.task.value, *marks])
    path = route.path.removeprefix(_V1)
    for right in dict.fromkeys(need.right for need in rule.needs):
        places = dict.fromkeys(_place(need) for need in rule.needs if need.right is right)
        yield f"| {route.method} | `{path}` | `{right.value}` | {', '.join(places)} | {task} |"
    if not rule.needs:
        yield f"| {route.method} | `{path}` | – | everybody | {task} |"


def _place(need: Need) -> str:
    if need.of is not NeedScope.NAMED:
        return "by name" if need.of is NeedScope.SERVICE else need.of.value
    kind = need.kind.strip("{}").removesuffix("-or-all").partition("-")[0]
    return "what is asked about" if kind == "kind" else kind
