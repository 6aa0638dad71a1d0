"""`det deploy aws`: clusters on AWS."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from det_cli.actions import deploy_cloud, deploy_image, deploy_options, deploy_rehearse
from det_cli.actions.deploy_image import Place
from det_cli.deployment import importing
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws, translate_errors
from det_cli.deployment.aws_images import BASE_IMAGE, MACHINE_TYPE, Ec2Builder
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import UsageError
from det_cli.render import print_object, say

# Stored options of `up` in addition to the options of all clouds. _POOLS configures the default pools.
_POOLS = ("spot_max_price", "keypair", "agent_subnet_id", "environment_image")
_STACK = ("add_tag", "deployment_type", "db_instance_type")  # options that set stack variables
_MORE = (*_STACK, "db_snapshot", "notebook_timeout")
_TYPES = {
    "efs": "machines do not mount EFS: mount it in the pool's `startup_script` and use `bind_mounts`",
    "fsx": "machines do not mount FSx: mount it in the pool's `startup_script` and use `bind_mounts`",
    "govcloud": "the stack does not support the GovCloud partition",
    "genai": "GenAI is a separate product",
}


@translate_errors()
def up(args: argparse.Namespace) -> None:
    options, deployment = _for_up(args)
    deploy_cloud.up(options, deployment, _place(deployment.account))


@translate_errors()
def rehearse(args: argparse.Namespace) -> int:
    from det_cli.commands.deploy_aws import AWS
    from det_cli.deployment.rehearsal.aws_cloud import AwsCloud

    options, deployment = _for_up(deploy_rehearse.with_options_of_up(args, AWS))
    database = _spec(options).variables.get("database", "aurora")
    cloud = AwsCloud(deployment.account, options.cluster_id, str(database))
    return deploy_rehearse.run(options, deployment, cloud, _place(deployment.account))


def _for_up(args: argparse.Namespace) -> tuple[argparse.Namespace, AwsDeployment]:
    """Return the options of `up`, completed with the stored options, and the deployment for them."""
    alone = deploy_options.alone(args)
    preview = AwsDeployment(_spec(alone), say)
    deploy_cloud.check_here(alone, preview)
    args.db_snapshot = args.db_snapshot or None
    options = deploy_options.with_stored(args, alone.config, preview, _POOLS, _MORE)
    if args.spot_max_price and not options.spot:
        raise UsageError(
            "--spot-max-price has no meaning without --spot", "add --spot, or leave it out"
        )
    deployment = AwsDeployment(
        _spec(options),
        say,
        args.google_credentials or "",
        preflight=deploy_cloud.runs_preflight(args),
        keypair=options.keypair or "",
        snapshot=options.db_snapshot or "",
    )
    return options, deployment


@translate_errors()
def down(args: argparse.Namespace) -> None:
    account = AwsDeployment(_spec(args), say).account
    options = deploy_options.with_stored_variables(args, account, _STACK)
    deploy_cloud.down(options, AwsDeployment(_spec(options), say))


@translate_errors()
def list_(args: argparse.Namespace) -> None:
    account = Aws(_region(args), args.endpoint_url or "", args.profile or "")
    deploy_cloud.print_names(args, account.clusters(), _place(account))


@translate_errors()
def status(args: argparse.Namespace) -> None:
    print_object(args, AwsDeployment(_spec(args), say).status())


@translate_errors()
def import_(args: argparse.Namespace) -> int:
    request = importing.request_of(args)
    account = Aws(_region(args), args.endpoint_url or "", args.profile or "")
    return importing.run_on_aws(account, args.cluster_id, request, say)


@translate_errors()
def image(args: argparse.Namespace) -> None:
    account = AwsDeployment(_spec(args), say).account
    options = deploy_options.with_stored_variables(args, account, _STACK)
    spec = _spec(options)
    place = Place("aws", spec.region, BASE_IMAGE, MACHINE_TYPE)

    def builder(outputs: Mapping[str, Any]) -> Ec2Builder:
        network = {
            "SubnetId": outputs["machine_subnet_ids"][0],
            "Groups": [outputs["machine_security_group_id"]],
            "AssociatePublicIpAddress": spec.variables.get("machine_external_ip") is not False,
        }
        return Ec2Builder(account, args.cluster_id, network)

    deploy_image.run(args, AwsDeployment(spec, say), place, builder)


def dump_config(args: argparse.Namespace) -> None:
    _check_type(args)
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
            "`aws configure list-profiles` lists the profiles",
        ) from e
    # boto3 reads only AWS_DEFAULT_REGION, so AWS_REGION is read here.
    region = args.region or os.environ.get("AWS_REGION") or session.region_name
    if not region:
        raise UsageError("no region is set", "give --region, or set AWS_REGION")
    return str(region)


def _spec(args: argparse.Namespace) -> ClusterSpec:
    region = _region(args)
    _check_type(args)
    return ClusterSpec(
        cluster_id=args.cluster_id,
        region=region,
        config=deploy_options.config(args, _pools(args, region)),
        variables={**_stack_variables(args), **deploy_options.variables(args)},
        path_label=deploy_options.path_label(args),
        password=getattr(args, "initial_user_password", None) or "",
        endpoint_url=args.endpoint_url or "",
        profile=args.profile or "",
    )


def _check_type(args: argparse.Namespace) -> None:
    kind = getattr(args, "deployment_type", None)
    if kind in _TYPES:
        raise UsageError(
            f"--deployment-type {kind} is not supported: {_TYPES[kind]}",
            "leave --deployment-type out",
        )


def _tags(args: argparse.Namespace) -> dict[str, str]:
    return deploy_options.pairs(getattr(args, "add_tag", None), "--add-tag", "KEY=VALUE")


def _stack_variables(args: argparse.Namespace) -> dict[str, Any]:
    """Return the stack variables that are set by options other than `--var`."""
    variables: dict[str, Any] = {}
    tags, database = _tags(args), getattr(args, "db_instance_type", None)
    if tags:
        variables["tags"] = tags
    if database or getattr(args, "deployment_type", None):
        variables["database"] = "rds"
    if database:
        variables["database_instance_class"] = database
    return variables


def _pools(args: argparse.Namespace, region: str) -> list[dict[str, Any]]:
    machine: dict[str, Any] = {"type": "aws", "region": region}
    if getattr(args, "keypair", None):
        machine["ssh_key_name"] = args.keypair
    if getattr(args, "environment_image", None):
        machine["image_id"] = args.environment_image
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
