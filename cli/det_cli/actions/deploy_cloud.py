"""The parts of `det deploy` commands that are the same for every cloud."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from det_cli import prompts
from det_cli.actions import deploy_options
from det_cli.deployment import fleet, stack_variables
from det_cli.deployment.cluster import Deployment
from det_cli.deployment.terraform import stacks
from det_cli.errors import CommandError, UsageError
from det_cli.render import print_object, print_yaml, say


def check_here(args: argparse.Namespace, deployment: Deployment) -> None:
    """Check the options without a request to the cloud account. Raises UsageError."""
    deployment.check_name()
    if args.initial_user_password:
        prompts.check_new_password(
            args.initial_user_password, "without --initial-user-password, a password is generated"
        )
    stack_variables.check(stacks() / deployment.stack, deploy_options.variables(args))
    try:
        deployment.check_config()
    except UsageError:
        if args.config or args.forget_options or not _has_stored_pools(args, deployment):
            raise


def _has_stored_pools(args: argparse.Namespace, deployment: Deployment) -> bool:
    """Return True if the cluster's stored configuration has pools, which replace the default pools."""
    try:
        options = deployment.account.options(args.cluster_id)
    except CommandError:
        return False  # the caller reports the error in the options first
    return bool((options.get("config") or {}).get("resource_pools"))


def up(args: argparse.Namespace, deployment: Deployment, where: str) -> None:
    stack_variables.check(
        stacks() / deployment.stack, deploy_options.variables(args), args.stored_vars
    )
    if args.dry_run:
        deployment.plan()
        for line in deployment.prices():
            print(line)
        say("No resource was changed.")
        return
    question = f"Create or update cluster {args.cluster_id} in {where}?"
    prompts.confirm(question, yes=args.yes)
    with _resumable():
        deploy(deployment, args.to_store)


def deploy(deployment: Deployment, options: Mapping[str, Any]) -> None:
    """Create or update the cluster and print how to use it. A generated password is printed only once."""
    outputs = deployment.up(options)
    for line in _summary(outputs):
        print(line)
    if "first_password" in outputs:
        sys.stdout.flush()  # raises if the password could not be printed
        deployment.mark_password_shown()


def _summary(outputs: Mapping[str, Any]) -> Iterator[str]:
    yield f"The cluster answers at {outputs['url']}"
    if "first_password" in outputs:
        yield f"Password of admin and determined, until you change it: {outputs['first_password']}"
    if outputs.get("holds_first_password"):
        yield "admin still has the first password: `det user change-password admin`"
    yield ""
    yield "next:"
    yield f"  export DET_MASTER={outputs['url']}"
    yield "  det user login admin"
    yield f"  in a browser: {outputs['url']}/det"


def down(args: argparse.Namespace, deployment: Deployment) -> None:
    deployment.check_exists()
    data = "but keep its checkpoints and database" if args.keep_data else "with all its data"
    prompts.confirm(f"Remove cluster {args.cluster_id}, {data}?", yes=args.yes)
    with _resumable():
        unchecked = deployment.down(
            force=args.force, keep_data=args.keep_data, drain_s=args.drain_timeout
        )
    _print_removed(args.cluster_id, unchecked)
    restore_command = deployment.restore_command() if args.keep_data else ""
    if restore_command:
        print("To restore the cluster with its data, add this to the options that it had:")
        print(f"  {restore_command}")


def _print_removed(cluster_id: str, unchecked: Sequence[fleet.Location]) -> None:
    if not unchecked:
        print(f"Removed cluster {cluster_id}: all its machines are terminated.")
        return
    print(
        f"Removed cluster {cluster_id}. These locations could not be checked for remaining machines:"
    )
    for place in unchecked:
        print(f"  {place}: {fleet.lookup_hint(place, cluster_id)}")


def print_names(args: argparse.Namespace, names: Sequence[str], where: str) -> None:
    """Print the names of clusters, one per line, or in the requested format."""
    if args.format:
        print_object(args, names)
        return
    if not names:
        say(f"There are no clusters in {where}.")
    for name in names:
        print(name)


@contextmanager
def _resumable() -> Iterator[None]:
    """Turn Ctrl-C into an error that explains how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise CommandError(
            "stopped before it was complete", "run the same command again to continue"
        ) from None


def runs_preflight(args: argparse.Namespace) -> bool:
    """Return True unless the user disabled the preflight checks."""
    is_disabled = getattr(args, "no_preflight_checks", False)
    return not (is_disabled or "--no-preflight-checks" in args.group_options)


def dump_config(args: argparse.Namespace, pools: Sequence[dict[str, Any]]) -> None:
    """Print a cluster configuration with these pools as input for `up`, which adds the region."""
    for pool in pools:
        pool["provider"].pop("region", None)
    say(
        "This is the default configuration of `up`, which adds the region to the pools."
        " Change it and pass it with `up --config FILE`."
    )
    print_yaml(deploy_options.config(args, list(pools)))


def dump_template(args: argparse.Namespace, stack: str) -> None:
    target = Path(args.directory)
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty", "name another directory")
    shutil.copytree(stacks(), target, dirs_exist_ok=True)
    print(f"Wrote the Terraform stacks to {target}: `terraform -chdir={target}/{stack} init`")
