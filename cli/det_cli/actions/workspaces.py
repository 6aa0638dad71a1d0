"""`det workspace`: manage workspaces."""

import argparse
from typing import Any

from det_cli import config_file, prompts
from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, paged, pages
from det_cli.errors import require_change
from det_cli.render import Column, print_json, say, show

_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda w: w["id"]),
    ("Name", lambda w: w["name"]),
    ("# Projects", lambda w: w["numProjects"]),
    ("Agent Uid", lambda w: (w.get("agentUserGroup") or {}).get("agentUid")),
    ("Agent Gid", lambda w: (w.get("agentUserGroup") or {}).get("agentGid")),
    ("Agent User", lambda w: (w.get("agentUserGroup") or {}).get("agentUser")),
    ("Agent Group", lambda w: (w.get("agentUserGroup") or {}).get("agentGroup")),
    ("Default Compute Pool", lambda w: w.get("defaultComputePool")),
    ("Default Aux Pool", lambda w: w.get("defaultAuxPool")),
)


def sorting(args: argparse.Namespace) -> dict[str, str]:
    return {
        "sortBy": f"SORT_BY_{args.sort_by.upper()}",
        "orderBy": f"ORDER_BY_{args.order_by.upper()}",
    }


def list_(args: argparse.Namespace) -> None:
    show(args, _COLUMNS, paged(connect(args), args, "/workspaces", "workspaces", **sorting(args)))


def describe(args: argparse.Namespace) -> None:
    space = workspace_of(connect(args), args.workspace_name)
    show(args, _COLUMNS, [space], space)
    report_failed_deletion("Workspace", space)


def report_failed_deletion(kind: str, item: dict[str, Any]) -> None:
    """Print why the deletion of a workspace or project failed, if it did."""
    if item.get("errorMessage"):
        say(f"{kind} '{item['name']}' is not deleted: {item['errorMessage']}")


def change(args: argparse.Namespace) -> None:
    session = connect(args)
    space = workspace_of(session, args.workspace_name)
    session.post(f"{V1}/workspaces/{space['id']}/{args.verb}")
    print(f"{args.done} workspace '{args.workspace_name}'")


def create(args: argparse.Namespace) -> None:
    response = connect(args).post(V1 + "/workspaces", {"name": args.name, **_fields(args)})
    report(args, "Created workspace", response["workspace"])


def edit(args: argparse.Namespace) -> None:
    change = _fields(args)
    if args.name:
        change["name"] = args.name
    require_change(change)
    session = connect(args)
    space = workspace_of(session, args.workspace_name)
    response = session.patch(f"{V1}/workspaces/{space['id']}", change)
    report(args, "Changed workspace", response["workspace"])


def report(args: argparse.Namespace, done: str, item: dict[str, Any]) -> None:
    """Print a workspace or project after it was created or changed."""
    if args.format == "json":
        print_json(item)
    else:
        print(f"{done} '{item['name']}' with id {item['id']}")


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    keys = ("uid", "user", "gid", "group")
    link = {f"agent{k.capitalize()}": getattr(args, f"agent_{k}") for k in keys}
    link = {k: v for k, v in link.items() if v is not None}
    fields: dict[str, Any] = {"agentUserGroup": link} if link else {}
    if args.checkpoint_storage_config_file:
        text = config_file.read(args.checkpoint_storage_config_file)
        fields["checkpointStorageConfig"] = config_file.load(text)
    if args.checkpoint_storage_config:
        fields["checkpointStorageConfig"] = config_file.load(args.checkpoint_storage_config)
    if args.default_compute_pool:
        fields["defaultComputePool"] = args.default_compute_pool
    if args.default_aux_pool:
        fields["defaultAuxPool"] = args.default_aux_pool
    return fields


def delete(args: argparse.Namespace) -> None:
    session = connect(args)
    space = workspace_of(session, args.workspace_name)
    prompts.confirm(
        f"End the tasks of workspace '{args.workspace_name}' and delete it with all its projects?",
        yes=args.yes,
    )
    response = session.delete(f"{V1}/workspaces/{space['id']}")
    state = "Deleted" if response["completed"] else "Deleting"
    print(f"{state} workspace '{args.workspace_name}'")


def list_pools(args: argparse.Namespace) -> None:
    session = connect(args)
    space = workspace_of(session, args.workspace_name)
    path = f"/workspaces/{space['id']}/available-resource-pools"
    show(args, (("Resource Pool", lambda p: p),), pages(session, path, "resourcePools"))
