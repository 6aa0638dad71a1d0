"""The outcome of a launch: a machine, and why each offer before it gave none."""

from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.core.provision.offers import Offer
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome, Refusal

from det_provisioner_aws.errors import AwsError, refusal

_NO_REASON = AwsError("UnfulfillableCapacity", "EC2 launched nothing and gave no reason")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that EC2 gave for an offer in a zone."""

    offer: Offer
    zone: str
    error: AwsError


def explain(
    offers: Sequence[Offer], failures: Sequence[Failure], machine: CloudMachine | None = None
) -> LaunchOutcome:
    """Make refusals of failures; without a machine every offer gets one."""
    refusals = dict.fromkeys(_refusal(f, machine) for f in failures)
    if machine is None:
        for offer in offers:
            if not any(r.scope.covers(offer) for r in refusals):
                refusals[refusal(_NO_REASON, offer, offer.zone)] = None
    return LaunchOutcome(machine, tuple(refusals))


def _refusal(failure: Failure, machine: CloudMachine | None) -> Refusal:
    """An offer of any zone that gave no machine was refused in all of them."""
    everywhere = machine is None and not failure.offer.zone
    return refusal(failure.error, failure.offer, "" if everywhere else failure.zone)
