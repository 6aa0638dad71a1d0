"""`det slot`: the slots of agents and their tasks."""

import argparse
from collections.abc import Iterator
from typing import Any

from det_cli.connection import V1, connect
from det_cli.render import Column, say, show

_FREE = "FREE"
_COLUMNS: tuple[Column, ...] = (
    ("Agent ID", lambda s: s["agent_id"]),
    ("Resource Pool", lambda s: s["resource_pools"]),
    ("Slot ID", lambda s: s["slot_id"]),
    ("Enabled", lambda s: s["enabled"]),
    ("Draining", lambda s: s["draining"]),
    ("Allocation ID", lambda s: s["allocation_id"]),
    ("Task Name", lambda s: s["task_name"]),
    ("Type", lambda s: s["type"]),
    ("Device", lambda s: s["device"]),
)


_NONE = "no agent with slots has joined the cluster"


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    agents = session.get(V1 + "/agents")["agents"]
    tasks = session.get(V1 + "/tasks")["allocationIdToSummary"] or {}
    owners = {r["containerId"]: t for t in tasks.values() for r in t.get("resources") or []}
    show(args, _COLUMNS, [row for agent in agents for row in _rows(agent, owners)], empty=_NONE)


def _rows(agent: dict[str, Any], owners: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for id, slot in sorted((agent.get("slots") or {}).items(), key=lambda kv: _order(kv[0])):
        container = slot.get("container")
        owner = owners.get(container["id"]) if container else None
        status = _FREE if container is None else "OCCUPIED"
        device = slot.get("device") or {}
        yield {
            "agent_id": agent["id"],
            "resource_pools": ", ".join(agent.get("resourcePools") or []),
            "slot_id": id,
            "enabled": slot.get("enabled", True),
            "draining": slot.get("draining", False),
            "allocation_id": owner["allocationId"] if owner else status,
            "task_name": owner["name"] if owner else status,
            "type": (device.get("type") or "").removeprefix("TYPE_").lower(),
            "device": device.get("brand", ""),
        }


def _order(id: str) -> tuple[int, str]:
    return (int(id) if id.isdigit() else -1, id)


def enable(args: argparse.Namespace) -> None:
    connect(args).post(f"{V1}/agents/{args.agent_id}/slots/{args.slot_id}/enable")
    say(f"Enabled slot {args.slot_id} of agent {args.agent_id}.")


def disable(args: argparse.Namespace) -> None:
    body = {"agentId": args.agent_id, "slotId": args.slot_id}
    connect(args).post(f"{V1}/agents/{args.agent_id}/slots/{args.slot_id}/disable", body)
    say(f"Disabled slot {args.slot_id} of agent {args.agent_id}.")
