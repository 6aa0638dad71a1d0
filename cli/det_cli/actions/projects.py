"""`det project`: projects of a workspace."""

import argparse
from typing import Any

from det_cli import prompts
from det_cli.actions.experiment_settings import project_of, workspace_of
from det_cli.actions.experiments import LIST
from det_cli.actions.workspaces import report, report_failed_deletion, sorting
from det_cli.connection import V1, connect, paged, pages
from det_cli.errors import require_change
from det_cli.render import Column, show

_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda p: p["id"]),
    ("Key", lambda p: p.get("key")),
    ("Name", lambda p: p["name"]),
    ("Description", lambda p: p.get("description")),
    ("# Experiments", lambda p: p["numExperiments"]),
    ("# Active Experiments", lambda p: p["numActiveExperiments"]),
)


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    path = f"/workspaces/{workspace_of(session, args.workspace_name)['id']}/projects"
    projects = paged(session, args, path, "projects", **sorting(args))
    show(args, _COLUMNS, projects, empty="the workspace has no project")


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    project = project_of(session, args.workspace_name, args.project_name)
    if args.format:
        show(args, _COLUMNS, [project], project)
        return
    show(args, _COLUMNS, [project])
    report_failed_deletion("Project", project)
    print("\nAssociated experiments:")
    filters = {**_experiment_filters(project, args), "sortBy": "SORT_BY_ID"}
    show(args, LIST, list(pages(session, "/experiments", "experiments", filters)))


def list_experiments(args: argparse.Namespace) -> None:
    session = connect(args)
    project = project_of(session, args.workspace_name, args.project_name)
    filters = {**_experiment_filters(project, args), **sorting(args)}
    why = "the project has no experiment" + (
        "" if args.all else " that is not archived; --all: all of them"
    )
    show(args, LIST, paged(session, args, "/experiments", "experiments", **filters), empty=why)


def _experiment_filters(project: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Return the filters for the experiments of a project. --all includes archived experiments."""
    return {"projectId": project["id"], **({} if args.all else {"archived": False})}


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    fields = {"description": args.description, "key": args.key}
    return {k: v for k, v in fields.items() if v is not None}


def create(args: argparse.Namespace) -> None:
    session = connect(args)
    space = workspace_of(session, args.workspace_name)["id"]
    body = {"name": args.name, "workspaceId": space, **_fields(args)}
    response = session.post(f"{V1}/workspaces/{space}/projects", body)
    report(args, "Created project", response["project"])


def edit(args: argparse.Namespace) -> None:
    change = _fields(args)
    if args.new_name:
        change["name"] = args.new_name
    require_change(change)
    session = connect(args)
    project = project_of(session, args.workspace_name, args.project_name)
    response = session.patch(f"{V1}/projects/{project['id']}", change)
    report(args, "Changed project", response["project"])


def change(args: argparse.Namespace) -> None:
    session = connect(args)
    project = project_of(session, args.workspace_name, args.project_name)
    session.post(f"{V1}/projects/{project['id']}/{args.verb}")
    print(f"{args.done} project '{args.project_name}'")


def delete(args: argparse.Namespace) -> None:
    session = connect(args)
    project = project_of(session, args.workspace_name, args.project_name)
    prompts.confirm(f"Delete project '{args.project_name}' with all its experiments?", yes=args.yes)
    response = session.delete(f"{V1}/projects/{project['id']}")
    print(f"{'Deleted' if response['completed'] else 'Deleting'} project '{args.project_name}'")
