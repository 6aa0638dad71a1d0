"""EC2's instances as the control plane sees machines."""

from typing import Any
from uuid import UUID

from det_controlplane.core.provision.offers import Capacity
from det_controlplane.ports.compute import CloudMachine, CloudState

from det_provisioner_aws.parameters import MACHINE_TAG, POOL_TAG
from det_provisioner_aws.settings import PROVIDER

_STATES: dict[str, CloudState] = {
    "pending": "pending",
    "running": "running",
    "shutting-down": "stopping",
    "stopping": "stopping",
    "stopped": "stopped",
    "terminated": "gone",
}

# States of machines that EC2 ended because it needs their capacity, or had none after all.
_TAKEN_BACK = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceShutdown",
    "Server.InsufficientInstanceCapacity",
)


def machine_of(instance: dict[str, Any], region: str) -> CloudMachine:
    """Read an instance of an answer."""
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    spot = instance.get("InstanceLifecycle") == "spot"
    return CloudMachine(
        provider=PROVIDER,
        region=region,
        zone=instance.get("Placement", {}).get("AvailabilityZone", ""),
        cloud_id=instance["InstanceId"],
        state=_STATES.get(instance["State"]["Name"], "running"),
        machine_type=instance.get("InstanceType", ""),
        capacity=(Capacity.SPOT if spot else Capacity.ON_DEMAND).value,
        machine_id=_uuid(tags.get(MACHINE_TAG, "")),
        pool=tags.get(POOL_TAG, ""),
        ended_because=instance.get("StateReason", {}).get("Message", ""),
        taken_back=instance.get("StateReason", {}).get("Code", "") in _TAKEN_BACK,
    )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
