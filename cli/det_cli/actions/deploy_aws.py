"""Clusters on AWS."""

import argparse

from det_cli.actions import deploy_cloud
from det_cli.deployment.aws import Aws, AwsDeployment
from det_cli.deployment.cluster import Wanted
from det_cli.errors import UsageError
from det_cli.render import print_object, say


def up(args: argparse.Namespace) -> None:
    account = AwsDeployment(_wanted(args), say).account
    given = deploy_cloud.as_last_time(args, account)
    deployment = AwsDeployment(_wanted(given), say, args.google_credentials or "")
    deploy_cloud.up(given, deployment, _place(deployment.account))


def down(args: argparse.Namespace) -> None:
    deploy_cloud.down(args, AwsDeployment(_wanted(args), say))


def list_(args: argparse.Namespace) -> None:
    for name in Aws(_region(args), args.endpoint_url or "").clusters():
        print(name)


def status(args: argparse.Namespace) -> None:
    print_object(args, AwsDeployment(_wanted(args), say).status())


def dump_template(args: argparse.Namespace) -> None:
    deploy_cloud.dump_template(args, "aws")


def _place(aws: Aws) -> str:
    return f"{aws.region} of account {aws.account}"


def _region(args: argparse.Namespace) -> str:
    import boto3

    region = args.region or boto3.session.Session().region_name
    if not region:
        raise UsageError("no region is named", "give --region, or set AWS_REGION")
    return str(region)


def _wanted(args: argparse.Namespace) -> Wanted:
    region = _region(args)
    machine = {"type": "aws", "region": region}
    compute = getattr(args, "compute_agent_instance_type", None) or "g4dn.xlarge"
    aux = getattr(args, "aux_agent_instance_type", None) or "m5.xlarge"
    spot = bool(getattr(args, "spot", False))
    pools = deploy_cloud.pools(
        args,
        {**machine, "instance_type": compute, "spot": spot},
        {**machine, "instance_type": aux},
    )
    return Wanted(
        cluster_id=args.cluster_id,
        region=region,
        config=deploy_cloud.config(args, pools),
        variables=deploy_cloud.variables(args),
        password=getattr(args, "initial_user_password", None) or "",
        endpoint_url=args.endpoint_url or "",
    )
