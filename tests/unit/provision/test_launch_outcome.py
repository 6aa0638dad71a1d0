"""The meaning of a launch without a machine for its offers."""

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome, Refusal

from tests.support.provisioning import offer

ANYWHERE = offer(1, 1, zone="")
ONE_ZONE = Refusal(
    RefusalKind.NO_CAPACITY, Scope.of(ANYWHERE)._replace(zone="us-east-1a"), "no capacity"
)


def test_offer_of_any_zone_is_refused_if_its_zones_are() -> None:
    outcome = LaunchOutcome(None, (ONE_ZONE,))
    refusals = outcome.refusals_of([ANYWHERE])
    assert [refusal.scope for refusal in refusals] == [ONE_ZONE.scope, Scope.of(ANYWHERE)]


def test_offer_with_a_machine_in_another_zone_is_not_refused() -> None:
    machine = CloudMachine("aws", "us-east-1", "us-east-1b", "i-1", "pending")
    assert LaunchOutcome(machine, (ONE_ZONE,)).refusals_of([ANYWHERE]) == (ONE_ZONE,)


def test_offer_covered_by_a_refusal_is_refused_once() -> None:
    wide = Refusal(RefusalKind.QUOTA, Scope("aws", "us-east-1"), "quota")
    assert LaunchOutcome(None, (wide,)).refusals_of([ANYWHERE]) == (wide,)


def test_an_offer_of_another_type_is_not_refused() -> None:
    assert LaunchOutcome(None, (ONE_ZONE,)).refusals_of([offer(4, 4, zone="")]) == (ONE_ZONE,)


def test_an_offer_of_another_zone_is_not_refused() -> None:
    other = offer(1, 1, zone="us-east-1b")
    assert LaunchOutcome(None, (ONE_ZONE,)).refusals_of([other]) == (ONE_ZONE,)
