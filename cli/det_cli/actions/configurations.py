"""`det template` and `det config-policies`: shared and enforced parts of configurations."""

import argparse

from determined.common.http import NotFoundError, Session

from det_cli import config_file
from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.render import print_object, print_yaml, say, show


def list_templates(args: argparse.Namespace) -> None:
    session = connect(args)
    spaces = {w["id"]: w["name"] for w in pages(session, "/workspaces", "workspaces")}
    templates = sorted(pages(session, "/templates", "templates"), key=lambda t: str(t["name"]))
    columns = [
        ("Name", lambda t: t["name"]),
        ("Workspace", lambda t: spaces.get(t["workspaceId"], t["workspaceId"])),
    ]
    if args.details:
        columns.append(("Config", lambda t: t["config"]))
    show(args, columns, templates, empty="there is no template that you may see")


def describe_template(args: argparse.Namespace) -> None:
    print_yaml(connect(args).get(f"{V1}/templates/{args.template_name}")["template"]["config"])


def create_template(args: argparse.Namespace) -> None:
    config = _read_template(args)
    session = connect(args)
    space = workspace_of(session, args.workspace_name)["id"] if args.workspace_name else 1
    _post_template(session, args.template_name, config, space)
    print(f"Created template '{args.template_name}'")


def _read_template(args: argparse.Namespace) -> dict[str, object]:
    return config_file.load(config_file.read(args.template_file), args.template_file)


def _post_template(session: Session, name: str, config: object, workspace_id: int) -> None:
    body = {"name": name, "config": config, "workspaceId": workspace_id}
    session.post(f"{V1}/templates/{name}", body)


def replace_template(args: argparse.Namespace) -> None:
    config = _read_template(args)
    connect(args).patch(f"{V1}/templates/{args.template_name}", config)
    print(f"Set template '{args.template_name}'")


def set_template(args: argparse.Namespace) -> None:
    config = _read_template(args)
    session = connect(args)
    try:
        session.patch(f"{V1}/templates/{args.template_name}", config)
    except NotFoundError:
        _post_template(session, args.template_name, config, 1)
    print(f"Set template '{args.template_name}'")


def remove_template(args: argparse.Namespace) -> None:
    connect(args).delete(f"{V1}/templates/{args.template_name}")
    print(f"Removed template '{args.template_name}'")


def describe_policies(args: argparse.Namespace) -> None:
    session = connect(args)
    print_object(args, session.get(_policies_path(session, args)).get("configPolicies") or {})


def set_policies(args: argparse.Namespace) -> None:
    source = config_file.read(args.config_file)
    config_file.load(source, args.config_file)  # reports YAML errors with the file name
    session = connect(args)
    body = {"configPolicies": source, "workloadType": args.workload_type.upper()}
    policies = session.put(_policies_path(session, args), body)["configPolicies"]
    say(f"Set the config policies for {_scope(args)}:")
    print_yaml(policies)


def delete_policies(args: argparse.Namespace) -> None:
    session = connect(args)
    session.delete(_policies_path(session, args))
    say(f"Deleted the config policies for {_scope(args)}.")


def _policies_path(session: Session, args: argparse.Namespace) -> str:
    kind = args.workload_type.upper()
    if not args.workspace_name:
        return f"{V1}/config-policies/global/{kind}"
    space = workspace_of(session, args.workspace_name)
    return f"{V1}/config-policies/workspaces/{space['id']}/{kind}"


def _scope(args: argparse.Namespace) -> str:
    kind = "experiments" if args.workload_type == "experiment" else "tasks"
    where = f"workspace '{args.workspace_name}'" if args.workspace_name else "the cluster"
    return f"{kind} of {where}"
