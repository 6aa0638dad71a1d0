"""From a configuration to a working machine of Google Compute Engine, and back to none."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.agent_protocol import gce_audience, join_nonce
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.db.engine.database import Database
from det_controlplane.services.machines import calling
from det_provisioner_gcp.api import GceApi
from det_provisioner_gcp.compute_engine import GceCompute
from det_provisioner_gcp.identity import GceIdentityVerifier, GoogleCertificates
from google.auth.credentials import AnonymousCredentials

from tests.support.api import Api, api_over, create
from tests.support.fake_gce import FakeGce, serving, stockout
from tests.support.fake_gce.cloud import Instance
from tests.support.google_machines import Google, machine_claims
from tests.support.rented import MachineAgent

PROVIDER = {
    "type": "gcp",
    "project": "acme",
    "instance_type": {"machine_type": "n1-standard-8", "gpu_type": "nvidia-tesla-t4", "gpu_num": 1},
    "capacity": ["spot"],
    "max_idle_agent_period": "5m",
}  # fmt: skip


@dataclass
class Cluster:
    api: Api
    fake: FakeGce
    compute: GceCompute
    google: Google
    now: datetime

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def settle(self) -> None:
        """Run decisions and cloud calls until both have no more work."""
        for _ in range(3):
            self.api.tick()
            calling.run(self.api.ctx, {"gcp": self.compute})

    def machines(self) -> list[Instance]:
        return [i for i in self.fake.listed("acme") if not i.is_stopping]

    def join(self, machine: Instance, **reported_claims: Any) -> MachineAgent:
        """Let the machine's agent prove itself by a token of Google's."""
        key, incarnation = "key", str(uuid.uuid4())
        nonce = join_nonce(self.api.ctx.cluster_id, machine.name, key, incarnation)
        claims = machine_claims(
            **{"instance_name": machine.name, "zone": machine.zone, **reported_claims}
        )
        token = self.google.token(aud=f"{gce_audience(nonce)}/1", google=claims)
        body = {
            "agent_id": machine.name, "agent_key": key, "incarnation": incarnation, "pool": "",
            "runtime": "docker", "slots": [{"id": 0, "type": "cuda", "brand": "T4", "uuid": "GPU-0"}],
            "proof": {"kind": "gce_identity_token", "token": token},
        }  # fmt: skip
        answer = self.api.anonymous().post("/agents/v1/join", body)
        return MachineAgent(
            self.api.with_token(answer["agent_token"]), machine.name, incarnation
        )  # fmt: skip


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, database: Database, tmp_path: Path
) -> Iterator[Cluster]:
    """A cluster with a pool in two zones, or in the zones of the test."""
    fake, google = FakeGce(), Google()
    with api_over(database, tmp_path) as api, serving(fake) as address:
        compute = GceCompute(GceApi(address, AnonymousCredentials()), sleep=lambda s: None)
        new_cluster = Cluster(api, fake, compute, google, datetime.now(timezone.utc))
        fake.now = lambda: new_cluster.now.timestamp()
        compute._now, compute._sleep = fake.now, new_cluster.pass_time
        places = getattr(request, "param", {"zones": ["us-central1-a", "us-central1-b"]})
        pool = {"pool_name": "default", "provider": {**PROVIDER, **places}}
        pools = load_cluster({"resource_pools": [pool]}).resource_pools
        api.ctx.config = replace(api.ctx.config, resource_pools=pools)
        verifier = GceIdentityVerifier(["acme"], GoogleCertificates(google.certificates))
        api.ctx.verifiers.machines = {verifier.kind: verifier}
        api.ctx.host.public_url = "https://cluster.example"
        api.ctx.now = lambda: new_cluster.now
        yield new_cluster


@pytest.mark.parametrize(
    "cluster", [{"zones": ["us-central1-a"]}, {"region": "us-central1"}], indirect=True
)
def test_submitted_work_rents_uses_and_terminates_a_machine(cluster: Cluster) -> None:
    user = cluster.api.signed_in("determined")
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.machines()
    assert machine.body["scheduling"]["provisioningModel"] == "SPOT"
    assert [a["acceleratorCount"] for a in machine.body["guestAccelerators"]] == [1]
    script = {i["key"]: i["value"] for i in machine.body["metadata"]["items"]}["startup-script"]
    assert "https://cluster.example" in script
    agent = cluster.join(machine)
    cluster.settle()
    agent.work()
    (instance,) = cluster.api.signed_in("admin").get("/api/v1/instances")["instances"]
    assert (instance["zone"], instance["cloudId"]) == (machine.zone, f"acme/{machine.name}")
    assert len(agent.running) == 1
    agent.finish()
    for _ in range(9):
        cluster.pass_time(60)
        agent.poll()
        cluster.settle()
        if not cluster.machines():
            break
    assert cluster.machines() == []


def test_stockout_after_an_accepted_launch_uses_another_zone(
    cluster: Cluster,
) -> None:
    cluster.fake.operation_s = 20.0
    cluster.fake.trouble = lambda zone, body: (
        stockout(zone, "n1-standard-8") if zone == "us-central1-a" else None
    )
    create(cluster.api.signed_in("determined"), activate=True)
    for _ in range(6):
        cluster.settle()
        cluster.pass_time(30)
    (machine,) = cluster.machines()
    assert machine.zone == "us-central1-b"
    (pool,) = cluster.api.signed_in("admin").get("/api/v1/rented-pools")["pools"]
    assert "us-central1-a" in str(pool["cooldowns"])


def test_other_machine_of_the_project_cannot_join(cluster: Cluster) -> None:
    create(cluster.api.signed_in("determined"), activate=True)
    cluster.settle()
    (machine,) = cluster.machines()
    with pytest.raises(AssertionError, match="not one that this cluster launched"):
        cluster.join(machine, instance_name="det-7-1")


def test_machines_of_a_removed_project_are_not_lost(
    cluster: Cluster,
) -> None:
    """They would seem to be gone: their work would be started again, and they would cost money for ever."""
    create(cluster.api.signed_in("determined"), activate=True)
    cluster.settle()
    (machine,) = cluster.machines()
    agent = cluster.join(machine)
    cluster.settle()
    agent.work()
    pool = {
        "pool_name": "default",
        "provider": {**PROVIDER, "project": "new", "zone": "us-central1-a"},
    }
    pools = load_cluster({"resource_pools": [pool]}).resource_pools
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=pools)
    for _ in range(4):
        cluster.pass_time(40)
        agent.poll()
        cluster.settle()
    (instance,) = cluster.api.signed_in("admin").get("/api/v1/instances")["instances"]
    assert (instance["state"], instance["cloudId"]) == ("REGISTERED", f"acme/{machine.name}")
    assert len(agent.running) == 1
