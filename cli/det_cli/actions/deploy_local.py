"""`det deploy local`: clusters on this machine. Only this module imports the control plane."""

import argparse

from determined.common.sign_in import password_weakness

from det_cli import prompts
from det_cli.errors import CommandError


def run(args: argparse.Namespace) -> int:
    password = getattr(args, "initial_user_password", None)
    if password:
        prompts.check_new_password(
            password,
            "without --initial-user-password a password is generated; '' creates users without one",
        )
    try:
        from det_controlplane.entry.local import commands
    except ModuleNotFoundError as e:
        raise CommandError(
            f"this installation cannot run a cluster: {e}",
            "install the complete package: `pip install determined-serverless`",
        ) from e
    args.password_weakness = password_weakness
    return int(commands.main(args.action, args))
