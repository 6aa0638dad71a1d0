"""The operator's AWS account: the calls that `det deploy` makes in addition to Terraform."""

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from det_cli.deployment import extras, restoring
from det_cli.deployment.aws_buckets import Buckets
from det_cli.deployment.terraform import Backend
from det_cli.errors import CommandError

TAG = "determined-cluster"
# CloudFront creates a security group for the first VPC origin in a network. GuardDuty creates one and an endpoint
# for the first machine. Neither service removes them, and they block the deletion of the network.
_ORIGIN_GROUP = "CloudFront-VPCOrigins-Service-SG"
_GUARD_GROUP = "GuardDutyManagedSecurityGroup-"  # followed by the id of the network
_GUARD_ENDPOINT = ".guardduty-data"
# Buckets and database snapshots are kept data. EC2 lists deleted machines, disks and network interfaces for an hour.
_IGNORED = re.compile(
    r"^arn:[\w-]+:s3:::|:rds:.*snapshot:|:ec2:.*:(instance|volume|network-interface|fleet|spot-instances-request)/"
)
_NEWEST_VERSIONS = 3  # versions of each function that an upgrade keeps
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403", "Forbidden")
_CONTINUE = "run the same command again to continue"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise CommandError instead of botocore's errors."""
    with extras.needed("aws"):
        import boto3  # noqa: F401  # botocore may be installed without boto3
        from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as e:
        error = e.response.get("Error", {})
        code, message = str(error.get("Code", "")), str(error.get("Message", "no reason given"))
        if code in _EXPIRED:
            raise CommandError(
                "the session at AWS has expired",
                f"run `aws sso login`, or sign in again; then {_CONTINUE}",
            ) from e
        if code in _DENIED:
            raise CommandError(
                f"AWS denies {e.operation_name}: {message}",
                f"ask an account administrator for this permission, then {_CONTINUE}",
            ) from e
        raise CommandError(
            f"AWS rejected {e.operation_name}: {code}: {message}", f"fix the cause and {_CONTINUE}"
        ) from e
    except BotoCoreError as e:
        raise CommandError(
            f"AWS cannot be reached: {e}",
            f"check connection, credentials and region, then {_CONTINUE}",
        ) from e


