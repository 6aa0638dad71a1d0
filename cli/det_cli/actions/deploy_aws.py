"""Clusters on AWS."""

import argparse
import os
from typing import Any

from det_cli.actions import deploy_cloud, deploy_options, deploy_rehearse
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.aws_refusals import refusals_told
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import UsageError
from det_cli.render import print_object, say

# Options of `up` that are kept, beside what all clouds have: what pools are made of, and the rest.
_POOLS = ("spot_max_price", "keypair", "agent_subnet_id")
_STACK = ("add_tag", "deployment_type", "db_instance_type")  # they set variables of the stack
_MORE = (*_STACK, "db_snapshot", "notebook_timeout")
_TYPES = {
    "efs": "machines mount no EFS: `startup_script` of a pool can, and `bind_mounts` hand it to tasks",
    "fsx": "machines mount no FSx: `startup_script` of a pool can, and `bind_mounts` hand it to tasks",
    "govcloud": "the regions of GovCloud were never tried, and its partition is not that of the stack",
    "genai": "GenAI is a product of its own, which this cluster does not run",
}


@refusals_told()
def up(args: argparse.Namespace) -> None:
    given, deployment = _for_up(args)
    deploy_cloud.up(given, deployment, _place(deployment.account))


@refusals_told()
def rehearse(args: argparse.Namespace) -> int:
    from det_cli.commands.deploy_aws import AWS
    from det_cli.deployment.rehearsal.aws_cloud import AwsCloud

    given, deployment = _for_up(deploy_rehearse.with_options_of_up(args, AWS))
    database = _spec(given).variables.get("database", "aurora")
    cloud = AwsCloud(deployment.account, given.cluster_id, str(database))
    return deploy_rehearse.run(given, deployment, cloud, _place(deployment.account))


def _for_up(args: argparse.Namespace) -> tuple[argparse.Namespace, AwsDeployment]:
    """Return the options of `up`, completed by the kept options, and the deployment that they describe."""
    alone = deploy_options.alone(args)
    looked_at = AwsDeployment(_spec(alone), say)
    deploy_cloud.check_here(alone, looked_at)
    args.db_snapshot = args.db_snapshot or None
    given = deploy_options.as_last_time(args, alone.config, looked_at, _POOLS, _MORE)
    if args.spot_max_price and not given.spot:
        raise UsageError(
            "--spot-max-price has no meaning without --spot", "add --spot, or leave it out"
        )
    deployment = AwsDeployment(
        _spec(given),
        say,
        args.google_credentials or "",
        preflight=deploy_cloud.looks_first(args),
        keypair=given.keypair or "",
        snapshot=given.db_snapshot or "",
    )
    return given, deployment


@refusals_told()
def down(args: argparse.Namespace) -> None:
    account = AwsDeployment(_spec(args), say).account
    given = deploy_options.of_last_time(args, account, _STACK)
    deploy_cloud.down(given, AwsDeployment(_spec(given), say))


@refusals_told()
def list_(args: argparse.Namespace) -> None:
    account = Aws(_region(args), args.endpoint_url or "", args.profile or "")
    deploy_cloud.print_names(args, account.clusters(), _place(account))


@refusals_told()
def status(args: argparse.Namespace) -> None:
    print_object(args, AwsDeployment(_spec(args), say).status())


def dump_config(args: argparse.Namespace) -> None:
    _refuse_type(args)
    deploy_cloud.dump_config(args, _pools(args, region=""))


def dump_template(args: argparse.Namespace) -> None:
    deploy_cloud.dump_template(args, "aws")


def _place(aws: Aws) -> str:
    return f"{aws.region} of account {aws.account}"


def _region(args: argparse.Namespace) -> str:
    import boto3
    from botocore.exceptions import ProfileNotFound

    try:
        session = boto3.session.Session(profile_name=args.profile or None)
    except ProfileNotFound as e:
        raise UsageError(
            f"your AWS configuration has no profile {args.profile or os.environ.get('AWS_PROFILE')}",
            "`aws configure list-profiles` lists those it has",
        ) from e
    # boto3 itself reads AWS_DEFAULT_REGION alone.
    region = args.region or os.environ.get("AWS_REGION") or session.region_name
    if not region:
        raise UsageError("no region is named", "give --region, or set AWS_REGION")
    return str(region)


def _spec(args: argparse.Namespace) -> ClusterSpec:
    region = _region(args)
    _refuse_type(args)
    return ClusterSpec(
        cluster_id=args.cluster_id,
        region=region,
        config=deploy_options.config(args, _pools(args, region)),
        variables={**_stack_variables(args), **deploy_options.variables(args)},
        path_named=deploy_options.path_named(args),
        password=getattr(args, "initial_user_password", None) or "",
        endpoint_url=args.endpoint_url or "",
        profile=args.profile or "",
    )


def _refuse_type(args: argparse.Namespace) -> None:
    kind = getattr(args, "deployment_type", None)
    if kind in _TYPES:
        raise UsageError(
            f"there is no --deployment-type {kind} here: {_TYPES[kind]}",
            "leave --deployment-type out",
        )


def _tags(args: argparse.Namespace) -> dict[str, str]:
    return deploy_options.pairs(getattr(args, "add_tag", None), "--add-tag", "KEY=VALUE")


def _stack_variables(args: argparse.Namespace) -> dict[str, Any]:
    """Return the variables of the stack that options other than `--var` set."""
    found: dict[str, Any] = {}
    tags, database = _tags(args), getattr(args, "db_instance_type", None)
    if tags:
        found["tags"] = tags
    if database or getattr(args, "deployment_type", None):
        found["database"] = "rds"
    if database:
        found["database_instance_class"] = database
    return found


def _pools(args: argparse.Namespace, region: str) -> list[dict[str, Any]]:
    machine: dict[str, Any] = {"type": "aws", "region": region}
    if getattr(args, "keypair", None):
        machine["ssh_key_name"] = args.keypair
    if getattr(args, "agent_subnet_id", None):
        machine["network_interface"] = {"subnet_id": args.agent_subnet_id}
    tags = [{"key": key, "value": value} for key, value in _tags(args).items()]
    if tags:
        machine["custom_tags"] = tags
    compute = {
        **machine,
        "instance_type": getattr(args, "compute_agent_instance_type", None) or "g4dn.xlarge",
        "spot": bool(getattr(args, "spot", False)),
    }
    if getattr(args, "spot_max_price", None):
        compute["spot_max_price"] = args.spot_max_price
    aux = {
        **machine,
        "instance_type": getattr(args, "aux_agent_instance_type", None) or "m5.xlarge",
    }
    return deploy_options.pools(args, compute, aux)
