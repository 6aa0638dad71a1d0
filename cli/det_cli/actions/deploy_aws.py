"""Clusters on AWS."""

import argparse
import shutil
from pathlib import Path
from typing import Any

import yaml

from det_cli import prompts
from det_cli.deployment.aws import Aws, Deployment, Wanted, describe
from det_cli.deployment.terraform import stacks
from det_cli.errors import UsageError
from det_cli.render import print_object, say


def up(args: argparse.Namespace) -> None:
    deployment = Deployment(_wanted(args), say)
    if args.dry_run:
        deployment.plan()
        say("Nothing was changed.")
        return
    account, region = deployment.aws.account, deployment.aws.region
    question = f"Create or update cluster {args.cluster_id} in {region} of account {account}?"
    prompts.confirm(question, yes=args.yes)
    for line in describe(deployment.up()):
        print(line)


def down(args: argparse.Namespace) -> None:
    deployment = Deployment(_wanted(args), say)
    what = "its checkpoints and database stay" if args.keep_data else "with all its data"
    prompts.confirm(f"Remove cluster {args.cluster_id}, {what}?", yes=args.yes)
    deployment.down(force=args.force, keep_data=args.keep_data)
    print(f"Removed cluster {args.cluster_id}: no machine of it is left.")


def list_(args: argparse.Namespace) -> None:
    for name in Aws(_region(args), args.endpoint_url or "").clusters():
        print(name)


def status(args: argparse.Namespace) -> None:
    print_object(args, Deployment(_wanted(args), say).status())


def dump_template(args: argparse.Namespace) -> None:
    target = Path(args.directory)
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty", "name another directory")
    shutil.copytree(stacks(), target, dirs_exist_ok=True)
    print(f"Wrote the Terraform stacks to {target}: `terraform -chdir={target}/aws init`")


def _region(args: argparse.Namespace) -> str:
    import boto3

    region = args.region or boto3.session.Session().region_name
    if not region:
        raise UsageError("no region is named", "give --region, or set AWS_REGION")
    return str(region)


def _wanted(args: argparse.Namespace) -> Wanted:
    config = _mapping(args.master_config_path) if getattr(args, "master_config_path", None) else {}
    if getattr(args, "gpu_type", None) or not config.get("resource_pools"):
        config["resource_pools"] = _pools(args, _region(args))
        config["resource_manager"] = {
            **(config.get("resource_manager") or {"type": "agent"}),
            "default_compute_resource_pool": "compute-pool",
            "default_aux_resource_pool": "aux-pool",
        }
    pairs = [pair.partition("=") for pair in getattr(args, "var", None) or ()]
    variables = {name: yaml.safe_load(value) for name, _, value in pairs}
    return Wanted(
        cluster_id=args.cluster_id,
        region=_region(args),
        config=config,
        variables=variables,
        password=getattr(args, "initial_user_password", None) or "",
        endpoint_url=args.endpoint_url or "",
    )


def _mapping(path: str) -> dict[str, Any]:
    try:
        read = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, yaml.YAMLError) as e:
        raise UsageError(f"cannot read {path}: {e}") from e
    if not isinstance(read, dict):
        raise UsageError(f"{path} must hold the configuration of a cluster, as master.yaml does")
    return read


def _pools(args: argparse.Namespace, region: str) -> list[dict[str, Any]]:
    """Return the pools that Determined's command makes: one for work with slots, one for work without."""
    limits = {
        "min_instances": getattr(args, "min_dynamic_agents", None) or 0,
        "max_instances": getattr(args, "max_dynamic_agents", None) or 5,
        "max_idle_agent_period": getattr(args, "max_idle_agent_period", None) or "10m",
        "max_agent_starting_period": getattr(args, "max_agent_starting_period", None) or "20m",
    }
    spot = bool(getattr(args, "spot", False))
    compute = getattr(args, "compute_agent_instance_type", None) or "g4dn.xlarge"
    aux = getattr(args, "aux_agent_instance_type", None) or "m5.xlarge"
    common = {"type": "aws", "region": region}
    return [
        {
            "pool_name": "compute-pool",
            "max_aux_containers_per_agent": 0,
            "provider": {**common, **limits, "instance_type": compute, "spot": spot},
        },
        {
            "pool_name": "aux-pool",
            "max_aux_containers_per_agent": getattr(args, "max_aux_containers_per_agent", None)
            or 16,
            "provider": {**common, **limits, "instance_type": aux},
        },
    ]
