"""The provider of Google Compute Engine over a fake of it, for its tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.ports.compute import CloudMachine, Place
from det_provisioner_gcp.api import GceApi
from det_provisioner_gcp.compute_engine import GceCompute
from google.auth.credentials import AnonymousCredentials

from tests.support.fake_gce import FakeGce, GceError, denied, quota, serving, stockout, throttled
from tests.support.fake_gce.cloud import Body
from tests.support.fake_gce.errors import OperationError

PROJECT, REGION, ZONE = "acme", "us-central1", "us-central1-a"


@dataclass
class Gce:
    """The fake behind the tested provider, on a clock that sleeping moves."""

    fake: FakeGce
    compute: GceCompute
    place: Place
    clock: list[float]
    address: str
    more_than_a_page: int = 5

    def offers(self, capacity: Capacity) -> tuple[Offer, ...]:
        return (offer("g2-standard-8", capacity=capacity), offer(capacity=capacity))

    def refuse(self, offer: Offer, kind: RefusalKind) -> None:
        answers: Mapping[RefusalKind, GceError | OperationError] = {
            RefusalKind.NO_CAPACITY: stockout(offer.zone, offer.machine_type, ["us-central1-b"]),
            RefusalKind.QUOTA: quota("NVIDIA_L4_GPUS", 0.0, offer.region),
            RefusalKind.DENIED: denied("compute.instances.create"),
            RefusalKind.INVALID: GceError(400, "invalid", "Invalid value for field 'image': 'x'."),
            RefusalKind.RETRYABLE: throttled(),
        }
        self.give(answers[kind], offer.machine_type, offer.zone)

    def give(
        self, answer: GceError | OperationError, machine_type: str = "", zone: str = ""
    ) -> None:
        """Answer launches of a type in a zone with an error, in addition to earlier ones."""
        before = self.fake.trouble

        def trouble(place: str, body: Body) -> GceError | OperationError | None:
            is_type = body["machineType"].endswith(f"/{machine_type}") or not machine_type
            return answer if is_type and zone in ("", place) else before(place, body)

        self.fake.trouble = trouble

    def allow(self) -> None:
        self.fake.trouble = lambda zone, body: None

    def lose_next_answer(self) -> None:
        self.fake.answers_to_lose = 1

    def disconnect(self) -> None:
        self.fake.silent = True

    def reclaim(self, machine: CloudMachine) -> None:
        self.fake.preempt(machine.cloud_id.partition("/")[2])

    def print_on_console(self, machine: CloudMachine, text: str) -> None:
        self.fake.get(PROJECT, machine.zone, machine.cloud_id.partition("/")[2]).console += text

    def add_stranger(self) -> None:
        self.fake.add(PROJECT, ZONE, "database")

    def sleep(self, seconds: float) -> None:
        self.clock[0] += seconds


def offer(
    machine_type: str = "e2-standard-4",
    zone: str = ZONE,
    capacity: Capacity = Capacity.ON_DEMAND,
) -> Offer:
    return Offer("gcp", REGION, zone, machine_type, capacity, 1, Decimal("1.5"))


@contextmanager
def provided() -> Iterator[Gce]:
    clock = [1_000_000.0]
    fake = FakeGce(lambda: clock[0])
    fake.most_per_page = 2
    with serving(fake) as address:
        api = GceApi(address, AnonymousCredentials())
        compute = GceCompute(api, PROJECT, now=lambda: clock[0], sleep=lambda s: None)
        gce = Gce(fake, compute, Place(REGION, {}), clock, address)
        compute._sleep = gce.sleep
        yield gce


def body_of(cloud: Gce, machine: CloudMachine | None) -> Body:
    """Return the description that a machine was made from."""
    assert machine is not None
    _, _, name = machine.cloud_id.partition("/")
    return cloud.fake.get(PROJECT, machine.zone, name).body
