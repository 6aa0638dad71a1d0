"""The operator's AWS account: the few calls that `det deploy` makes itself, beside Terraform's."""

import json
import re
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from typing import Any

from det_cli.deployment import restoring
from det_cli.deployment.aws_buckets import Buckets
from det_cli.deployment.aws_refusals import refusals_told
from det_cli.deployment.terraform import Backend
from det_cli.errors import CommandError

TAG = "determined-cluster"
# Made by CloudFront in a network with its first VPC origin there, and by GuardDuty with its first machine, beside an
# endpoint; both leave theirs, and no network goes before them.
_ORIGIN_GROUP = "CloudFront-VPCOrigins-Service-SG"
_GUARD_GROUP = "GuardDutyManagedSecurityGroup-"  # and the network's id
_GUARD_ENDPOINT = ".guardduty-data"
# Buckets and snapshots of databases are data; EC2 lists machines, disks and network cards that are gone for an hour.
_KEPT = re.compile(
    r"^arn:[\w-]+:s3:::|:rds:.*snapshot:|:ec2:.*:(instance|volume|network-interface|fleet|spot-instances-request)/"
)
_NEWEST_VERSIONS = 3  # of each function, which an upgrade leaves


class Aws:
    """The operator's AWS account, in one region."""

    def __init__(self, region: str, endpoint_url: str = "", profile: str = "") -> None:
        self.region = region
        self.endpoint_url = endpoint_url
        self.profile = profile
        self._regions = {region: self}
        self._clients: dict[tuple[str, int], Any] = {}  # by service and read timeout; 0: default

    def client(self, service: str) -> Any:
        """Return the client of a service: the first one costs a tenth of a second and more."""
        return self._client(service)

    def client_for_one_try(self, service: str, read_timeout_s: int) -> Any:
        """Return a client without retries and with a long read timeout. Keep-alives hold idle connections open."""
        once = {"total_max_attempts": 1}
        return self._client(
            service, read_timeout_s, read_timeout=read_timeout_s, retries=once, tcp_keepalive=True
        )

    def _client(self, service: str, read_timeout_s: int = 0, **settings: Any) -> Any:
        from botocore.config import Config

        key = (service, read_timeout_s)
        if key not in self._clients:
            endpoint = {"endpoint_url": self.endpoint_url} if self.endpoint_url else {}
            self._clients[key] = self._session.client(
                service, region_name=self.region, config=Config(**settings), **endpoint
            )
        return self._clients[key]

    def at(self, region: str) -> "Aws":
        """Return the account in another region, or in its own; all have one session."""
        if region not in self._regions:
            there = Aws(region, self.endpoint_url, self.profile)
            there._session, there._regions = self._session, self._regions
            self._regions[region] = there
        return self._regions[region]

    @cached_property
    def _session(self) -> Any:
        import boto3

        return boto3.session.Session(profile_name=self.profile or None)

    @cached_property
    def account(self) -> str:
        """Return the account's number. Raises CommandError when there are no credentials that AWS accepts."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        hint = "`aws configure` or `aws sso login`, or set AWS_PROFILE; `aws sts get-caller-identity` checks it"
        try:
            return str(self.client("sts").get_caller_identity()["Account"])
        except NoCredentialsError:
            raise CommandError("there are no AWS credentials", hint) from None
        except ClientError as e:
            if e.response.get("Error", {}).get("Code") in ("ExpiredToken", "ExpiredTokenException"):
                raise CommandError(
                    "the session at AWS has expired", "`aws sso login`, or sign in again"
                ) from e
            raise CommandError(f"AWS does not accept the credentials: {e}", hint) from e
        except BotoCoreError as e:
            raise CommandError(
                f"AWS cannot be asked in {self.region}: {e}",
                f"is {self.region} a region, and does this machine reach it?"
                " `aws sts get-caller-identity` asks the same",
            ) from e

    @cached_property
    def _buckets(self) -> Buckets:
        return Buckets(lambda: self.client("s3"), lambda: self.account, self.region)

    @property
    def state_bucket(self) -> str:
        return self._buckets.states

    def make_state_bucket(self) -> None:
        """Make the bucket of Terraform's states, if this is the account's first cluster in the region."""
        self._buckets.make_states()

    def has_bucket(self, name: str) -> bool:
        """Return whether the account has a bucket. Raises CommandError for a bucket of another account."""
        return self._buckets.has(name)

    def clusters(self) -> list[str]:
        """Return the clusters that this account has in the region, as their states say."""
        return sorted(
            name.removesuffix("/state") for name in self._buckets.names() if name.endswith("/state")
        )

    @refusals_told()
    def has_cluster(self, cluster_id: str) -> bool:
        return cluster_id in self.clusters()

    @refusals_told()
    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not gone."""
        filters = [
            {"Name": f"tag:{TAG}", "Values": [cluster_id]},
            {
                "Name": "instance-state-name",
                "Values": ["pending", "running", "stopping", "stopped"],
            },
        ]
        pages = self.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [
            i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]
        ]

    def state_of(self, machine: str) -> str:
        """Return whether a machine runs, in the words of EC2."""
        from botocore.exceptions import ClientError

        try:
            answer = self.client("ec2").describe_instances(InstanceIds=[machine])
            return str(answer["Reservations"][0]["Instances"][0]["State"]["Name"])
        except (ClientError, LookupError):
            return "gone"

    @refusals_told()
    def terminate(self, machines: Sequence[str]) -> None:
        for start in range(0, len(machines), 100):
            self.client("ec2").terminate_instances(InstanceIds=list(machines[start : start + 100]))

    @refusals_told()
    def forget_machines(self, cluster_id: str) -> None:
        """Delete the launch templates, which the cluster itself made; Terraform does not know of them."""
        ec2 = self.client("ec2")
        ours = [{"Name": f"tag:{TAG}", "Values": [cluster_id]}]
        for page in ec2.get_paginator("describe_launch_templates").paginate(Filters=ours):
            for template in page["LaunchTemplates"]:
                ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])

    @refusals_told()
    def tagged(self, cluster_id: str) -> list[str]:
        """Return the resources with the cluster's tag in this region, without kept data and without machines."""
        pages = (
            self.client("resourcegroupstaggingapi")
            .get_paginator("get_resources")
            .paginate(TagFilters=[{"Key": TAG, "Values": [cluster_id]}])
        )
        found = [str(r["ResourceARN"]) for page in pages for r in page["ResourceTagMappingList"]]
        return [arn for arn in found if not _KEPT.search(arn)]

    def groups_of_services(self, cluster_id: str) -> dict[str, str]:
        """Return the security groups that services of AWS made in the cluster's network, with who made each."""
        networks = self._networks(cluster_id)
        if not networks:
            return {}
        names = [_ORIGIN_GROUP, *(f"{_GUARD_GROUP}{network}" for network in networks)]
        made = [{"Name": "group-name", "Values": names}, {"Name": "vpc-id", "Values": networks}]
        found = self.client("ec2").describe_security_groups(Filters=made)["SecurityGroups"]
        return {
            group["GroupId"]: "CloudFront" if group["GroupName"] == _ORIGIN_GROUP else "GuardDuty"
            for group in found
        }

    def guard_endpoints(self, cluster_id: str) -> list[str]:
        """Return the endpoints that GuardDuty made in the cluster's network, and that are not gone yet."""
        networks = self._networks(cluster_id)
        if not networks:
            return []
        there = [{"Name": "vpc-id", "Values": networks}]
        found = self.client("ec2").describe_vpc_endpoints(Filters=there)["VpcEndpoints"]
        return [
            str(endpoint["VpcEndpointId"])
            for endpoint in found
            if endpoint["ServiceName"].endswith(_GUARD_ENDPOINT)
            and endpoint["State"].lower() != "deleted"
        ]

    def _networks(self, cluster_id: str) -> list[str]:
        ours = [{"Name": f"tag:{TAG}", "Values": [cluster_id]}]
        return [vpc["VpcId"] for vpc in self.client("ec2").describe_vpcs(Filters=ours)["Vpcs"]]

    def backend(self, cluster_id: str) -> Backend:
        """Return where Terraform keeps the state of a cluster, and locks it."""
        settings = {
            "bucket": self.state_bucket, "key": f"{cluster_id}/state", "region": self.region,
            "encrypt": "true", "use_lockfile": "true",
        }  # fmt: skip
        if self.endpoint_url:
            services = ("s3", "sts", "iam", "dynamodb")
            endpoints = ", ".join(f'{name}="{self.endpoint_url}"' for name in services)
            settings |= {"endpoints": f"{{{endpoints}}}", "use_path_style": "true"}
        return Backend("s3", settings)

    def forget_state(self, cluster_id: str) -> None:
        for name in ("state", "options.json"):
            self._buckets.delete(f"{cluster_id}/{name}")

    def options(self, cluster_id: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        try:
            options: dict[str, Any] = json.loads(self._read(f"{cluster_id}/options.json") or "{}")
        except ClientError as e:
            raise CommandError(
                f"the options of the last time cannot be read: {e}", "ask for s3 rights on it"
            ) from e
        return options

    def keep_options(self, cluster_id: str, options: Mapping[str, Any]) -> None:
        self._buckets.write(f"{cluster_id}/options.json", json.dumps(options).encode())

    def secrets_key(self, database: str) -> str:
        """Return the key with which secrets in a database are encrypted, also of a cluster that is gone.

        Empty where nobody knows it.
        """
        kept = self._read(restoring.place_of_key(database))
        if kept:
            return kept
        owners = [c for c in self.clusters() if f"det-{c}".lower() == database]
        states = (json.loads(self._read(f"{c}/state") or "{}") for c in owners)
        return next((key for state in states if (key := restoring.key_in(state))), "")

    def keep_secrets_key(self, database: str, key: str) -> None:
        """Store the key of a database beside the states of clusters, for its snapshots."""
        self._buckets.write(restoring.place_of_key(database), key.encode())

    def _read(self, name: str) -> str:
        """Return a text of the bucket of states; empty where there is none."""
        return (self._buckets.read(name) or b"").decode()

    def drop_versions(self, function: str, kept: Container[str]) -> None:
        """Delete published versions of a function, but its newest, those of its aliases and those to keep."""
        client = self.client("lambda")
        aliases = client.get_paginator("list_aliases").paginate(FunctionName=function)
        used = {str(alias["FunctionVersion"]) for page in aliases for alias in page["Aliases"]}
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        names = [str(version["Version"]) for page in pages for version in page["Versions"]]
        published = sorted((name for name in names if name.isdigit()), key=int)
        for version in published[:-_NEWEST_VERSIONS]:
            if version not in used and version not in kept:
                client.delete_function(FunctionName=function, Qualifier=version)

    def stop_function(self, name: str) -> None:
        """Let a function not run again, if it is still there."""
        functions = self.client("lambda")
        try:
            functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
        except functions.exceptions.ResourceNotFoundException:
            return
