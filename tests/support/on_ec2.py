"""EC2, simulated by moto, for tests of the provisioner."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.ports.compute import CloudMachine, Compute, Place
from moto.ec2 import ec2_backends

from tests.support.fake_ec2 import ACCOUNT, FAILURES, Wire

REGION = "us-west-2"


@dataclass
class OnEc2:
    """EC2, simulated by moto, for the contract."""

    compute: Compute
    wire: Wire
    client: Any
    place: Place
    more_than_a_page: int = 7  # a page has five machines

    def offers(self, capacity: Capacity) -> tuple[Offer, ...]:
        return tuple(
            Offer("aws", REGION, f"{REGION}a", name, capacity, 1, Decimal(price))
            for name, price in (("g5.xlarge", 1), ("g5.2xlarge", 2))
        )

    def refuse(self, offer: Offer, kind: RefusalKind) -> None:
        self.wire.failures[offer.machine_type, offer.capacity.value] = FAILURES[kind]

    def allow(self) -> None:
        self.wire.failures.clear()

    def lose_next_answer(self) -> None:
        self.wire.loses_launch = True

    def disconnect(self) -> None:
        self.wire.connected = False

    def reclaim(self, machine: CloudMachine) -> None:
        self.client.terminate_instances(InstanceIds=[machine.cloud_id])
        reason = ec2_backends[ACCOUNT][REGION].get_instance(machine.cloud_id).state_reason
        reason.code, reason.message = "Server.SpotInstanceTermination", "Spot instance termination"

    def print_on_console(self, machine: CloudMachine, text: str) -> None:
        self.wire.consoles[machine.cloud_id] = text

    def add_stranger(self) -> None:
        self.client.run_instances(
            ImageId=self.place.settings["image_id"], MinCount=1, MaxCount=1, ClientToken="stranger"
        )
