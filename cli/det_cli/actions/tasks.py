"""Tasks that hold or wait for slots now."""

import argparse
from typing import Any

from det_cli.connection import V1, connect
from det_cli.render import Column, show
from det_cli.times import local

_BEFORE: tuple[Column, ...] = (
    ("Task ID", lambda t: t["taskId"]),
    ("Allocation ID", lambda t: t["allocationId"]),
    ("Name", lambda t: t["name"]),
    ("Slots Needed", lambda t: t["slotsNeeded"]),
    ("Registered Time", lambda t: local(t.get("registeredTime"))),
    ("Agent", lambda t: _agents(t)),
)
_PRIORITY: tuple[Column, ...] = (
    ("Priority", lambda t: t["priority"] if t.get("schedulerType") == "priority" else "N/A"),
)
_AFTER: tuple[Column, ...] = (
    ("Resource Pool", lambda t: t.get("resourcePool")),
    ("Ports", lambda t: ", ".join(str(p["port"]) for p in t.get("proxyPorts") or [])),
)


def _agents(task: dict[str, Any]) -> str:
    found = {a for r in task.get("resources") or [] for a in r.get("agentDevices") or {}}
    return ", ".join(sorted(found)) or "unassigned"


def list_(args: argparse.Namespace) -> None:
    found = connect(args).get(V1 + "/tasks")["allocationIdToSummary"] or {}
    tasks = sorted(found.values(), key=lambda t: (t.get("registeredTime") or "", t["allocationId"]))
    by_priority = any(t.get("schedulerType") == "priority" for t in tasks)
    show(args, _BEFORE + (_PRIORITY if by_priority else ()) + _AFTER, tasks, found)


def cleanup_logs(args: argparse.Namespace) -> None:
    answer = connect(args).post(V1 + "/cleanup_logs")
    print(f"Deleted {answer['removedCount']} log lines")
