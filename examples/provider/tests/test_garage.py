"""The rules of every provider, checked for the garage."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.ports.compute import CloudMachine, Place
from det_controlplane.ports.identity import NotProven, Proof
from det_controlplane.testing.contracts.compute import (
    CloudUnderTest,
    ComputeContract,
    launch_request,
)
from det_provider_garage.garage import Garage
from det_provider_garage.identity import KIND, GarageVerifier

HOME = Place("home", {})


@dataclass
class GarageUnderTest:
    """The garage and the ways in which the contract disturbs it."""

    compute: Garage
    place: Place = HOME
    more_than_a_page: int = 5

    def offers(self, capacity: Capacity) -> tuple[Offer, ...]:
        return tuple(
            Offer("garage", "home", "home-a", name, capacity, slots, Decimal(price))
            for name, slots, price in (("bench", 1, "0.10"), ("lift", 2, "0.20"))
        )

    def refuse(self, offer: Offer, kind: RefusalKind) -> None:
        self.compute.refusals[Scope.of(offer)] = kind

    def allow(self) -> None:
        self.compute.refusals.clear()

    def lose_next_answer(self) -> None:
        self.compute.loses_next_answer = True

    def disconnect(self) -> None:
        self.compute.is_open = False

    def reclaim(self, machine: CloudMachine) -> None:
        self.compute.reclaim(machine.cloud_id)

    def print_on_console(self, machine: CloudMachine, text: str) -> None:
        self.compute.print_on_console(machine.cloud_id, text)

    def add_stranger(self) -> None:
        self.compute.launch(launch_request(self, cluster_id="of nobody"))


class TestGarage(ComputeContract):
    @pytest.fixture
    def cloud(self, tmp_path: Path) -> CloudUnderTest:
        return GarageUnderTest(Garage(tmp_path))


def test_a_wrong_signature_proves_nothing(tmp_path: Path) -> None:
    cloud = GarageUnderTest(Garage(tmp_path))
    machine = cloud.compute.launch(launch_request(cloud)).machine
    assert machine is not None
    proof = Proof(KIND, "nonce", {"machine": machine.cloud_id, "signature": "guessed"})
    with pytest.raises(NotProven, match="wrong"):
        GarageVerifier(tmp_path).verify(proof)
