"""Convert EC2 instances to machines."""

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

# State reasons of machines that EC2 ended because it needed their capacity, or had none.
_TAKEN_BACK = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceShutdown",
    "Server.InsufficientInstanceCapacity",
)
# The state reason of a machine that ended during its start, in most cases because its volume could not be encrypted.
_KEY_REFUSED = "Client.InternalError"


def machine_of(instance: dict[str, Any], region: str) -> CloudMachine:
    """Convert an instance of a response."""
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
        ended_because=_ended_because(instance),
        taken_back=instance.get("StateReason", {}).get("Code", "") in _TAKEN_BACK,
        group=instance.get("Placement", {}).get("GroupName", ""),
    )


def _ended_because(instance: dict[str, Any]) -> str:
    """Return the reason why EC2 ended an instance. Add the likely cause if EC2 does not name it."""
    reason = instance.get("StateReason", {})
    message = str(reason.get("Message", ""))
    if reason.get("Code", "") == _KEY_REFUSED:
        return f"{message} (most often, the role that rents may not use the key of KMS that encrypts the volume)"
    return message


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
