"""The compute contract for the fake cloud, and its additional properties for the simulated world."""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.ports.compute import CloudMachine, Compute, Place, Unreachable
from det_controlplane.ports.identity import IdentityVerifier, MachineIdentity, NotProven, Proof
from det_controlplane.testing.contracts.compute import (
    CLUSTER,
    CloudUnderTest,
    ComputeContract,
    launch_request,
)
from det_controlplane.testing.fakecloud import (
    ACCOUNT,
    KIND,
    REMEMBERED_S,
    CloudFaults,
    FakeCloud,
    FakeIdentityVerifier,
    fake_proof,
)

REGION = "us-west-2"
PLACE = Place(REGION, {})


@dataclass
class InMemory:
    """A fake cloud with its clock, for the contract."""

    fake: FakeCloud
    place: Place = PLACE
    more_than_a_page: int = 5
    time: float = 0.0

    @property
    def compute(self) -> Compute:
        return self.fake

    def offers(self, capacity: Capacity) -> tuple[Offer, ...]:
        return tuple(
            Offer("aws", REGION, f"{REGION}a", name, capacity, 1, Decimal(price))
            for name, price in (("g5.xlarge", 1), ("g5.2xlarge", 2))
        )

    def refuse(self, offer: Offer, kind: RefusalKind) -> None:
        self.fake.refuse(Scope.of(offer), kind)

    def allow(self) -> None:
        self.fake.allow()

    def lose_next_answer(self) -> None:
        self.fake.lose_next_answer()

    def disconnect(self) -> None:
        self.fake.connected = False

    def reclaim(self, machine: CloudMachine) -> None:
        self.fake.reclaim(machine.cloud_id)

    def print_on_console(self, machine: CloudMachine, text: str) -> None:
        self.fake.print_on_console(machine.cloud_id, text)

    def add_stranger(self) -> None:
        self.fake.launch(launch_request(self, cluster_id="of nobody"))


def in_memory(faults: CloudFaults = CloudFaults(), seed: int = 0) -> InMemory:
    cloud = InMemory(FakeCloud("aws", seed=seed))
    cloud.fake.faults = faults
    cloud.fake.now = lambda: cloud.time
    return cloud


class TestFakeCloud(ComputeContract):
    @pytest.fixture
    def cloud(self) -> CloudUnderTest:
        return in_memory()


def launch(cloud: InMemory, capacity: Capacity = Capacity.ON_DEMAND) -> CloudMachine:
    machine = cloud.fake.launch(launch_request(cloud, cloud.offers(capacity)[:1])).machine
    assert machine is not None
    return machine


def states(cloud: InMemory) -> list[str]:
    return [m.state for m in cloud.fake.owned(CLUSTER, cloud.place)]


def test_machine_boots_runs_stops_and_disappears() -> None:
    cloud = in_memory()
    machine = launch(cloud)
    observed = states(cloud)
    cloud.time = 100.0
    observed += states(cloud)
    cloud.fake.terminate([machine])
    observed += states(cloud)
    cloud.time = 130.0
    observed += states(cloud)
    cloud.time += REMEMBERED_S
    assert (observed, states(cloud)) == (["pending", "running", "stopping", "gone"], [])


def test_machines_are_billed_for_their_run_time() -> None:
    cloud = in_memory()
    first, _ = launch(cloud), launch(cloud)
    cloud.time = 1770.0
    cloud.fake.terminate([first])
    cloud.time = 7200.0
    assert cloud.fake.cost_usd() == Decimal("0.5") + 2
    assert len(cloud.fake.alive()) == 1


def test_reclaimed_machine_gets_a_notice_before_it_ends() -> None:
    cloud = in_memory()
    machine = cloud.fake.find(launch(cloud, Capacity.SPOT).cloud_id)
    assert machine is not None
    cloud.time = 500.0
    cloud.fake.reclaim(machine.cloud_id, notice_s=120)
    assert (machine.notice_at, machine.runs_agent(600), machine.runs_agent(620)) == (500, True, False)  # fmt: skip


