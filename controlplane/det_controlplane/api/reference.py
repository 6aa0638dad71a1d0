"""The page docs/reference/api.md, which scripts/route_pages.py writes from the records of routes."""

from collections.abc import Iterable

from det_controlplane.api.router import Access, Route

_HEAD = """# API reference

This page lists every route. `scripts/route_pages.py --write` makes it from the records of the routes, and a test
compares them. The cluster serves the same list as OpenAPI 3 at `/api/v1/openapi.json`, and as
Swagger 2.0 at `/api/v1/api.swagger.json`. Both need no sign-in.

Bodies are JSON; names may be written in camelCase or snake_case. Callers sign in at `POST /api/v1/auth/login`
and send `Authorization: Bearer <token>`. A refusal is `{"error": {"code", "reason", "error"}}` with a sentence
that says what to do. Listings take `limit` (0: the default, -1: all, -2: only the count), `offset` (negative:
from the end), `sortBy` and `orderBy`. Streams send one JSON object a line: `{"result": …}`, or `{"error": …}`
as the last.

Who may call: *all* without signing in, *user* with a user's or task's token, *agent* with an agent's.

## A generated client

Generators of clients read `/api/v1/openapi.json`. The tests generate a Python client with
[openapi-python-client](https://pypi.org/project/openapi-python-client/) 0.29.1, and sign in, create, list, read metrics
and kill through it (`tests/api/test_generated_client.py`):

```sh
openapi-python-client generate --url $DET_MASTER/api/v1/openapi.json --output-path client --meta none
```

```python
from client import AuthenticatedClient, Client
from client.api.auth import post_auth_login
from client.api.experiments import get_experiments
from client.models import PostAuthLoginBody

body = PostAuthLoginBody(username="ada", password="…")
signed_in = post_auth_login.sync(client=Client(url), body=body)
api = AuthenticatedClient(url, token=signed_in.token)
for experiment in get_experiments.sync(client=api, limit=10).experiments:
    print(experiment.id, experiment.name, experiment.state)
```

The answers about agents, checkpoints, experiments, jobs, models, projects, sign-ins, tasks, trials, users and
workspaces have models. The other answers are untyped, and so are streams, which send one JSON object a line.
"""
_WHO = {
    Access.PUBLIC: "all",
    Access.USER: "user",
    Access.ADMIN: "admin",
    Access.AGENT: "agent",
    Access.AGENT_BY_HANDLER: "agent",
}


def page(listed: Iterable[Route]) -> str:
    groups: dict[str, list[Route]] = {}
    for route in listed:
        groups.setdefault(_group(route.path), []).append(route)
    sections = [_section(name, groups[name]) for name in sorted(groups)]
    return "\n".join([_HEAD, *sections])


def _section(name: str, routes: list[Route]) -> str:
    rows = [
        f"| {r.method} | `{r.path.replace('...', '')}` | {_WHO[r.access]} | {r.summary} |"
        for r in sorted(routes, key=lambda r: (r.path, r.method))
    ]
    return "\n".join(
        [f"## {name}", "", "| method | path | who | what |", "|---|---|---|---|", *rows, ""]
    )


def _group(path: str) -> str:
    if not path.startswith("/api/v1/"):
        return "Outside of /api/v1"
    return path.removeprefix("/api/v1/").partition("/")[0]
