"""EC2's instances as machines of the box: their launch data in moto, and their metadata."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from moto.ec2 import ec2_backends
from moto.iam import iam_backends

from tests.support.cloudbox.metadata import Ec2Metadata, as_text
from tests.support.cloudbox.roles import Role, Sts

ACCOUNT = "123456789012"
PROFILE = f"arn:aws:iam::{ACCOUNT}:instance-profile/agent"
# A second of a machine costs 45 cents, so that sums of money show seconds.
SPOT_USD_HOUR = 1620
_PRICE = (
    "<item><instanceType>g4dn.xlarge</instanceType><productDescription>Linux/UNIX</productDescription>"
    f"<spotPrice>{SPOT_USD_HOUR}.00</spotPrice><timestamp>2026-01-01T00:00:00.000Z</timestamp>"
    "<availabilityZone>us-west-2{zone}</availabilityZone></item>"
)
SPOT_PRICES = (
    "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>"
    f"{''.join(_PRICE.format(zone=zone) for zone in 'abc')}"
    "</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>"
)
NOTICE = timedelta(minutes=2)  # between the notice of an interruption and the interruption


@dataclass
class Ec2Instance:
    """An instance in moto's list, with EC2's metadata while it runs."""

    region: str
    found: Any  # moto's instance
    launched: Mapping[str, Any]  # how, in the words of a launch template
    sts: Sts
    consoles: dict[str, str]
    role: Role | None = None
    document: dict[str, Any] = field(default_factory=dict)  # instead of the right one's facts
    events: dict[str, str] = field(default_factory=dict)

    @property
    def cloud_id(self) -> str:
        return str(self.found.id)

    @property
    def name(self) -> str:
        return f"ip-{str(self.found.private_ip).replace('.', '-')}"

    @property
    def place(self) -> str:
        return str(self.found.placement.zone)

    @property
    def image(self) -> str:
        return str(self.found.image_id)

    @property
    def user_data(self) -> str:
        data = self.found.user_data
        return data.decode() if data is not None else ""

    @property
    def is_on(self) -> bool:
        return bool(self.found.state == "running")

    def metadata(self) -> Ec2Metadata:
        options = self.launched.get("MetadataOptions", {})
        hops = int(options.get("HttpPutResponseHopLimit", 1))
        return Ec2Metadata(self._tree, hops, options.get("HttpTokens") == "required")

    def announce(self) -> None:
        """Tell the instance that its spot capacity is interrupted."""
        at = (datetime.now(timezone.utc) + NOTICE).strftime("%Y-%m-%dT%H:%M:%SZ")
        notice = json.dumps({"action": "terminate", "time": at})
        self.events["meta-data/spot/instance-action"] = notice

    def take(self) -> None:
        """Take the instance back, as EC2 does when its notice is over."""
        self._ended("Server.SpotInstanceTermination: Spot instance termination")

    def powered_off(self) -> None:
        """End or stop the instance as its launch chose, since it switched itself off."""
        if not self.is_on:
            return
        reason = "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
        if self.launched.get("InstanceInitiatedShutdownBehavior") == "terminate":
            self._ended(reason)
        else:
            self.found._state.name, self.found._state.code = "stopped", 80

    def show_console(self, text: str) -> None:
        self.consoles[self.cloud_id] = text

    def _assumed(self) -> Role | None:
        """Return credentials of the profile's role. Moto attaches a profile a moment after the launch."""
        backend = ec2_backends[ACCOUNT][self.region]
        bound = backend.iam_instance_profile_associations.get(self.cloud_id)
        of_template = self.launched.get("IamInstanceProfile", {}).get("Arn", "")
        arn = bound.iam_instance_profile.arn if bound else of_template
        if not arn:
            return None
        profile = iam_backends[ACCOUNT]["aws"].get_instance_profile(arn.rpartition("/")[2])
        return self.sts.assume(ACCOUNT, profile.roles[0].name, self.cloud_id)

    def _ended(self, reason: str) -> None:
        self.found._state.name, self.found._state.code = "terminated", 48
        self.found.state_reason.message = reason

    def _tree(self) -> Mapping[str, str]:
        document = {
            "accountId": ACCOUNT, "architecture": "x86_64", "availabilityZone": self.place,
            "imageId": self.image, "instanceId": self.cloud_id, "region": self.region,
            "instanceType": self.found.instance_type, "version": "2017-09-30", **self.document,
        }  # fmt: skip
        tree = {
            "dynamic/instance-identity/document": as_text(document),
            "meta-data/instance-id": self.cloud_id,
            "meta-data/local-hostname": self.name,
            "meta-data/placement/availability-zone": self.place,
            "meta-data/events/maintenance/scheduled": "[]",
            "user-data": self.user_data,
            **self.events,
        }
        self.role = self.role or self._assumed()
        if self.role is not None:
            roles = "meta-data/iam/security-credentials/"
            tree |= {roles: self.role.name, roles + self.role.name: self.role.shown()}
        return tree


@dataclass
class Ec2:
    """Finds moto's instances of some regions, each with the credentials of its role."""

    sts: Sts
    regions: tuple[str, ...]
    consoles: dict[str, str]  # what GetConsoleOutput answers
    _known: dict[str, Ec2Instance] = field(default_factory=dict)

    def instances(self) -> Iterator[Ec2Instance]:
        for region in self.regions:
            for instance in list(ec2_backends[ACCOUNT][region].all_instances()):
                if instance.id not in self._known:
                    options = _options(region, instance)
                    if options is None:
                        continue
                    self._known[instance.id] = Ec2Instance(
                        region, instance, options, self.sts, self.consoles
                    )
                yield self._known[instance.id]


def _options(region: str, instance: Any) -> Mapping[str, Any] | None:
    """Return how an instance was launched, or None while moto still makes its fleet.

    Of fleets' instances moto forgets most of their template.
    """
    backend = ec2_backends[ACCOUNT][region]
    fleet_id = instance._fleet_id or instance._spot_fleet_id
    if fleet_id:
        fleet = backend.get_fleet(fleet_id)
        if fleet is None:
            return None
        (config,) = fleet.launch_template_configs
        name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        data: Mapping[str, Any] = backend.get_launch_template_by_name(name).default_version().data
        return data
    return {
        "InstanceInitiatedShutdownBehavior": instance.instance_initiated_shutdown_behavior,
        "MetadataOptions": {
            "HttpTokens": instance.metadata_options.http_tokens,
            "HttpPutResponseHopLimit": instance.metadata_options.http_put_response_hop_limit,
        },
    }


@contextmanager
def account() -> Iterator[None]:
    """Have an account with the machines' instance profile, and empty again afterwards."""
    iam = iam_backends[ACCOUNT]["aws"]
    name = PROFILE.rpartition("/")[2]
    iam.create_role(name, "{}", "/", None, "", [], None)
    iam.create_instance_profile(name, "/", [name])
    yield
    iam.remove_role_from_instance_profile(name, name)
    iam.delete_instance_profile(name)
    iam.delete_role(name)
    for backend in ec2_backends[ACCOUNT].values():
        backend.reservations.clear()