def test_ended_machines_have_a_reason() -> None:
    cloud = in_memory()
    reclaimed, terminated, _ = launch(cloud, Capacity.SPOT), launch(cloud), launch(cloud)
    cloud.fake.reclaim(reclaimed.cloud_id)
    cloud.fake.terminate([terminated])
    cloud.time = 60.0
    reasons = [m.ended_because for m in cloud.fake.owned(CLUSTER, cloud.place)]
    assert reasons == ["spot capacity was taken back", "terminated by the cluster", ""]


def test_only_spot_machines_are_reclaimed_randomly() -> None:
    cloud = in_memory(CloudFaults(reclaims_per_hour=2))
    for capacity in Capacity:
        for _ in range(50):
            launch(cloud, capacity)
    cloud.time = 3600.0
    remaining = Counter(m.offer.capacity for m in cloud.fake.alive())
    assert remaining[Capacity.ON_DEMAND] == 50
    assert 0 < remaining[Capacity.SPOT] < 20
    spot_machines = [m for m in cloud.fake.rented if m.offer.capacity is Capacity.SPOT]
    assert all(m.ends_at - m.notice_at <= 120 for m in spot_machines)


def test_stockout_lasts_for_some_time() -> None:
    cloud = in_memory(CloudFaults(stockout=0.5))
    tries = []
    for minute in range(0, 200, 5):
        cloud.time = 60.0 * minute
        tries.append([cloud.fake.launch(launch_request(cloud)).machine is None for _ in range(2)])
    assert all(a == b for a, b in tries), "two calls of one moment have one answer"
    assert {a for a, _ in tries} == {True, False}
    assert [a for a, _ in tries[::2]] == [a for a, _ in tries[1::2]], "spells last ten minutes"


def test_quota_counts_living_machines() -> None:
    cloud = in_memory()
    cloud.fake.most_machines = 1
    machine = launch(cloud)
    (refusal,) = cloud.fake.launch(launch_request(cloud)).refusals
    assert refusal.kind is RefusalKind.QUOTA
    cloud.fake.terminate([machine])
    cloud.time = 60.0
    launch(cloud)


def test_lost_and_repeated_calls_rent_one_machine_per_token() -> None:
    faults = CloudFaults(lost_request=0.2, lost_answer=0.3, delivered_twice=0.3)
    cloud, silences = in_memory(faults), 0
    for _ in range(50):
        request, machine = launch_request(cloud), None
        while machine is None:
            try:
                machine = cloud.fake.launch(request).machine
            except Unreachable:
                silences += 1
    assert (len(cloud.fake.rented), silences > 20) == (50, True)


def test_machines_can_boot_slowly_or_fail_and_are_listed_late() -> None:
    cloud = in_memory(CloudFaults(slow_boot=0.3, dead_boot=0.3, listed_late=0.5))
    for _ in range(40):
        launch(cloud)
    assert 5 < len(states(cloud)) < 35
    cloud.time = 120.0
    assert Counter(states(cloud)).keys() == {"pending", "running"}
    running = [m for m in cloud.fake.rented if m.state(120.0) == "running"]
    assert {m.runs_agent(120.0) for m in running} == {True, False}


def test_equal_seeds_give_equal_clouds() -> None:
    def history(seed: int) -> list[tuple[str, float, float, bool]]:
        faults = CloudFaults(slow_boot=0.5, dead_boot=0.5, reclaims_per_hour=1)
        cloud = in_memory(faults, seed)
        for _ in range(20):
            launch(cloud, Capacity.SPOT)
        return [(m.cloud_id, m.boots_at, m.ends_at, m.boots_dead) for m in cloud.fake.rented]

    assert history(1) == history(1) != history(2)


def test_machine_of_the_fake_cloud_proves_its_identity_while_it_runs() -> None:
    cloud = in_memory()
    cloud_id = launch(cloud).cloud_id
    verifier: IdentityVerifier = FakeIdentityVerifier(cloud.fake)
    proof = Proof(KIND, "nonce", fake_proof(cloud_id, "nonce"))
    with pytest.raises(NotProven, match="runs"):
        verifier.verify(proof)
    cloud.time = 100.0
    assert verifier.verify(proof) == MachineIdentity("aws", ACCOUNT, REGION, cloud_id, "")
    with pytest.raises(NotProven, match="another join"):
        verifier.verify(Proof(KIND, "nonce", fake_proof(cloud_id, "older")))
    cloud.fake.connected = False
    with pytest.raises(Unreachable):
        verifier.verify(proof)
