"""Buckets that `det deploy aws` uses. Each call states the expected owner, because any account can take a name."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from det_cli.errors import CommandError

# Names with this suffix belong to the account and the region in the name: other accounts cannot take them.
_OWN_NAMESPACE = "-an"
# S3 does not have this namespace in these regions.
_WITHOUT_NAMESPACE = ("me-south-1", "me-central-1")
_ABSENT = ("NoSuchKey", "NoSuchBucket", "404")


class Buckets:
    """The account's bucket for Terraform states in a region, and checks of other buckets."""

    def __init__(self, client: Callable[[], Any], account: Callable[[], str], region: str) -> None:
        self._client = client
        self._account = account
        self._region = region

    @cached_property
    def states(self) -> str:
        """Return the name of the existing bucket for states, or the name for a new bucket."""
        common = f"determined-state-{self._account()}-{self._region}"
        if self.has(f"{common}{_OWN_NAMESPACE}"):
            return f"{common}{_OWN_NAMESPACE}"
        if self._is_ours(common):
            return common
        return f"{common}{_OWN_NAMESPACE}" if self._has_namespace() else common

    def make_states(self) -> None:
        """Create the bucket for states if this is the account's first cluster in the region."""
        name = self.states
        if self.has(name):
            return
        more: dict[str, Any] = {}
        if self._region != "us-east-1":
            more["CreateBucketConfiguration"] = {"LocationConstraint": self._region}
        if name.endswith(_OWN_NAMESPACE):
            more["BucketNamespace"] = "account-regional"
        self._client().create_bucket(Bucket=name, **more)
        self._call(
            "put_public_access_block",
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True, "IgnorePublicAcls": True,
                "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
            },
        )  # fmt: skip
        self._call("put_bucket_versioning", VersioningConfiguration={"Status": "Enabled"})

    def has(self, name: str) -> bool:
        """Return True if the account has the bucket. Raises CommandError for a bucket of another account."""
        status = self._status(name)
        if status == 404:
            return False
        if status != 200:
            raise CommandError(
                f"the bucket {name} cannot be used: it belongs to another account, or you have no permissions on it",
                "request S3 permissions on it, or choose another name (--var bucket=NAME)",
            )
        return True

    def names(self) -> list[str]:
        """Return the names of all objects in the bucket for states."""
        return self.objects(self.states)

    def objects(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the names of objects in a bucket. Raises CommandError for a bucket of another account."""
        if not self.has(bucket):
            return []
        paginator = self._client().get_paginator("list_objects_v2")
        pages = paginator.paginate(
            Bucket=bucket, Prefix=prefix, ExpectedBucketOwner=self._account()
        )
        return [str(item["Key"]) for page in pages for item in page.get("Contents", ())]

    def read(self, name: str) -> bytes | None:
        """Return the content of an object in the bucket for states, or None if it does not exist."""
        from botocore.exceptions import ClientError

        if not self.has(self.states):
            return None
        try:
            return bytes(self._call("get_object", Key=name)["Body"].read())
        except ClientError as e:
            if e.response["Error"]["Code"] in _ABSENT:
                return None
            raise

    def write(self, name: str, content: bytes) -> None:
        self._call("put_object", Key=name, Body=content, ServerSideEncryption="AES256")

    def delete(self, name: str) -> None:
        self._call("delete_object", Key=name)

    def _is_ours(self, name: str) -> bool:
        """Return True if the bucket belongs to the account. A bucket of another account only blocks the name.

        Raises CommandError if the owner is unknown, because the bucket could contain states of clusters."""
        from botocore.exceptions import ClientError

        status = self._status(name)
        if status in (200, 404):
            return status == 200
        try:
            buckets = self._client().list_buckets()["Buckets"]
        except ClientError:
            buckets = [{"Name": name}]
        if self._has_namespace() and name not in [str(bucket["Name"]) for bucket in buckets]:
            return False
        return self.has(name)

    def _status(self, name: str) -> int:
        from botocore.exceptions import ClientError

        try:
            self._client().head_bucket(Bucket=name, ExpectedBucketOwner=self._account())
        except ClientError as e:
            return int(e.response["ResponseMetadata"]["HTTPStatusCode"])
        return 200

    def _has_namespace(self) -> bool:
        operation = self._client().meta.service_model.operation_model("CreateBucket")
        is_supported = "BucketNamespace" in operation.input_shape.members
        return is_supported and self._region not in _WITHOUT_NAMESPACE

    def _call(self, operation: str, **more: Any) -> Any:
        return getattr(self._client(), operation)(**self._of_states(), **more)

    def _of_states(self) -> dict[str, str]:
        return {"Bucket": self.states, "ExpectedBucketOwner": self._account()}
