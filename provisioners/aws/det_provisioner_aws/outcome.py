"""The outcome of a launch: a machine, and the reasons of the failed offers before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome, Refusal

from det_provisioner_aws.errors import AwsError, refusal
from det_provisioner_aws.places import Target

_NO_REASON = AwsError("UnfulfillableCapacity", "EC2 launched no machine and gave no reason")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of EC2 for an offer in a zone."""

    offer: Offer
    zone: str
    error: AwsError


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
