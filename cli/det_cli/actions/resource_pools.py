"""`det resource-pool`: resource pools and their workspace bindings."""

import argparse

from det_cli.connection import V1, connect, pages
from det_cli.render import Column, show

_COLUMNS: tuple[Column, ...] = (
    ("Name", lambda p: p["name"]),
    ("Type", lambda p: (p.get("type") or "").removeprefix("RESOURCE_POOL_TYPE_").lower()),
    ("Scheduler", lambda p: (p.get("schedulerType") or "").removeprefix("SCHEDULER_TYPE_").lower()),
    ("Agents", lambda p: p["numAgents"]),
    ("Slots (used/available)", lambda p: f"{p['slotsUsed']}/{p['slotsAvailable']}"),
    ("Slot Type", lambda p: (p.get("slotType") or "").removeprefix("TYPE_").lower()),
    ("Max Agents", lambda p: p.get("maxAgents")),
    ("Default Compute", lambda p: p.get("defaultComputePool")),
    ("Default Aux", lambda p: p.get("defaultAuxPool")),
)


def list_(args: argparse.Namespace) -> None:
    show(args, _COLUMNS, pages(connect(args), "/resource-pools", "resourcePools"))


def change_bindings(args: argparse.Namespace) -> None:
    path = f"{V1}/resource-pools/{args.pool_name}/workspace-bindings"
    body = {"resourcePoolName": args.pool_name, "workspaceNames": args.workspace_names}
    connect(args).request(args.method, path, body=body)
    print(f"{args.done} bindings of resource pool '{args.pool_name}'")


def list_workspaces(args: argparse.Namespace) -> None:
    session = connect(args)
    path = f"/resource-pools/{args.pool_name}/workspace-bindings"
    ids = set(pages(session, path, "workspaceIds"))
    spaces = [w for w in pages(session, "/workspaces", "workspaces") if w["id"] in ids]
    show(args, (("ID", lambda w: w["id"]), ("Workspace", lambda w: w["name"])), spaces)
