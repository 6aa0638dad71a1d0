"""Run the commands that are the same for clusters on every cloud."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from det_cli import new_password, prompts
from det_cli.actions import deploy_options
from det_cli.deployment import fleet, stack_variables
from det_cli.deployment.cluster import Deployment
from det_cli.deployment.terraform import stacks
from det_cli.errors import CommandError, UsageError
from det_cli.render import print_object, print_yaml, say


def check_here(args: argparse.Namespace, deployment: Deployment) -> None:
    """Refuse what can be told to be wrong before the account is asked. Raises UsageError."""
    deployment.check_name()
    if args.initial_user_password:
        new_password.check(
            args.initial_user_password, "without --initial-user-password one is made"
        )
    stack_variables.check(stacks() / deployment.stack, deploy_options.variables(args))
    try:
        deployment.check_config()
    except UsageError:
        if args.config or args.forget_options or not _keeps_pools(args, deployment):
            raise


def _keeps_pools(args: argparse.Namespace, deployment: Deployment) -> bool:
    """Return whether the cluster has pools of the last time, which stand in place of those that options make."""
    try:
        kept = deployment.account.options(args.cluster_id)
    except CommandError:
        return False  # what was wrong with the options comes first
    return bool((kept.get("config") or {}).get("resource_pools"))


def up(args: argparse.Namespace, deployment: Deployment, where: str) -> None:
    stack_variables.check(
        stacks() / deployment.stack, deploy_options.variables(args), args.kept_vars
    )
    if args.dry_run:
        deployment.plan()
        for line in deployment.prices():
            print(line)
        say("Nothing was changed.")
        return
    question = f"Create or update cluster {args.cluster_id} in {where}?"
    prompts.confirm(question, yes=args.yes)
    with _going_on():
        deploy(deployment, args.kept)


def deploy(deployment: Deployment, kept: Mapping[str, Any]) -> None:
    """Create the cluster or bring it up to date, and print how to use it; its first password only once."""
    outputs = deployment.up(kept)
    for line in _described(outputs):
        print(line)
    if "first_password" in outputs:
        sys.stdout.flush()  # raises where nobody reads any more
        deployment.password_told()


def _described(outputs: Mapping[str, Any]) -> Iterator[str]:
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
    deployment.must_be_known()
    what = "its checkpoints and database stay" if args.keep_data else "with all its data"
    prompts.confirm(f"Remove cluster {args.cluster_id}, {what}?", yes=args.yes)
    with _going_on():
        unseen = deployment.down(
            force=args.force, keep_data=args.keep_data, drain_s=args.drain_timeout
        )
    _print_removed(args.cluster_id, unseen)
    way_back = deployment.way_back() if args.keep_data else ""
    if way_back:
        print("This brings it back with its data, beside the other options that it had:")
        print(f"  {way_back}")


def _print_removed(cluster_id: str, unseen: Sequence[fleet.Location]) -> None:
    if not unseen:
        print(f"Removed cluster {cluster_id}: no machine of it is left.")
        return
    print(f"Removed cluster {cluster_id}. Machines may be left where it has rented:")
    for place in unseen:
        print(f"  {place}: {fleet.question(place, cluster_id)}")


def print_names(args: argparse.Namespace, names: Sequence[str], where: str) -> None:
    """Print the names of clusters, a line each unless a format is asked for."""
    if args.format:
        print_object(args, names)
        return
    if not names:
        say(f"There are no clusters in {where}.")
    for name in names:
        print(name)


@contextmanager
def _going_on() -> Iterator[None]:
    """Say after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        raise CommandError(
            "stopped before its end", "run the same command again: it goes on"
        ) from None


def looks_first(args: argparse.Namespace) -> bool:
    """Tell whether the account is looked at before anything is made."""
    given = getattr(args, "no_preflight_checks", False)
    return not (given or "--no-preflight-checks" in args.group_options)


def dump_config(args: argparse.Namespace, pools: Sequence[dict[str, Any]]) -> None:
    """Print a cluster's configuration with these pools, to be changed and given to `up`, which knows its region."""
    for pool in pools:
        pool["provider"].pop("region", None)
    say(
        "The defaults of `up`, whose pools rent in its region; changed, `up --config FILE` takes it."
    )
    print_yaml(deploy_options.config(args, list(pools)))


def dump_template(args: argparse.Namespace, stack: str) -> None:
    target = Path(args.directory)
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty", "name another directory")
    shutil.copytree(stacks(), target, dirs_exist_ok=True)
    print(f"Wrote the Terraform stacks to {target}: `terraform -chdir={target}/{stack} init`")
