"""A cluster with pools that rent machines of fake clouds, and a clock that the test sets."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from det_controlplane.core.agent_protocol import join_nonce
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.providers import Section
from det_controlplane.core.provision.catalog import Priced
from det_controlplane.core.provision.model import Limits
from det_controlplane.core.provision.offers import Capacity, MachineType, Offer
from det_controlplane.db.engine.database import Database
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof
from det_controlplane.services.machines import calling
from det_controlplane.testing.fakecloud import FakeCloud, RentedMachine
from det_controlplane.testing.fakemarket import FakeMarket

from tests.support.api import Api, Caller, api_over

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def offer(price: str, capacity: Capacity = Capacity.SPOT, slots: int = 1, **other: Any) -> Offer:
    values = {"provider": "aws", "region": "us-east-1", "zone": "us-east-1a", **other}
    machine_type = values.pop("machine_type", f"g5.{slots}")
    return Offer(
        machine_type=machine_type, capacity=capacity, slots=slots, price_usd_hour=Decimal(price), **values
    )  # fmt: skip


OFFERS = (
    offer("0.40"),
    offer("0.50", zone="us-east-1b"),
    offer("1.00", Capacity.ON_DEMAND),
    offer("2.50", slots=4),
)


SMALLEST = Priced(MachineType("aws", "g5.1", 1, "NVIDIA A10G", 24, 4, 16), Decimal("1.00"))


@dataclass
class BelievingVerifier:
    """Accept machines with a proof that contains its nonce."""

    provider: str = "aws"
    kind: str = "fake_cloud"
    asked: int = 0

    def claimed(self, proof: Proof) -> str | None:
        return proof.fields["cloud_id"]

    def verify(self, proof: Proof) -> MachineIdentity:
        self.asked += 1
        if proof.fields.get("nonce") != proof.nonce:
            raise NotProven("the proof was made for another agent")
        signed_text = f"{proof.nonce} {proof.fields['at']}"
        return MachineIdentity("aws", "account", "us-east-1", proof.fields["cloud_id"], signed_text)


@dataclass
class MachineAgent:
    """The agent of a rented machine, as far as the protocol goes."""

    caller: Caller
    agent_id: str
    incarnation: str
    seq: int = 0
    running: dict[str, Any] = field(default_factory=dict)
    version: str = ""  # of the newest answer

    def poll(
        self,
        leaving: bool = False,
        exits: Mapping[str, int] | None = None,
        notice: str = "spot_interruption",
        deadline: str | None = None,
        out_of_service: str = "",
        unsent: bool = False,
        failure: str = "",
    ) -> list[Any]:
        """Start ordered containers and report running ones. `exits` ends them, and `leaving` sends a `notice`.

        `failure` is the kind of failure by which containers in `exits` ended, if the agent is the cause."""
        self.seq += 1
        reports = []
        for id, order in self.running.items():
            report = {"id": id, "epoch": order["epoch"], "state": "running"}
            if exits and id in exits:
                report |= {"state": "terminated", "exit_code": exits[id]}
                report |= {"failure": failure} if failure else {}
            reports.append(report)
        signals = [{"kind": notice, "deadline": deadline}] if leaving else []
        body = {
            "incarnation": self.incarnation, "seq": self.seq, "containers": reports, "signals": signals,
            "out_of_service": out_of_service, "unsent": unsent,
        }  # fmt: skip
        answer = self.caller.post("/agents/v1/poll", body)
        self.version = answer["version"]
        for id in answer["forget"]:
            self.running.pop(id, None)
        for order in answer["containers"]:
            self.running.setdefault(order["id"], order)
        containers: list[Any] = answer["containers"]
        return containers

    def work(self) -> None:
        """Take orders and report that they run."""
        self.poll()
        self.poll()

    def finish(self) -> None:
        """End everything with exit code 0."""
        self.poll(exits=dict.fromkeys(self.running, 0))


def poll(agent: MachineAgent) -> dict[str, Any]:
    """Poll with the running containers."""
    agent.seq += 1
    reports = [
        {"id": id, "epoch": order["epoch"], "state": "running"}
        for id, order in agent.running.items()
    ]
    body = {
        "incarnation": agent.incarnation,
        "seq": agent.seq,
        "containers": reports,
        "signals": [],
    }
    answer: dict[str, Any] = agent.caller.post("/agents/v1/poll", body)
    return answer


@dataclass
class RentedCluster:
    api: Api
    cloud: FakeCloud
    time: datetime = START
    market: FakeMarket = field(default_factory=FakeMarket)

    def pass_time(self, **delta: float) -> None:
        self.time += timedelta(**delta)

    def decide(self) -> None:
        self.api.tick()

    def settle(self, times: int = 3) -> None:
        """Run decisions and cloud calls until both have no more work."""
        for _ in range(times):
            self.api.tick()
            calling.run(self.api.ctx, {"aws": self.cloud}, {"aws": self.market})

    def boot(self, machine: RentedMachine, **ages: float) -> MachineAgent:
        """Let a machine's agent join with a proof of its machine."""
        agent_id, incarnation = machine.cloud_id, str(uuid.uuid4())
        body = self.joining(agent_id, incarnation, machine) | ages
        token = self.api.anonymous().post("/agents/v1/join", body)["agent_token"]
        return MachineAgent(self.api.with_token(token), agent_id, incarnation)

    def employ(self) -> tuple[RentedMachine, MachineAgent]:
        """Rent a machine for waiting work. Its agent joins and starts the work."""
        self.settle()
        machine = self.cloud.alive()[-1]
        agent = self.boot(machine)
        self.settle()
        agent.work()
        return machine, agent

    def delete(self, owner: Caller, experiment_id: int, agent: MachineAgent | None = None) -> None:
        """Delete an ended experiment; an agent, of a new machine unless one is given, deletes its files."""
        owner.done("DELETE", f"/api/v1/experiments/{experiment_id}")
        self.settle()
        agent = agent or self.boot(self.cloud.alive()[-1])
        self.settle(1)
        agent.work()
        agent.finish()
        for _ in range(3):
            self.pass_time(seconds=20)
            agent.poll()
            self.settle(1)
        assert owner.ask("GET", f"/api/v1/experiments/{experiment_id}").status == 404

    def joining(self, agent_id: str, incarnation: str, machine: RentedMachine) -> dict[str, Any]:
        key = f"key of {agent_id}"
        nonce = join_nonce(self.api.ctx.cluster_id, agent_id, key, incarnation)
        slots = [
            {"id": i, "type": "cuda", "brand": "A10G", "uuid": f"GPU-{i}"}
            for i in range(machine.offer.slots)
        ]
        proof = {
            "kind": "fake_cloud",
            "cloud_id": machine.cloud_id,
            "nonce": nonce,
            "at": str(self.time),
        }
        return {
            "agent_id": agent_id, "agent_key": key, "incarnation": incarnation, "runtime": "docker",
            "slots": slots, "pool": "ignored", "proof": proof,
        }  # fmt: skip

    def instances(self, **query: Any) -> list[dict[str, Any]]:
        stored_instances: list[dict[str, Any]] = self.api.signed_in("admin").get(
            "/api/v1/instances", **query
        )["instances"]
        return stored_instances


@contextmanager
def rented_cluster(
    database: Database,
    folder: Path,
    offers: tuple[Offer, ...] = OFFERS,
    limits: Limits | None = None,
    **faults: Any,
) -> Iterator[RentedCluster]:
    """Start a cluster with a renting default pool and no other slots."""
    with api_over(database, folder) as api:
        pool = Pool(
            sections=(Section("aws", {}, ("us-east-1",), types=(SMALLEST,)),),
            offers=offers,
            limits=limits or Limits(max_idle_s=600),
        )
        api.ctx.config = replace(api.ctx.config, resource_pools=(pool,))
        api.ctx.verifiers.machines = {"fake_cloud": BelievingVerifier()}
        api.ctx.host.public_url = "https://cluster.example"
        cluster = RentedCluster(api, FakeCloud(**faults))
        cluster.cloud.now = lambda: cluster.time.timestamp()
        cluster.market.now = cluster.cloud.now
        api.ctx.now = lambda: cluster.time
        yield cluster


def reason(user: Caller, experiment_id: int) -> str:
    """Return why an experiment waits, where that is one reason."""
    (stored_reason,) = user.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    return str(stored_reason["sentence"])
