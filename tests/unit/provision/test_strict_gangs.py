"""Strict gangs get machines of one zone: free ones and rented ones."""

from dataclasses import replace

from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.offers import Offer

from tests.support.provisioning import machine, offer, plan, pool, wants

A, B = (offer(4, price, zone=f"us-east-1{zone}") for price, zone in (("2.0", "a"), ("2.1", "b")))


def rented(there: list[Offer], *, strict: bool, offers: tuple[Offer, ...] = (A, B)) -> list[str]:
    demand = [replace(one, strict_topology=strict) for one in wants(8)]
    machines = [machine(f"m{n}", one) for n, one in enumerate(there)]
    return [launch.offers[0].zone for launch in plan(pool(list(offers), demand, machines)).launch]


def test_a_gang_is_completed_in_the_zone_of_its_free_machine() -> None:
    assert rented([B], strict=False) == ["us-east-1b"]


def test_a_gang_uses_free_machines_of_two_zones() -> None:
    assert rented([A, B], strict=False) == []


def test_a_strict_gang_completes_one_zone() -> None:
    assert rented([A, B], strict=True) == ["us-east-1a"]


def test_a_strict_gang_starts_anew_in_a_zone_that_has_room() -> None:
    assert rented([A], strict=True, offers=(B,)) == ["us-east-1b"] * 2


def test_offers_outside_the_zone_come_last_and_strict_gangs_get_none() -> None:
    anywhere = replace(A, zone="")
    soft = Gang("1", zones=("us-east-1b",))
    assert soft.ordered([A, B]) == (B, A)
    assert soft.ordered([A, anywhere]) == (anywhere, A)
    assert replace(soft, is_strict=True).ordered([A, B]) == (B,)


def test_a_zone_without_offers_is_no_zone_of_the_gang() -> None:
    gang = Gang("1", zones=("us-east-1c", "us-east-1b"), is_strict=True)
    assert gang.zone_among([A, B]) == "us-east-1b"
    assert Gang("1", zones=("us-east-1c",), is_strict=True).ordered([A, B]) == (A, B)
