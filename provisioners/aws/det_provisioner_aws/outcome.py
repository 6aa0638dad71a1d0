"""The outcome of a launch: a machine, and why each offer before it gave none."""

from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome, Refusal

from det_provisioner_aws.errors import AwsError, refusal
from det_provisioner_aws.places import Target

_NO_REASON = AwsError("UnfulfillableCapacity", "EC2 launched nothing and gave no reason")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that EC2 gave for an offer in a zone."""

    offer: Offer
    zone: str
    error: AwsError


def explain(
    offers: Sequence[Offer],
    failures: Sequence[Failure],
    machine: CloudMachine | None = None,
    targets: Sequence[Target] = (),
) -> LaunchOutcome:
    """Make refusals of failures; without a machine every offer gets one."""
    refusals: dict[Refusal, None] = {}
    for offer in offers:
        own = [f for f in failures if f.offer == offer]
        if machine is None and not offer.zone:
            own = [_in_every_zone(offer, own, {t.subnet.zone for t in targets if t.offer == offer})]
        refusals.update(dict.fromkeys(refusal(f.error, offer, f.zone) for f in own))
        if machine is None and not any(r.scope.covers(offer) for r in refusals):
            refusals[refusal(_NO_REASON, offer, offer.zone)] = None
    return LaunchOutcome(machine, tuple(refusals))


def _in_every_zone(offer: Offer, failures: Sequence[Failure], zones: set[str]) -> Failure:
    """Return why an offer of any zone gave no machine: it is invalid only if it is so in all zones."""
    hopeful = [f for f in failures if f.error.kind is not RefusalKind.INVALID]
    invalid_in = {f.zone for f in failures}
    if not hopeful and failures and (zones <= invalid_in or "" in invalid_in):
        hopeful = list(failures)
    return Failure(offer, "", hopeful[0].error if hopeful else _NO_REASON)
