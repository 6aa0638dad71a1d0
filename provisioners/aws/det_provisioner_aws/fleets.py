"""Launch a machine with an instant fleet, for which EC2 chooses the best of several offers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from botocore.exceptions import ClientError
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer
from det_controlplane.ports.compute import (
    CloudMachine,
    LaunchOutcome,
    LaunchRequest,
    Refusal,
    Unreachable,
)

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.errors import AwsError, refusal
from det_provisioner_aws.parameters import (
    CLUSTER_TAG,
    POOL_TAG,
    fleet_parameters,
    template_data,
    template_name,
)
from det_provisioner_aws.places import Target
from det_provisioner_aws.settings import PROVIDER, AwsSettings

# A template is needed only while its fleet is created, so old ones can be deleted.
TEMPLATE_LIFE = timedelta(days=1)
_LOST_TEMPLATE = ("InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound")

_NO_REASON = AwsError("UnfulfillableCapacity", "EC2 launched no machine and gave no reason")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of EC2 for an offer in a zone."""

    offer: Offer
    zone: str
    error: AwsError


class Fleets:
    """Launches machines with CreateFleet, from a launch template with their common parameters."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._templates: set[tuple[str, str]] = set()

    def launch(
        self,
        request: LaunchRequest,
        settings: AwsSettings,
        common: dict[str, Any],
        targets: Sequence[Target],
    ) -> tuple[CloudMachine | None, list[Failure]]:
        data = template_data(common, request, settings, targets[0].offer.capacity)
        answer = self._create(request, settings, data, targets)
        failures = [
            Failure(t.offer, t.subnet.zone, _error(e))
            for e in answer.get("Errors", ())
            for t in targets
            if _concerns(e, t)
        ]
        if any(f.error.code in _LOST_TEMPLATE for f in failures):
            self._templates.clear()
        machine = _machine(request, targets, answer.get("Instances", ()))
        if machine is None and not answer.get("Errors"):
            raise Unreachable(f"EC2 made fleet {answer.get('FleetId')} and named no machine")
        return machine, failures

    def _create(
        self,
        request: LaunchRequest,
        settings: AwsSettings,
        data: dict[str, Any],
        targets: Sequence[Target],
    ) -> Any:
        region = targets[0].offer.region
        template = self._template(request, region, data)
        parameters = fleet_parameters(template, request, settings, list(targets))
        try:
            return self._clients.acting("ec2", region).create_fleet(**parameters)
        except ClientError as e:
            if AwsError.of(e.response).code not in _LOST_TEMPLATE:
                raise
        self._templates.discard((region, template))  # it was deleted after this process created it
        self._template(request, region, data)
        return self._clients.acting("ec2", region).create_fleet(**parameters)

    def _template(self, request: LaunchRequest, region: str, data: dict[str, Any]) -> str:
        """Create the template unless it exists. Its name depends on its content, so templates never change."""
        name = template_name(request.cluster_id, data)
        if (region, name) in self._templates:
            return name
        tags = [
            {"Key": CLUSTER_TAG, "Value": request.cluster_id},
            {"Key": POOL_TAG, "Value": request.pool},
        ]
        try:
            self._clients.reading("ec2", region).create_launch_template(
                LaunchTemplateName=name,
                LaunchTemplateData=data,
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
            )
            self._remove_others(request, region, name)
        except ClientError as e:
            if AwsError.of(e.response).code != "InvalidLaunchTemplateName.AlreadyExistsException":
                raise
        self._templates.add((region, name))
        return name

    def _remove_others(self, request: LaunchRequest, region: str, current: str) -> None:
        """Delete old templates that the pool used before its settings or its image changed."""
        ec2 = self._clients.reading("ec2", region)
        filters = [
            {"Name": f"tag:{CLUSTER_TAG}", "Values": [request.cluster_id]},
            {"Name": f"tag:{POOL_TAG}", "Values": [request.pool]},
        ]
        oldest = datetime.now(timezone.utc) - TEMPLATE_LIFE
        try:
            for page in ec2.get_paginator("describe_launch_templates").paginate(Filters=filters):
                for template in page["LaunchTemplates"]:
                    is_old = template["CreateTime"] < oldest
                    if is_old and template["LaunchTemplateName"] != current:
                        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])
        except ClientError:
            return  # another process deletes them, or permission is missing; they are free of charge


def _error(error: dict[str, Any]) -> AwsError:
    return AwsError(error.get("ErrorCode", ""), error.get("ErrorMessage", ""))


def _concerns(item: dict[str, Any], target: Target) -> bool:
    """Return whether a part of the response concerns the target. A missing field matches every value."""
    override = item.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    target_fields = (
        ("InstanceType", target.offer.machine_type),
        ("SubnetId", target.subnet.subnet_id),
        ("AvailabilityZone", target.subnet.zone),
    )
    return all(override.get(name, value) == value for name, value in target_fields)


def _machine(
    request: LaunchRequest, targets: Sequence[Target], launched: Sequence[dict[str, Any]]
) -> CloudMachine | None:
    for item in launched:
        target = next((t for t in targets if _concerns(item, t)), targets[0])
        for instance_id in item.get("InstanceIds", ()):
            return CloudMachine(
                provider=PROVIDER,
                region=target.offer.region,
                zone=target.subnet.zone,
                cloud_id=instance_id,
                state="pending",
                machine_type=item.get("InstanceType") or target.offer.machine_type,
                capacity=target.offer.capacity.value,
                machine_id=request.machine_id,
                pool=request.pool,
            )
    return None


def explain(
    offers: Sequence[Offer],
    failures: Sequence[Failure],
    machine: CloudMachine | None = None,
    targets: Sequence[Target] = (),
) -> LaunchOutcome:
    """Convert failures to refusals. Without a machine, every offer gets a refusal."""
    refusals: dict[Refusal, None] = {}
    for offer in offers:
        offer_failures = [f for f in failures if f.offer == offer]
        if machine is None and not offer.zone:
            zones = {t.subnet.zone for t in targets if t.offer == offer}
            offer_failures = [_in_every_zone(offer, offer_failures, zones)]
        refusals.update(dict.fromkeys(refusal(f.error, offer, f.zone) for f in offer_failures))
        if machine is None and not any(r.scope.covers(offer) for r in refusals):
            refusals[refusal(_NO_REASON, offer, offer.zone)] = None
    return LaunchOutcome(machine, tuple(refusals))


def _in_every_zone(offer: Offer, failures: Sequence[Failure], zones: set[str]) -> Failure:
    """Return the failure of an offer without a zone. It counts as invalid only if it is invalid in all zones."""
    retryable = [f for f in failures if f.error.kind is not RefusalKind.INVALID]
    invalid_in = {f.zone for f in failures}
    if not retryable and failures and (zones <= invalid_in or "" in invalid_in):
        retryable = list(failures)
    return Failure(offer, "", retryable[0].error if retryable else _NO_REASON)
