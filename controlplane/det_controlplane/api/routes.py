"""The table of the API's modules by the first name of a path.

Modules are imported when a request needs them: a process that answers a few should not start with everything."""

from functools import cache
from importlib import import_module

from det_controlplane.api import openapi
from det_controlplane.api.router import Route

# A place is the first name below /api/v1, or the first of any other path.
_PLACES: dict[str, tuple[str, ...]] = {
    "/": ("cluster",),
    "/agents": ("agent_protocol", "agent_reports", "agent_wheel", "logs"),
    "/checkpoints": ("checkpoints",),
    "/debug": ("prometheus",),
    "/experiments": ("model_definitions", "previews"),
    "/health": ("cluster",),
    "/info": ("cluster",),
    "/prom": ("prometheus",),
    "/proxy": ("proxy",),
    "/resources": ("master",),
    "/stream": ("updates",),
    "/task-logs": ("logs",),
    "/tasks": ("tasks",),
    "agent-tokens": ("agents",),
    "agents": ("agents",),
    "allocations": ("allocations",),
    "audit": ("audit",),
    "auth": ("auth", "oidc"),
    "budgets": ("money",),
    "checkpoints": ("checkpoints",),
    "cleanup_logs": ("master",),
    "commands": ("interactive",),
    "config-policies": ("config_policies",),
    "contexts": ("model_definitions",),
    "costs": ("money",),
    "experiment": ("experiments",),
    "experiments-search": ("tables",),
    "experiments": ("experiments", "logs", "metric_curves", "model_definitions", "remote_search"),
    "generic-tasks": ("interactive",),
    "groups": ("groups",),
    "instances": ("machines",),
    "job-queues": ("jobs",),
    "job-queues-v2": ("jobs",),
    "k8s-resource-managers": ("workspaces",),
    "master": ("cluster", "master"),
    "me": ("auth",),
    "model": ("models",),
    "models": ("models",),
    "namespace-bindings": ("workspaces",),
    "notebooks": ("interactive",),
    "permissions": ("roles",),
    "preview-hp-search": ("previews",),
    "projects": ("projects", "tables"),
    "rented-pools": ("machines",),
    "resource-pools": ("agents", "workspaces"),
    "resources": ("master",),
    "roles": ("roles",),
    "runs": ("tables", "trials"),
    "shells": ("interactive",),
    "task": ("logs",),
    "tasks": ("interactive", "logs", "tasks"),
    "template": ("templates",),
    "templates": ("templates",),
    "tensorboards": ("interactive",),
    "tokens": ("tokens",),
    "trial-source-info": ("trials",),
    "trials": ("logs", "metric_curves", "metric_streams", "profiles", "trials"),
    "user": ("users",),
    "users": ("roles", "users"),
    "webhooks": ("webhooks",),
    "why": ("why",),
    "workspaces": ("projects", "workspaces"),
}
# In the order of the reference.
_MODULES = (
    "cluster", "auth", "oidc", "audit", "users", "groups", "tokens", "roles", "workspaces", "projects",
    "templates", "config_policies", "models", "master", "experiments", "model_definitions", "previews", "metric_curves",
    "metric_streams", "remote_search", "trials", "checkpoints", "tables", "profiles", "allocations",
    "tasks", "logs", "agents", "machines", "money", "prometheus", "jobs", "webhooks", "updates",
    "interactive", "proxy", "why", "agent_protocol", "agent_reports", "agent_wheel",
)  # fmt: skip


def place_of(path: str) -> str:
    names = path.strip("/").split("/", 3)
    below = names[:2] == ["api", "v1"] and len(names) > 2
    return names[2] if below else f"/{names[0]}"


def modules_at(place: str) -> tuple[str, ...]:
    return _PLACES.get(place, ())


def of_module(name: str) -> tuple[Route, ...]:
    found: tuple[Route, ...] = import_module(f"det_controlplane.api.{name}").ROUTES
    return found


def served() -> tuple[Route, ...]:
    return tuple(route for name in _MODULES for route in of_module(name))


DESCRIPTION = openapi.route_describing(served)


@cache
def every() -> tuple[Route, ...]:
    return (*served(), DESCRIPTION)
