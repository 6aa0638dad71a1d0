"""Make the parameters of a launch, for RunInstances and for launch templates."""

import base64
import hashlib
import json
from typing import Any

from det_controlplane.core.provision.offers import Capacity
from det_controlplane.ports.compute import LaunchRequest

from det_provisioner_aws.places import Image, Target
from det_provisioner_aws.settings import AwsSettings

# Tags for finding machines. IAM policies may have conditions on the first.
CLUSTER_TAG = "determined-cluster"
MACHINE_TAG = "determined-machine"
LAUNCH_TAG = "determined-launch"
POOL_TAG = "determined-resource-pool"
_SPOT_REQUEST = "spot-instances-request"

# The throughput of gp3 volumes without extra charge. Images with CUDA have 10 to 20 GB and load slowly at that rate.
_GP3_THROUGHPUT, _GP3_IOPS = 125, 3000
_GPU_THROUGHPUT = 500
_IOPS_PER_THROUGHPUT = 4  # the IOPS that EC2 requires for each MiB/s

Parameters = dict[str, Any]


def launch_parameters(settings: AwsSettings, image: Image, *, has_gpus: bool) -> Parameters:
    """Return the launch parameters that are common to all machines of a pool's section."""
    common: Parameters = {
        "ImageId": image.image_id,
        "BlockDeviceMappings": [
            {"DeviceName": image.root_device, "Ebs": _root_volume(settings, image, has_gpus)}
        ],
        "NetworkInterfaces": _interfaces(settings),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
        },
    }
    if settings.key_name:
        common["KeyName"] = settings.key_name
    if settings.instance_profile:
        by = "Arn" if settings.instance_profile.startswith("arn:") else "Name"
        common["IamInstanceProfile"] = {by: settings.instance_profile}
    if settings.named_group:
        common["Placement"] = {"GroupName": settings.named_group}
    if settings.capacity_reservation:
        reservation = {"CapacityReservationId": settings.capacity_reservation}
        common["CapacityReservationSpecification"] = {"CapacityReservationTarget": reservation}
    return common


def run_parameters(
    common: Parameters,
    request: LaunchRequest,
    settings: AwsSettings,
    target: Target,
    token: str,
    group: str = "",
) -> Parameters:
    """Return the parameters of RunInstances for one target, in a placement group if one is given."""
    subnet = {"SubnetId": target.subnet.subnet_id}
    parameters = {
        **common,
        "NetworkInterfaces": [{**i, **subnet} for i in common["NetworkInterfaces"]],
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": target.offer.machine_type,
        "UserData": request.user_data,
        "ClientToken": token,
        "TagSpecifications": _tag_specifications(
            _own_tags(request, settings), "instance", "volume"
        ),
    }
    if group:
        parameters["Placement"] = {"GroupName": group}
    if target.offer.capacity is Capacity.SPOT:
        parameters["TagSpecifications"] += _tag_specifications(
            _shared_tags(request, settings), _SPOT_REQUEST
        )
        spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if settings.spot_max_price:
            spot["MaxPrice"] = settings.spot_max_price
        parameters["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": spot}
    return parameters


def group_parameters(request: LaunchRequest, settings: AwsSettings, group: str) -> Parameters:
    """Return the parameters of CreatePlacementGroup. Machines of the group are close to each other."""
    return {
        "GroupName": group,
        "Strategy": "cluster",
        "TagSpecifications": _tag_specifications(
            _shared_tags(request, settings), "placement-group"
        ),
    }


def template_data(
    common: Parameters, request: LaunchRequest, settings: AwsSettings, capacity: Capacity
) -> Parameters:
    """Return the content of a launch template."""
    data = dict(common)
    if request.user_data:
        data["UserData"] = base64.b64encode(request.user_data.encode()).decode()
    if capacity is Capacity.SPOT:  # CreateFleet has no parameter for the tags of spot requests
        data["TagSpecifications"] = _tag_specifications(
            _shared_tags(request, settings), _SPOT_REQUEST
        )
    return data


def template_name(cluster_id: str, data: Parameters) -> str:
    """Return a name that contains a hash of the content, so that different contents have different names."""
    content = json.dumps(data, sort_keys=True).encode()
    return f"determined-{cluster_id}-{hashlib.sha256(content).hexdigest()[:16]}"


def fleet_parameters(
    template: str, request: LaunchRequest, settings: AwsSettings, targets: list[Target]
) -> Parameters:
    """Return the parameters of CreateFleet for one machine at once. EC2 chooses the target."""
    spot = targets[0].offer.capacity is Capacity.SPOT
    parameters: Parameters = {
        "Type": "instant",
        "ClientToken": request.token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": template,
                    "Version": "$Latest",
                },
                "Overrides": [_override(t, settings, rank) for rank, t in enumerate(targets)],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "TagSpecifications": _tag_specifications(
            _own_tags(request, settings), "fleet", "instance", "volume"
        ),
    }
    if spot:
        parameters["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    else:
        parameters["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    return parameters


def _shared_tags(request: LaunchRequest, settings: AwsSettings) -> dict[str, str]:
    """Return the tags of all machines of the pool. Policies require the cluster's tag on every new resource."""
    return {**settings.tags, CLUSTER_TAG: request.cluster_id, POOL_TAG: request.pool}


def _own_tags(request: LaunchRequest, settings: AwsSettings) -> dict[str, str]:
    machine_tags = {MACHINE_TAG: str(request.machine_id), LAUNCH_TAG: request.token}
    return {**_shared_tags(request, settings), **machine_tags}


def _tag_specifications(tags: dict[str, str], *kinds: str) -> list[Parameters]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]


def _override(target: Target, settings: AwsSettings, rank: int) -> Parameters:
    override: Parameters = {
        "InstanceType": target.offer.machine_type,
        "SubnetId": target.subnet.subnet_id,
    }
    if target.offer.capacity is Capacity.ON_DEMAND:
        override["Priority"] = float(rank)
    elif settings.spot_max_price:
        override["MaxPrice"] = settings.spot_max_price
    return override


def _root_volume(settings: AwsSettings, image: Image, has_gpus: bool) -> Parameters:
    volume: Parameters = {
        "VolumeSize": max(settings.root_gib, image.least_gib),
        "VolumeType": settings.root_type,
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    throughput = settings.root_throughput or (_GPU_THROUGHPUT if has_gpus else 0)
    if settings.root_type == "gp3" and throughput > _GP3_THROUGHPUT:
        volume["Throughput"] = throughput
        if throughput > _GP3_IOPS // _IOPS_PER_THROUGHPUT:
            volume["Iops"] = throughput * _IOPS_PER_THROUGHPUT
    if settings.kms_key:
        volume["KmsKeyId"] = settings.kms_key
    return volume


def _interfaces(settings: AwsSettings) -> list[Parameters]:
    """Return one interface, or one for each network card of a machine with Elastic Fabric Adapters."""
    groups = {"Groups": list(settings.security_groups)} if settings.security_groups else {}
    if settings.efa_interfaces < 2:
        first: Parameters = {
            "DeviceIndex": 0,
            "AssociatePublicIpAddress": settings.public_ip,
            "DeleteOnTermination": True,
            **groups,
        }
        return [{**first, "InterfaceType": "efa"} if settings.efa_interfaces else first]
    return [
        {
            "DeviceIndex": 0 if card == 0 else 1,
            "NetworkCardIndex": card,
            "InterfaceType": "efa",
            "DeleteOnTermination": True,
            **groups,
        }
        for card in range(settings.efa_interfaces)
    ]
