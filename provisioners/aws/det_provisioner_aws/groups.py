"""Cluster placement groups of gangs: which launches use one, and when groups are deleted.

A group belongs to one gang and one zone, because EC2 keeps a group in one zone, and because a group that several gangs
share is tied to the racks of the first. Groups are free of charge; an account may have 500 in a region.
"""

import hashlib
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from botocore.exceptions import ClientError
from det_controlplane.ports.compute import LaunchRequest

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.errors import AwsError
from det_provisioner_aws.parameters import CLUSTER_TAG, group_parameters
from det_provisioner_aws.places import Target
from det_provisioner_aws.settings import AUTOMATIC_GROUP, AwsSettings

log = logging.getLogger("det.machines")

# Types that EC2 does not place in cluster groups. It also refuses unknown ones, which then start without a group.
_BURSTABLE = ("t1.", "t2.", "t3.", "t3a.", "t4g.", "mac")
_UNKNOWN_GROUP = "InvalidPlacementGroup.Unknown"
_GONE = (_UNKNOWN_GROUP,)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call for one machine. `group` is the cluster group to create and use, or an empty text."""

    target: Target
    group: str = ""

    @property
    def token_suffix(self) -> str:
        """Return a suffix that differs between the attempts of a request, and does not depend on their order."""
        key = f"{self.target.offer.machine_type} {self.target.subnet.subnet_id} {self.group}"
        return hashlib.sha256(key.encode()).hexdigest()[:12]


def attempts(
    request: LaunchRequest, settings: AwsSettings, targets: Sequence[Target]
) -> list[Attempt]:
    """Return the calls for a gang's machine: the group, then its zone without a group, then other zones.

    The first machine of a gang has no zone to join, so all zones are tried with a group first."""
    gang = request.gang
    if gang is None or settings.placement_group != AUTOMATIC_GROUP or gang.avoids_group:
        return [Attempt(target) for target in targets]
    zone = gang.zone_among(request.offers)
    near = [t for t in targets if t.subnet.zone == zone] or list(targets)
    grouped = [Attempt(t, group_name(request, t)) for t in near if takes_groups(t)]
    if gang.is_strict:
        return grouped or [Attempt(target) for target in near]
    far = [t for t in targets if t not in near]
    return [*grouped, *(Attempt(target) for target in (*near, *far))]


def takes_groups(target: Target) -> bool:
    name = target.offer.machine_type
    return not name.startswith(_BURSTABLE) and "-flex." not in name


def group_name(request: LaunchRequest, target: Target) -> str:
    """Return the name of the group for a gang's machines in a zone."""
    gang = request.gang.id if request.gang else ""
    digest = hashlib.sha256(gang.encode()).hexdigest()[:12]
    return f"determined-{request.cluster_id}-{digest}-{target.subnet.zone}"


class PlacementGroups:
    """Creates and deletes placement groups."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._existing: set[tuple[str, str]] = set()

    def ensure(self, request: LaunchRequest, settings: AwsSettings, attempt: Attempt) -> None:
        """Create the group of an attempt, unless it exists. Raises ClientError."""
        region = attempt.target.offer.region
        if (region, attempt.group) in self._existing:
            return
        try:
            parameters = group_parameters(request, settings, attempt.group)
            self._clients.acting("ec2", region).create_placement_group(**parameters)
        except ClientError as e:
            if AwsError.of(e.response).code != "InvalidPlacementGroup.Duplicate":
                raise
        self._existing.add((region, attempt.group))

    def exists(self, region: str, group: str) -> bool:
        """Return whether this process created or found the group."""
        return (region, group) in self._existing

    def forget(self, region: str, group: str) -> None:
        """Forget that a group exists, because EC2 does not know it any more."""
        self._existing.discard((region, group))

    def delete(self, region: str, group: str) -> bool:
        """Delete a group. Return False if it could not be deleted, for example because it has machines."""
        self.forget(region, group)
        try:
            self._clients.acting("ec2", region).delete_placement_group(GroupName=group)
        except ClientError as e:
            code = AwsError.of(e.response).code
            if code not in _GONE:
                log.info("EC2 keeps the placement group %s: %s", group, code)
            return code in _GONE
        return True

    def delete_unused(self, cluster_id: str, region: str, in_use: Collection[str]) -> bool:
        """Delete the cluster's groups except used ones. Return False if some are left."""
        unused = [group for group in self._listed(cluster_id, region) if group not in in_use]
        deletions = [self.delete(region, group) for group in unused]
        return all(deletions)

    def _listed(self, cluster_id: str, region: str) -> Iterator[str]:
        filters = [
            {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster_id]},
            {"Name": "strategy", "Values": ["cluster"]},
        ]
        answer = self._clients.reading("ec2", region).describe_placement_groups(Filters=filters)
        yield from (group["GroupName"] for group in answer["PlacementGroups"])


def is_unknown_group(error: AwsError) -> bool:
    return error.code == _UNKNOWN_GROUP
