"""`det config-policies`: settings and limits that administrators enforce in all configurations."""

import argparse

from determined.common.http import Session

from det_cli import config_file
from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect
from det_cli.render import print_object, print_yaml, say


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    print_object(args, session.get(_path(session, args)).get("configPolicies") or {})


def set_(args: argparse.Namespace) -> None:
    source = config_file.read(args.config_file)
    config_file.load(source, args.config_file)  # reports YAML errors with the file name
    session = connect(args)
    body = {"configPolicies": source, "workloadType": args.workload_type.upper()}
    policies = session.put(_path(session, args), body)["configPolicies"]
    say(f"Set the config policies for {_scope(args)}:")
    print_yaml(policies)


def delete(args: argparse.Namespace) -> None:
    session = connect(args)
    session.delete(_path(session, args))
    say(f"Deleted the config policies for {_scope(args)}.")


def _path(session: Session, args: argparse.Namespace) -> str:
    kind = args.workload_type.upper()
    if not args.workspace_name:
        return f"{V1}/config-policies/global/{kind}"
    space = workspace_of(session, args.workspace_name)
    return f"{V1}/config-policies/workspaces/{space['id']}/{kind}"


def _scope(args: argparse.Namespace) -> str:
    kind = "experiments" if args.workload_type == "experiment" else "tasks"
    where = f"workspace '{args.workspace_name}'" if args.workspace_name else "the cluster"
    return f"{kind} of {where}"
