"""`det template`: configuration templates."""

import argparse

from determined.common.http import NotFoundError, Session

from det_cli import config_file
from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.render import print_yaml, show


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    spaces = {w["id"]: w["name"] for w in pages(session, "/workspaces", "workspaces")}
    templates = sorted(pages(session, "/templates", "templates"), key=lambda t: str(t["name"]))
    columns = [
        ("Name", lambda t: t["name"]),
        ("Workspace", lambda t: spaces.get(t["workspaceId"], t["workspaceId"])),
    ]
    if args.details:
        columns.append(("Config", lambda t: t["config"]))
    show(args, columns, templates)


def describe(args: argparse.Namespace) -> None:
    print_yaml(connect(args).get(f"{V1}/templates/{args.template_name}")["template"]["config"])


def create(args: argparse.Namespace) -> None:
    config = _read(args)
    session = connect(args)
    space = workspace_of(session, args.workspace_name)["id"] if args.workspace_name else 1
    _post(session, args.template_name, config, space)
    print(f"Created template '{args.template_name}'")


def _read(args: argparse.Namespace) -> dict[str, object]:
    return config_file.load(config_file.read(args.template_file), args.template_file)


def _post(session: Session, name: str, config: object, workspace_id: int) -> None:
    body = {"name": name, "config": config, "workspaceId": workspace_id}
    session.post(f"{V1}/templates/{name}", body)


def replace(args: argparse.Namespace) -> None:
    config = _read(args)
    connect(args).patch(f"{V1}/templates/{args.template_name}", config)
    print(f"Set template '{args.template_name}'")


def set_(args: argparse.Namespace) -> None:
    config = _read(args)
    session = connect(args)
    try:
        session.patch(f"{V1}/templates/{args.template_name}", config)
    except NotFoundError:
        _post(session, args.template_name, config, 1)
    print(f"Set template '{args.template_name}'")


def remove(args: argparse.Namespace) -> None:
    connect(args).delete(f"{V1}/templates/{args.template_name}")
    print(f"Removed template '{args.template_name}'")
