"""Decide what the token of a task may do: one table from routes to rules, which tests read.

A task acts as its owner, because its code registers models and creates experiments; it does not report for
other tasks, does not change experiments of other users, and has nothing to do with accounts and the cluster itself."""

from collections.abc import Mapping
from enum import Enum

_V1 = "/api/v1/"


class TaskRule(Enum):
    READ = "what its owner may read"
    AS_OWNER = "what its owner may do"
    OWN_TRIAL = "for its own trial, or an unmanaged one of its owner"
    OWN_EXPERIMENT = "for experiments of its owner"
    BY_SERVICE = "what the request names in its body decides"
    NEVER = "nothing"


# By the first name of a path below /api/v1.
_PLACES: Mapping[str, TaskRule] = {
    "allocations": TaskRule.BY_SERVICE,
    "auth": TaskRule.AS_OWNER,
    "checkpoints": TaskRule.BY_SERVICE,
    "commands": TaskRule.AS_OWNER,
    "contexts": TaskRule.AS_OWNER,
    "experiments": TaskRule.AS_OWNER,
    "experiments-search": TaskRule.READ,
    "generic-tasks": TaskRule.AS_OWNER,
    "models": TaskRule.AS_OWNER,
    "notebooks": TaskRule.AS_OWNER,
    "preview-hp-search": TaskRule.READ,
    "projects": TaskRule.AS_OWNER,
    "runs": TaskRule.NEVER,  # actions on many at once
    "shells": TaskRule.AS_OWNER,
    "task": TaskRule.BY_SERVICE,
    "tasks": TaskRule.AS_OWNER,
    "template": TaskRule.AS_OWNER,
    "templates": TaskRule.AS_OWNER,
    "tensorboards": TaskRule.AS_OWNER,
    "trial-source-info": TaskRule.BY_SERVICE,
    "trials": TaskRule.OWN_TRIAL,
    "webhooks": TaskRule.NEVER,
    "workspaces": TaskRule.AS_OWNER,
    # Accounts, rights, agents, machines, money and the cluster: for people.
    "agent-tokens": TaskRule.NEVER,
    "agents": TaskRule.NEVER,
    "budgets": TaskRule.NEVER,
    "cleanup_logs": TaskRule.NEVER,
    "config-policies": TaskRule.NEVER,
    "groups": TaskRule.NEVER,
    "instances": TaskRule.NEVER,
    "job-queues": TaskRule.NEVER,
    "master": TaskRule.NEVER,
    "namespace-bindings": TaskRule.NEVER,
    "rented-pools": TaskRule.NEVER,
    "resource-pools": TaskRule.NEVER,
    "roles": TaskRule.NEVER,
    "tokens": TaskRule.NEVER,
    "users": TaskRule.NEVER,
}
_EXCEPTIONS: Mapping[tuple[str, str], TaskRule] = {
    ("POST", "/task-logs"): TaskRule.BY_SERVICE,
    ("POST", f"{_V1}trials"): TaskRule.BY_SERVICE,
    ("PUT", f"{_V1}trials"): TaskRule.BY_SERVICE,
    ("POST", f"{_V1}trials/{{trialId}}/kill"): TaskRule.OWN_EXPERIMENT,
    ("PUT", f"{_V1}trials/{{trialId}}/retain_logs"): TaskRule.OWN_EXPERIMENT,
    ("POST", f"{_V1}runs"): TaskRule.READ,
    ("POST", f"{_V1}runs/start"): TaskRule.AS_OWNER,
    ("POST", f"{_V1}runs/{{runId}}/metadata"): TaskRule.OWN_TRIAL,
    ("POST", f"{_V1}experiments/continue"): TaskRule.NEVER,
    ("POST", f"{_V1}groups/search"): TaskRule.READ,
    ("POST", f"{_V1}webhooks/custom"): TaskRule.AS_OWNER,
    # Asking what to do next is part of doing it: the answer lets a trial rest.
    ("GET", f"{_V1}trials/{{trialId}}/searcher/operation"): TaskRule.OWN_TRIAL,
}
# Reading is no part of it, but what only administrators see is not shown to their tasks either.
_READING = frozenset({"GET", "HEAD"})

# What `environment.det_token: task` leaves: what the harness needs for its own trial, and no more.
_NARROW: Mapping[str, str] = {
    "allocations": "GET POST",
    "checkpoints": "GET POST PATCH",
    "experiments": "GET",
    "master": "GET",
    "me": "GET",
    "notebooks": "PUT",
    "runs": "GET POST",
    "task": "POST",
    "tasks": "GET",
    "trial-source-info": "POST",
    "trials": "GET POST PATCH",
    "webhooks": "POST",
}
# What all have in common is listed there, not what is one task's.
_LISTED = frozenset({"experiments", "tasks", "trials"})


def of_task(method: str, path: str) -> TaskRule:
    """Return the rule for a route, by its method and the path with its parameters' names."""
    exception = _EXCEPTIONS.get((method, path))
    if exception is not None:
        return exception
    if method in _READING:
        return TaskRule.READ
    if "{projectId}/experiments/" in path:
        return TaskRule.NEVER  # actions on many experiments at once
    rule = _PLACES.get(_place(path), TaskRule.NEVER)
    if rule is TaskRule.AS_OWNER and _place(path) == "experiments" and "{" in path:
        return rule if "external" in path else TaskRule.OWN_EXPERIMENT
    return rule


def is_narrow(method: str, path: str) -> bool:
    """Return whether a task may call a route that has no rights but for itself."""
    if path == "/task-logs":
        return True
    place = _place(path)
    if place in _LISTED and "{" not in path:
        return False
    return ("GET" if method == "HEAD" else method) in _NARROW.get(place, "").split()


def _place(path: str) -> str:
    return path.removeprefix(_V1).split("/")[0] if path.startswith(_V1) else path


def is_listed(method: str, path: str) -> bool:
    """Return whether somebody decided about a route."""
    return method in _READING or (method, path) in _EXCEPTIONS or _place(path) in _PLACES
