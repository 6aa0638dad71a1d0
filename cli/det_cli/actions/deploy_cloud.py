"""Run the commands that are the same for clusters on every cloud, and read their options."""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from det_cli import prompts
from det_cli.deployment.cluster import Account, Deployment, describe
from det_cli.deployment.terraform import stacks
from det_cli.errors import UsageError
from det_cli.render import say

# What `up` keeps of a cluster for the next time, beside its configuration and `--var`.
_POOLS = (
    "compute_agent_instance_type", "aux_agent_instance_type", "spot", "min_dynamic_agents", "max_dynamic_agents",
    "max_idle_agent_period", "max_agent_starting_period", "max_aux_containers_per_agent",
)  # fmt: skip


def as_last_time(
    args: argparse.Namespace, account: Account, more: Sequence[str] = ()
) -> argparse.Namespace:
    """Return the options of `up`, and of its last time for this cluster those that are not given now."""
    given = argparse.Namespace(**vars(args))
    given.config = _mapping(args.master_config_path) if args.master_config_path else None
    kept = {} if args.forget_options else account.options(args.cluster_id)
    names = [
        n for n in (*_POOLS, *more, "config") if _missing(given, n) and kept.get(n) is not None
    ]
    for name in names:
        setattr(given, name, kept[name])
    now = list(args.var or ())
    set_now = {pair.partition("=")[0] for pair in now}
    earlier = [pair for pair in kept.get("var", ()) if pair.partition("=")[0] not in set_now]
    given.var = earlier + now
    told = [f"--{n.replace('_', '-')}" for n in names] + [f"--var {pair}" for pair in earlier]
    if told:
        say(f"As the last time: {', '.join(told)} (--forget-options goes back to the defaults)")
    given.kept = {n: getattr(given, n) for n in (*_POOLS, *more, "config", "var")}
    return given


def _missing(args: argparse.Namespace, name: str) -> bool:
    return getattr(args, name) in (None, False)


def up(args: argparse.Namespace, deployment: Deployment, where: str) -> None:
    if args.dry_run:
        deployment.plan()
        for line in deployment.prices():
            print(line)
        say("Nothing was changed.")
        return
    question = f"Create or update cluster {args.cluster_id} in {where}?"
    prompts.confirm(question, yes=args.yes)
    for line in describe(deployment.up(args.kept)):
        print(line)


def down(args: argparse.Namespace, deployment: Deployment) -> None:
    what = "its checkpoints and database stay" if args.keep_data else "with all its data"
    prompts.confirm(f"Remove cluster {args.cluster_id}, {what}?", yes=args.yes)
    deployment.down(force=args.force, keep_data=args.keep_data)
    print(f"Removed cluster {args.cluster_id}: no machine of it is left.")


def dump_template(args: argparse.Namespace, stack: str) -> None:
    target = Path(args.directory)
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty", "name another directory")
    shutil.copytree(stacks(), target, dirs_exist_ok=True)
    print(f"Wrote the Terraform stacks to {target}: `terraform -chdir={target}/{stack} init`")


def variables(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `--var` sets."""
    pairs = [pair.partition("=") for pair in getattr(args, "var", None) or ()]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--var {name} has no value", "give --var NAME=VALUE")
    return {name: yaml.safe_load(value) for name, _, value in pairs}


def config(args: argparse.Namespace, pools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the cluster's configuration, with these pools where it has none."""
    found = dict(getattr(args, "config", None) or {})
    if not found.get("resource_pools"):
        found["resource_pools"] = pools
        found["resource_manager"] = {
            **(found.get("resource_manager") or {"type": "agent"}),
            "default_compute_resource_pool": "compute-pool",
            "default_aux_resource_pool": "aux-pool",
        }
    return found


def pools(
    args: argparse.Namespace, compute: dict[str, Any], aux: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the pools that Determined's commands make: one for work with slots, one for work without."""
    limits = {
        "min_instances": getattr(args, "min_dynamic_agents", None) or 0,
        "max_instances": _or(getattr(args, "max_dynamic_agents", None), 5),
        "max_idle_agent_period": getattr(args, "max_idle_agent_period", None) or "10m",
        "max_agent_starting_period": getattr(args, "max_agent_starting_period", None) or "20m",
    }
    return [
        {
            "pool_name": "compute-pool",
            "max_aux_containers_per_agent": 0,
            "provider": {**compute, **limits},
        },
        {
            "pool_name": "aux-pool",
            "max_aux_containers_per_agent": getattr(args, "max_aux_containers_per_agent", None)
            or 16,
            "provider": {**aux, **limits},
        },
    ]


def _or(given: int | None, default: int) -> int:
    return default if given is None else given


def _mapping(path: str) -> dict[str, Any]:
    try:
        read = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, yaml.YAMLError) as e:
        raise UsageError(f"cannot read {path}: {e}") from e
    if not isinstance(read, dict):
        raise UsageError(f"{path} must hold the configuration of a cluster, as master.yaml does")
    return read
