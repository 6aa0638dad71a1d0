"""`det import`: move a Determined cluster into this one."""

import argparse

from det_cli.connection import V1, connect
from det_cli.errors import CommandError
from det_cli.render import Column, local_time, show


def determined(args: argparse.Namespace) -> int:
    return _run("determined", args)


def verify(args: argparse.Namespace) -> int:
    return _run("verify", args)


def list_(args: argparse.Namespace) -> None:
    columns: list[Column] = [
        ("ID", lambda i: i["id"]),
        ("Name", lambda i: i["name"]),
        ("Cluster", lambda i: i["clusterId"]),
        ("Started", lambda i: local_time(i["startTime"])),
        ("Complete", lambda i: "yes" if i["complete"] else "no"),
        ("Old experiments", lambda i: f"1 to {i['lastExperimentId']}"),
        ("Are here", lambda i: f"N + {i['experimentOffset']}"),
    ]
    rows = connect(args).get(f"{V1}/imports")["imports"]
    show(args, columns, rows, empty="no cluster was imported into this one")


def _run(action: str, args: argparse.Namespace) -> int:
    try:
        from det_controlplane.entry.importing import commands
    except ModuleNotFoundError as e:
        raise CommandError(
            f"this installation cannot import a cluster: {e}",
            "install the complete package: `pip install determined-serverless`",
        ) from e
    args.limit_s = 0
    return int(commands.main(action, args))
