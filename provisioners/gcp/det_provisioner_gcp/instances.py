"""Describe machines in the JSON format of the Compute Engine API, which `base_config` also uses."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.ports.compute import LaunchRequest

from det_provisioner_gcp import naming
from det_provisioner_gcp.settings import Accelerators, GcpSettings

Json = dict[str, Any]

# Prefixes of machine types with built-in GPUs.
_BUILT_IN = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")
_TAKES_GPUS = "n1-"
# Prefixes of machine types without support for persistent disks.
_HYPERDISK_ONLY = (
    "a3-ultragpu-", "a4-", "a4x-", "c4-", "c4a-", "c4d-", "g4-", "h4d-", "n4-", "n4a-", "n4d-",
)  # fmt: skip
# Prefixes of machine types with support for compact placement policies. Others start without one.
_COMPACT = (
    "a2-", "a3-", "a4-", "a4x-", "c2-", "c2d-", "c3-", "c3d-", "c4-", "c4d-", "g2-", "g4-",
    "h3-", "h4d-", "n2-", "n2d-",
)  # fmt: skip
_CLOUD_INIT = ("#cloud-config", "## template:", "Content-Type: multipart", "MIME-Version:")


def takes_policies(offer: Offer) -> bool:
    """Return whether Google Cloud supports compact placement policies for a machine type."""
    return offer.machine_type.startswith(_COMPACT)


def zonal_instance(
    request: LaunchRequest, offer: Offer, settings: GcpSettings, policy: str = ""
) -> Json:
    """Return the description of a machine for an offer in a zone, in a compact placement policy if one is given."""
    zone = f"projects/{settings.project}/zones/{offer.zone}"
    machine = _machine(request, offer, settings)
    for disk in machine["disks"]:
        params = disk["initializeParams"]
        params["diskType"] = f"{zone}/diskTypes/{params['diskType']}"
    for accelerator in machine.get("guestAccelerators", ()):
        accelerator["acceleratorType"] = f"{zone}/acceleratorTypes/{accelerator['acceleratorType']}"
    policy = policy or settings.named_policy
    if policy:
        within = f"projects/{settings.project}/regions/{offer.region}/resourcePolicies/"
        machine["resourcePolicies"] = [_path(policy, within)]
        machine["scheduling"]["onHostMaintenance"] = "TERMINATE"  # such machines do not migrate
    return merged(
        settings.base_config,
        {
            "name": naming.machine_name(request),
            "machineType": f"{zone}/machineTypes/{offer.machine_type}",
            **machine,
        },
    )


def regional_instance(
    request: LaunchRequest, offers: Sequence[Offer], settings: GcpSettings, policy: str = ""
) -> Json:
    """Return a bulk insert of one machine, in any zone of the region and of the first available type."""
    properties = merged(settings.base_config, _machine(request, offers[0], settings))
    policy = policy or settings.named_policy
    if policy:  # properties of several machines have names instead of paths
        properties["resourcePolicies"] = [policy.rpartition("/")[2]]
        scheduling = {**properties.get("scheduling", {}), "onHostMaintenance": "TERMINATE"}
        properties["scheduling"] = scheduling
    bulk: Json = {
        "count": 1,
        "minCount": 1,
        "perInstanceProperties": {naming.machine_name(request): {}},
        "locationPolicy": {"targetShape": "ANY_SINGLE_ZONE"},
        "instanceProperties": properties,
    }
    if len(offers) == 1:
        properties["machineType"] = offers[0].machine_type
        return bulk
    selections = {
        f"choice-{rank}": {"rank": rank, "machineTypes": [offer.machine_type]}
        for rank, offer in enumerate(offers, start=1)
    }
    bulk["instanceFlexibilityPolicy"] = {"instanceSelections": selections}
    return bulk


def may_share_a_call(first: Offer, second: Offer, settings: GcpSettings) -> bool:
    """Return whether one bulk insert can request both offers. Only the machine types in it may differ."""
    has_same_disk = _disk_type(first, settings) == _disk_type(second, settings)
    return (
        has_same_disk
        and _has_gpu(first, settings) == _has_gpu(second, settings)
        and not settings.attached
    )


def merged(base: Mapping[str, Any], ours: Mapping[str, Any]) -> Json:
    """Return `base` overridden by `ours`. Objects are merged recursively; lists are replaced."""
    result = dict(base)
    for key, value in ours.items():
        existing = result.get(key)
        mergeable = isinstance(existing, Mapping) and isinstance(value, Mapping)
        result[key] = merged(existing, value) if mergeable else value  # type: ignore[arg-type]
    return result


def _machine(request: LaunchRequest, offer: Offer, settings: GcpSettings) -> Json:
    """Return the machine's properties that do not depend on the zone, with unqualified type names."""
    machine: Json = {
        "disks": [_boot_disk(request, offer, settings)],
        "networkInterfaces": [_network(offer.region, settings)],
        "scheduling": _scheduling(offer, settings),
        "labels": _labels(request, settings),
        "metadata": {"items": _metadata(request, settings)},
        "serviceAccounts": [
            {"email": settings.service_account, "scopes": list(settings.scopes)},
        ],
        "shieldedInstanceConfig": {
            "enableSecureBoot": settings.shielded.secure_boot,
            "enableVtpm": settings.shielded.vtpm,
            "enableIntegrityMonitoring": settings.shielded.integrity_monitoring,
        },
    }
    if settings.network_tags:
        machine["tags"] = {"items": list(settings.network_tags)}
    attached = _choose_accelerators(offer, settings)
    if attached:
        machine["guestAccelerators"] = [
            {"acceleratorType": attached.type, "acceleratorCount": attached.count}
        ]
    return machine