class Aws:
    """The operator's AWS account, in one region."""

    def __init__(self, region: str, endpoint_url: str = "", profile: str = "") -> None:
        self.region = region
        self.endpoint_url = endpoint_url
        self.profile = profile
        self._regions = {region: self}
        self._clients: dict[tuple[str, int], Any] = {}  # keys: service, read timeout (0: default)

    def client(self, service: str) -> Any:
        """Return the cached client of a service. Creating a client takes a tenth of a second or more."""
        return self._client(service)

    def client_for_one_try(self, service: str, read_timeout_s: int) -> Any:
        """Return a client without retries and with a long read timeout. TCP keep-alive keeps idle connections open."""
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
        """Return the account in a region. All regions share one session."""
        if region not in self._regions:
            other = Aws(region, self.endpoint_url, self.profile)
            other._session, other._regions = self._session, self._regions
            self._regions[region] = other
        return self._regions[region]

    @cached_property
    def _session(self) -> Any:
        import boto3

        return boto3.session.Session(profile_name=self.profile or None)

    @cached_property
    def account(self) -> str:
        """Return the account id. Raises CommandError without valid credentials."""
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            PartialCredentialsError,
        )

        hint = "run `aws configure` or `aws sso login`, or set AWS_PROFILE; `aws sts get-caller-identity` tests it"
        try:
            return str(self.client("sts").get_caller_identity()["Account"])
        except NoCredentialsError:
            raise CommandError("there are no AWS credentials", hint) from None
        except PartialCredentialsError as e:
            raise CommandError(f"the AWS credentials are not complete: {e}", hint) from e
        except ClientError as e:
            if e.response.get("Error", {}).get("Code") in ("ExpiredToken", "ExpiredTokenException"):
                raise CommandError(
                    "the session at AWS has expired", "`aws sso login`, or sign in again"
                ) from e
            raise CommandError(f"AWS does not accept the credentials: {e}", hint) from e
        except BotoCoreError as e:
            raise CommandError(
                f"AWS cannot be reached in {self.region}: {e}",
                f"check that {self.region} is a region and that this machine can reach it;"
                " `aws sts get-caller-identity` sends the same request",
            ) from e

    @cached_property
    def _buckets(self) -> Buckets:
        return Buckets(lambda: self.client("s3"), lambda: self.account, self.region)

    @property
    def state_bucket(self) -> str:
        return self._buckets.states

    def make_state_bucket(self) -> None:
        """Create the bucket for Terraform states if this is the account's first cluster in the region."""
        self._buckets.make_states()

    def has_bucket(self, name: str) -> bool:
        """Return True if the account has the bucket. Raises CommandError for a bucket of another account."""
        return self._buckets.has(name)

    def objects(self, bucket: str, prefix: str) -> list[str]:
        """Return the names of objects. Raises CommandError for a bucket of another account."""
        return self._buckets.objects(bucket, prefix)

    def clusters(self) -> list[str]:
        """Return the clusters in this region, as listed by their Terraform states."""
        return sorted(
            name.removesuffix("/state") for name in self._buckets.names() if name.endswith("/state")
        )

    @translate_errors()
    def has_cluster(self, cluster_id: str) -> bool:
        return cluster_id in self.clusters()

    @translate_errors()
    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not terminated."""
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
        """Return the EC2 state of a machine."""
        from botocore.exceptions import ClientError

        try:
            response = self.client("ec2").describe_instances(InstanceIds=[machine])
            return str(response["Reservations"][0]["Instances"][0]["State"]["Name"])
        except (ClientError, LookupError):
            return "gone"

    @translate_errors()
    def terminate(self, machines: Sequence[str]) -> None:
        for start in range(0, len(machines), 100):
            self.client("ec2").terminate_instances(InstanceIds=list(machines[start : start + 100]))

    @translate_errors()
    def forget_machines(self, cluster_id: str) -> None:
        """Delete the launch templates that the cluster created outside of Terraform."""
        ec2 = self.client("ec2")
        filters = [{"Name": f"tag:{TAG}", "Values": [cluster_id]}]
        for page in ec2.get_paginator("describe_launch_templates").paginate(Filters=filters):
            for template in page["LaunchTemplates"]:
                ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])

    @translate_errors()
    def tagged(self, cluster_id: str) -> list[str]:
        """Return the resources with the cluster's tag in this region, except kept data and machines."""
        pages = (
            self.client("resourcegroupstaggingapi")
            .get_paginator("get_resources")
            .paginate(TagFilters=[{"Key": TAG, "Values": [cluster_id]}])
        )
        arns = [str(r["ResourceARN"]) for page in pages for r in page["ResourceTagMappingList"]]
        return [arn for arn in arns if not _IGNORED.search(arn)]

    def groups_of_services(self, cluster_id: str) -> dict[str, str]:
        """Return the security groups that AWS services created in the cluster's network, with the service's name."""
        networks = self._networks(cluster_id)
        if not networks:
            return {}
        names = [_ORIGIN_GROUP, *(f"{_GUARD_GROUP}{network}" for network in networks)]
        filters = [{"Name": "group-name", "Values": names}, {"Name": "vpc-id", "Values": networks}]
        groups = self.client("ec2").describe_security_groups(Filters=filters)["SecurityGroups"]
        return {
            group["GroupId"]: "CloudFront" if group["GroupName"] == _ORIGIN_GROUP else "GuardDuty"
            for group in groups
        }

    def guard_endpoints(self, cluster_id: str) -> list[str]:
        """Return the existing GuardDuty endpoints in the cluster's network."""
        networks = self._networks(cluster_id)
        if not networks:
            return []
        filters = [{"Name": "vpc-id", "Values": networks}]
        endpoints = self.client("ec2").describe_vpc_endpoints(Filters=filters)["VpcEndpoints"]
        return [
            str(endpoint["VpcEndpointId"])
            for endpoint in endpoints
            if endpoint["ServiceName"].endswith(_GUARD_ENDPOINT)
            and endpoint["State"].lower() != "deleted"
        ]

    def _networks(self, cluster_id: str) -> list[str]:
        filters = [{"Name": f"tag:{TAG}", "Values": [cluster_id]}]
        return [vpc["VpcId"] for vpc in self.client("ec2").describe_vpcs(Filters=filters)["Vpcs"]]

    def backend(self, cluster_id: str) -> Backend:
        """Return the Terraform backend for the state and lock of a cluster."""
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
                f"the stored options cannot be read: {e}", "request S3 permissions on the bucket"
            ) from e
        return options

    def keep_options(self, cluster_id: str, options: Mapping[str, Any]) -> None:
        self._buckets.write(f"{cluster_id}/options.json", json.dumps(options).encode())

    def secrets_key(self, database: str) -> str:
        """Return the encryption key of the secrets in a database, even if its cluster was removed.

        Returns '' if the key is unknown.
        """
        stored_key = self._read(restoring.key_object(database))
        if stored_key:
            return stored_key
        owners = [c for c in self.clusters() if f"det-{c}".lower() == database]
        states = (json.loads(self._read(f"{c}/state") or "{}") for c in owners)
        return next((key for state in states if (key := restoring.key_in(state))), "")

    def keep_secrets_key(self, database: str, key: str) -> None:
        """Store the key of a database next to the Terraform states, for later restores of its snapshots."""
        self._buckets.write(restoring.key_object(database), key.encode())

    def _read(self, name: str) -> str:
        """Return the text of an object in the state bucket, or '' if it does not exist."""
        return (self._buckets.read(name) or b"").decode()

    def drop_versions(self, function: str, keep: Container[str]) -> None:
        """Delete published versions of a function, except the newest, aliased and kept versions."""
        client = self.client("lambda")
        aliases = client.get_paginator("list_aliases").paginate(FunctionName=function)
        used = {str(alias["FunctionVersion"]) for page in aliases for alias in page["Aliases"]}
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        names = [str(version["Version"]) for page in pages for version in page["Versions"]]
        published = sorted((name for name in names if name.isdigit()), key=int)
        for version in published[:-_NEWEST_VERSIONS]:
            if version not in used and version not in keep:
                client.delete_function(FunctionName=function, Qualifier=version)

    def stop_function(self, name: str) -> None:
        """Prevent a function from running again, if it exists."""
        functions = self.client("lambda")
        try:
            functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
        except functions.exceptions.ResourceNotFoundException:
            return
