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
# What EC2 says of a machine that ended as it started, most often as it could not encrypt its volume.
_KEY_REFUSED = "Client.InternalError"


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
        ended_because=_ended_because(instance),
        taken_back=instance.get("StateReason", {}).get("Code", "") in _TAKEN_BACK,
    )


def _ended_because(instance: dict[str, Any]) -> str:
    """Return why EC2 ended an instance, with the cause that it leaves out: a key that the renting role may not use."""
    reason = instance.get("StateReason", {})
    said = str(reason.get("Message", ""))
    if reason.get("Code", "") == _KEY_REFUSED:
        return f"{said} (most often, the role that rents may not use the key of KMS that encrypts the volume)"
    return said


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