def _boot_disk(request: LaunchRequest, offer: Offer, settings: GcpSettings) -> Json:
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": settings.image,
            "diskSizeGb": settings.disk_gb,
            "diskType": _disk_type(offer, settings),
            # A disk does not inherit the labels of its machine. Without them the bill could not name the cluster.
            "labels": _labels(request, settings),
        },
    }


def _disk_type(offer: Offer, settings: GcpSettings) -> str:
    default = (
        "hyperdisk-balanced" if offer.machine_type.startswith(_HYPERDISK_ONLY) else "pd-balanced"
    )
    return settings.disk_type.rpartition("/")[2] or default


def _network(region: str, settings: GcpSettings) -> Json:
    project = f"projects/{settings.project}"
    interface: Json = {}
    if settings.subnetwork:
        within = f"{project}/regions/{region}/subnetworks/"
        interface["subnetwork"] = _path(settings.subnetwork, within)
    if settings.network or not settings.subnetwork:
        within = f"{project}/global/networks/"
        interface["network"] = _path(settings.network or "default", within)
    if settings.has_external_ip:
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface


def _path(name: str, within: str) -> str:
    return name if "/" in name else within + name


def _scheduling(offer: Offer, settings: GcpSettings) -> Json:
    """Return the scheduling settings. A machine that ended is replaced and never restarted."""
    scheduling: Json = {"automaticRestart": False}
    is_spot = offer.capacity is Capacity.SPOT
    if is_spot:
        scheduling |= {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
    if is_spot or _has_gpu(offer, settings):
        scheduling["onHostMaintenance"] = "TERMINATE"
    return scheduling


def _has_gpu(offer: Offer, settings: GcpSettings) -> bool:
    return _choose_accelerators(offer, settings) is not None or offer.machine_type.startswith(
        _BUILT_IN
    )


def _choose_accelerators(offer: Offer, settings: GcpSettings) -> Accelerators | None:
    return settings.attached if offer.machine_type.startswith(_TAKES_GPUS) else None


def _labels(request: LaunchRequest, settings: GcpSettings) -> Mapping[str, str]:
    labels = {
        naming.label_key(k): naming.label_value(v) for k, v in settings.labels.items()
    }  # fmt: skip
    return {
        **labels,
        naming.CLUSTER_LABEL: naming.label_value(request.cluster_id),
        naming.MACHINE_LABEL: request.machine_id.hex,
        naming.POOL_LABEL: naming.label_value(request.pool),
    }


def _metadata(request: LaunchRequest, settings: GcpSettings) -> Sequence[Mapping[str, str]]:
    """Return the metadata items, including items of `base_config` with other keys."""
    base_items = settings.base_config.get("metadata", {}).get("items", [])
    is_cloud_init = request.user_data.lstrip().startswith(_CLOUD_INIT)
    script = "user-data" if is_cloud_init else "startup-script"
    ours = {naming.POOL_METADATA: request.pool, script: request.user_data}
    other_items = [item for item in base_items if item.get("key") not in ours]
    return [*other_items, *({"key": key, "value": value} for key, value in ours.items())]
