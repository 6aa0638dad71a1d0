"""Clusters on this machine: the control plane is imported only here."""

import argparse

from determined.common.passwords import weakness

from det_cli import new_password
from det_cli.errors import CommandError


def run(args: argparse.Namespace) -> int:
    first = getattr(args, "initial_user_password", None)
    if first:
        new_password.check(
            first,
            "--initial-user-password '' lets everybody on this machine in; without it one is made",
        )
    try:
        from det_controlplane.entry.local import commands
    except ModuleNotFoundError as e:
        raise CommandError(
            f"this installation cannot run a cluster: {e}",
            "install the whole of determined-serverless: `pip install determined-serverless`",
        ) from e
    args.password_weakness = weakness
    return int(commands.main(args.action, args))
