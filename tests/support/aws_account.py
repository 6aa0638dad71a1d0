"""An operator's account at AWS, as `det deploy aws` finds it: moto, arranged."""

import functools
import json
from typing import Any

import boto3

STATE_BUCKET = "determined-state-123456789012-us-west-2"  # of clusters of earlier versions
OWN_STATE_BUCKET = f"{STATE_BUCKET}-an"
DATA_BUCKET = "det-box-us-west-2-123456789012"
MADE = {
    "resources": [
        {
            "mode": "managed", "module": f"module.{module}", "type": kind, "name": "this",
            "instances": [{}],
        }
        for module, kind in (("storage", "aws_s3_bucket"), ("database", "aws_db_instance"))
    ]
}  # fmt: skip


class Account:
    """An account at AWS, for arrangements."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.where = ("--cluster-id", "box", "--region", "us-west-2", "--endpoint-url", url)

    def client(self, service: str, region: str = "us-west-2") -> Any:
        return _client(service, region, self.url)

    def make_bucket(self, name: str) -> None:
        place = {"LocationConstraint": "us-west-2"}
        self.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration=place)

    def has_cluster(self, name: str = "box", **options: Any) -> None:
        self.make_bucket(STATE_BUCKET)
        text = json.dumps({"var": [], **options}).encode()
        for part, content in (("state", b"{}"), ("options.json", text)):
            self.client("s3").put_object(Bucket=STATE_BUCKET, Key=f"{name}/{part}", Body=content)

    def options(self) -> Any:
        """Return the kept data of the cluster."""
        there = [bucket["Name"] for bucket in self.client("s3").list_buckets()["Buckets"]]
        bucket = STATE_BUCKET if STATE_BUCKET in there else OWN_STATE_BUCKET
        stored_options = self.client("s3").get_object(Bucket=bucket, Key="box/options.json")
        return json.loads(stored_options["Body"].read())

    def run_machine(self, region: str = "us-west-2", cluster: str = "box") -> str:
        """Rent as the cluster does: by a launch template of its own."""
        ec2 = self.client("ec2", region)
        tag = [{"Key": "determined-cluster", "Value": cluster}]
        ec2.create_launch_template(
            LaunchTemplateName=f"determined-{cluster}",
            LaunchTemplateData={"ImageId": "ami-12c6146b"},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tag}],
        )
        answer = ec2.run_instances(
            ImageId="ami-12c6146b", MinCount=1, MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tag}],
        )  # fmt: skip
        return str(answer["Instances"][0]["InstanceId"])

    def make_functions(self, *names: str) -> None:
        """Create functions as Terraform does. Aliases for an upgrade are created only if they are named."""
        role = self.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]
        functions = self.client("lambda")
        for name in names or ("migrate", "api"):
            functions.create_function(
                FunctionName=f"det-box-{name}", Runtime="python3.11", Role=role["Arn"], Handler="app.app",
                Code={"ZipFile": b"PK\x05\x06" + bytes(18)}, Publish=True,
            )  # fmt: skip
            if name == "api":
                functions.create_alias(FunctionName="det-box-api", Name="live", FunctionVersion="1")


@functools.cache
def _client(service: str, region: str, url: str) -> Any:
    return boto3.Session("testing", "testing").client(service, region_name=region, endpoint_url=url)
