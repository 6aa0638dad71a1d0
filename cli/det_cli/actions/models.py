"""`det model`: the model registry."""

import argparse
from typing import Any
from urllib.parse import quote

from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.errors import MissingError
from det_cli.render import Column, local_time, show

_MODEL: tuple[Column, ...] = (
    ("ID", lambda m: m["id"]),
    ("Name", lambda m: m["name"]),
    ("Workspace ID", lambda m: m.get("workspaceId")),
    ("Creation Time", lambda m: local_time(m["creationTime"])),
    ("Last Updated Time", lambda m: local_time(m["lastUpdatedTime"])),
    ("Metadata", lambda m: m.get("metadata")),
)
_VERSION: tuple[Column, ...] = (
    ("Version #", lambda v: v["version"]),
    ("Trial ID", lambda v: v["checkpoint"]["training"].get("trialId")),
    ("Batch #", lambda v: (v["checkpoint"].get("metadata") or {}).get("steps_completed")),
    ("Checkpoint UUID", lambda v: v["checkpoint"]["uuid"]),
    ("Validation Metrics", lambda v: v["checkpoint"]["training"].get("validationMetrics")),
    ("Metadata", lambda v: v["checkpoint"].get("metadata")),
)


def _path(args: argparse.Namespace) -> str:
    return f"/models/{quote(args.name, safe='')}"


def _with_client_names(model: dict[str, Any]) -> dict[str, Any]:
    """Return a model with additional time fields, named as in Determined's client, for scripts."""
    times = {"creation_time": "creationTime", "last_updated_time": "lastUpdatedTime"}
    return {**model, **{name: model[field] for name, field in times.items()}}


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    params: dict[str, Any] = {
        "sortBy": f"SORT_BY_{args.sort_by.upper()}",
        "orderBy": f"ORDER_BY_{args.order_by.upper()}",
    }
    if args.workspace_names:
        names = [name.strip() for name in args.workspace_names.split(",")]
        params["workspaceNames"] = [workspace_of(session, name)["name"] for name in names]
    models = map(_with_client_names, pages(session, "/models", "models", params))
    show(args, _MODEL, models, empty="there is no model that you may see")


def create(args: argparse.Namespace) -> None:
    fields = {"description": args.description, "workspaceName": args.workspace_name}
    body = {"name": args.name, **{k: v for k, v in fields.items() if v}}
    model = connect(args).post(V1 + "/models", body)["model"]
    show(args, _MODEL, [model], _with_client_names(model))


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    model = session.get(V1 + _path(args))["model"]
    params = {"orderBy": "ORDER_BY_DESC", "sortBy": "SORT_BY_VERSION"}
    versions = list(pages(session, _path(args) + "/versions", "modelVersions", params))
    selected = [v for v in versions if args.version in (-1, v["version"])][:1]
    if args.version != -1 and not selected:
        raise MissingError(f"model '{args.name}' has no version {args.version}")
    if args.format:
        version = selected[0] if selected else None
        show(args, _MODEL, [model], {**_with_client_names(model), "version": version})
        return
    show(args, _MODEL, [model])
    if selected:
        print()
        show(args, _VERSION, selected)


def list_versions(args: argparse.Namespace) -> None:
    session, path = connect(args), _path(args)
    versions = list(pages(session, path + "/versions", "modelVersions"))
    model = session.get(V1 + path)["model"]
    data = {"model": model, "modelVersions": versions}
    show(args, _VERSION, versions, data, empty="the model has no version yet")


def register_version(args: argparse.Namespace) -> None:
    body = {"modelName": args.name, "checkpointUuid": args.uuid}
    version = connect(args).post(f"{V1}{_path(args)}/versions", body)["modelVersion"]
    show(args, _VERSION, [version], {"modelVersion": version})


def move(args: argparse.Namespace) -> None:
    connect(args).patch(V1 + _path(args), {"workspaceName": args.workspace_name})
    print(f"Moved model '{args.name}' to workspace '{args.workspace_name}'")


def delete(args: argparse.Namespace) -> None:
    connect(args).delete(V1 + _path(args))
    print(f"Deleted model '{args.name}'")
