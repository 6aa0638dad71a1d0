"""`det task list` and `describe`: running, queued and paused tasks."""

import argparse
from collections.abc import Iterator
from typing import Any

from determined.common.http import Session

from det_cli.actions import costs, task_resources
from det_cli.actions.interactive import whole_task_id
from det_cli.connection import V1, connect, pages
from det_cli.render import Column, local_time, print_object, show, state_text

_BEFORE: tuple[Column, ...] = (
    ("Task ID", lambda t: t["taskId"]),
    ("Allocation ID", lambda t: t["allocationId"]),
    ("Name", lambda t: t["name"]),
    ("Slots Needed", lambda t: t["slotsNeeded"]),
    ("Registered Time", lambda t: local_time(t.get("registeredTime"))),
    ("Agent", lambda t: _agents(t)),
)
_PRIORITY: tuple[Column, ...] = (
    ("Priority", lambda t: t["priority"] if t.get("schedulerType") == "priority" else "N/A"),
)
_AFTER: tuple[Column, ...] = (
    ("Resource Pool", lambda t: t.get("resourcePool")),
    ("Ports", lambda t: ", ".join(str(p["port"]) for p in t.get("proxyPorts") or [])),
    # Additional columns after the columns of Determined's client.
    ("Kind", lambda t: _kind(t)),
    ("State", lambda t: state_text(t.get("state"))),
    ("Parent", lambda t: t.get("parentId")),
)


_NONE = "no task that you may see is queued, running or paused"


def _agents(task: dict[str, Any]) -> str:
    agents = {a for r in task.get("resources") or [] for a in r.get("agentDevices") or {}}
    return ", ".join(sorted(agents)) or "unassigned"


def _kind(task: dict[str, Any]) -> str:
    """Return the kind of a task, as used in command names."""
    return str(task.get("taskType") or "").removeprefix("TASK_TYPE_").lower().replace("_", " ")


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    tasks_by_id = session.get(V1 + "/tasks")["allocationIdToSummary"] or {}
    paused = [_paused_row(t) for t in _generic(session) if t["state"] == "STATE_PAUSED"]
    tasks_by_id.update((t["taskId"], t) for t in paused)
    tasks = sorted(
        tasks_by_id.values(), key=lambda t: (t.get("registeredTime") or "", t["allocationId"])
    )
    by_priority = not tasks or any(t.get("schedulerType") == "priority" for t in tasks)
    show(
        args, _BEFORE + (_PRIORITY if by_priority else ()) + _AFTER, tasks, tasks_by_id, empty=_NONE
    )


def _generic(session: Session, **filters: Any) -> Iterator[dict[str, Any]]:
    return pages(session, "/generic-tasks", "tasks", filters)


def _paused_row(task: dict[str, Any]) -> dict[str, Any]:
    """Return the table row of a paused task, which has no allocation."""
    return {
        "taskId": task["id"], "allocationId": "", "name": task["description"], "taskType": "TASK_TYPE_GENERIC",
        "state": task["state"], "parentId": task["parentId"], "username": task["username"],
        "slotsNeeded": task["slots"],
        "registeredTime": task["startTime"], "resourcePool": task["resourcePool"], "priority": "",
    }  # fmt: skip


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    id = whole_task_id(session, args.task_id)
    task = session.get(f"{V1}/tasks/{id}")["task"]
    task["id"] = task["taskId"]
    costs.add(session, "tasks", [task])
    task["reasons"] = session.get(f"{V1}/why/task/{id}")["reasons"]
    if task["taskType"] == "TASK_TYPE_GENERIC":
        task["tree"] = list(_generic(session, treeOf=id))
    if args.format:
        print_object(args, task)
        return
    task["uses"] = [] if task.get("endTime") else task_resources.recent(session, id)
    for name, value in _details(task):
        print(f"{name + ':':<11}{value}".rstrip())
        for line in _tree(task, "", 0) if name == "Tree" else ():
            print(line)


def _details(task: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    allocations = task.get("allocations") or []
    yield "Task", f"{task['name']}, a {_kind(task)} task".replace("task task", "task")
    yield "Id", task["taskId"]
    yield "State", _state(task)
    for reason in () if task.get("endTime") else task["reasons"]:
        yield "Why", reason["sentence"]
    yield "Owner", task["username"]
    agents = sorted({a for run in allocations for a in run.get("agentIds") or []})
    yield "Machine", f"{', '.join(agents) or 'none yet'}, pool {task['resourcePool']}"
    if task["uses"]:
        yield "Uses", ", ".join(task["uses"])
    yield "Slots", max((run.get("slots") or 0 for run in allocations), default=0)
    yield "Started", local_time(task.get("startTime"))
    if task.get("endTime"):
        yield "Ended", local_time(task["endTime"])
        yield "Exit", task.get("exitStatus") or "unknown"
    yield "Runs", len(allocations)
    if task.get("costUsd"):
        yield "Cost", f"${task['costUsd']:.2f}, {task['slotHours']:.2f} slot hours"
    if len(task.get("tree") or []) > 1:
        yield "Tree", ""


def _state(task: dict[str, Any]) -> str:
    """Return the state of a generic task, or of the newest allocation for other kinds."""
    state = next((t["state"] for t in task.get("tree") or [] if t["id"] == task["taskId"]), "")
    runs = task.get("allocations") or [{"state": "STATE_QUEUED"}]
    return state_text(state or runs[0]["state"])


def _tree(task: dict[str, Any], above: str, depth: int) -> Iterator[str]:
    """Yield the lines of a task tree. Children are indented below their parent."""
    ids = {t["id"] for t in task["tree"]}
    for node in task["tree"]:
        parent = node["parentId"] or ""
        if (parent if parent in ids else "") == above:
            mark = "*" if node["id"] == task["taskId"] else " "
            line = f"{'  ' * depth}{node['id']}  {state_text(node['state'])}  {node['description']}"
            yield f"  {mark} {line}"
            yield from _tree(task, node["id"], depth + 1)


def cleanup_logs(args: argparse.Namespace) -> None:
    response = connect(args).post(V1 + "/cleanup_logs")
    print(f"Deleted {response['removedCount']} log lines")
