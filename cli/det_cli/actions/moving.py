"""`det import`: move a Determined cluster into this one."""

import argparse

from det_cli.errors import CommandError


def determined(args: argparse.Namespace) -> int:
    return _run("determined", args)


def verify(args: argparse.Namespace) -> int:
    return _run("verify", args)


def _run(action: str, args: argparse.Namespace) -> int:
    try:
        from det_controlplane.entry.importing import commands
    except ModuleNotFoundError as e:
        raise CommandError(
            f"this installation cannot import a cluster: {e}",
            "install the complete package: `pip install determined-serverless`",
        ) from e
    return int(commands.main(action, args))
