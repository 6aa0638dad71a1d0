"""Rented machines that never work: `det why` shows a clear reason for each, and all are terminated."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.cloudbox.box import Box, Instance, until
from tests.support.cloudbox.ec2 import Ec2Instance
from tests.support.cloudbox.gce import GceInstance
from tests.support.cloudbox.machine import Image
from tests.support.cloudbox.pools import box_for_a_cluster, boxed_cluster, on_aws, on_google, pool
from tests.support.cluster import Cluster

pytestmark = pytest.mark.usefixtures("machines_may_boot")
REAL_SLOTS = {"container_runtime": "process"}  # GPUs that the machine shows
# The faults of the images of these pools.
IMAGES = {
    "dead": Image("echo 'Kernel panic - not syncing: Attempted to kill init!'; exit 1"),
    "no-driver": Image("printf '#!/bin/sh\\nexit 124\\n' > {scratch}/bin/timeout"),
    "no-runtime": Image(
        "printf '#!/bin/sh\\necho GPU 0\\n' > {scratch}/bin/nvidia-smi;"
        " printf '#!/bin/sh\\necho cannot resolve nvidia.github.io >&2; exit 6\\n' > {scratch}/bin/curl;"
        " rm {scratch}/bin/nvidia-ctk"
    ),
    "full-disk": Image(
        "mkdir -p /var/lib/determined; mount -t tmpfs -o size=4k tmpfs /var/lib/determined;"
        " head -c 100000 /dev/zero > /var/lib/determined/full || true"
    ),
}
EXPECTED = {
    "dead": "last output: Kernel panic - not syncing: Attempted to kill init!",
    "no-driver": "waiting for the GPUs; last output: no GPU is visible: the image needs NVIDIA's driver",
    "no-runtime": "last startup step: installing the NVIDIA container toolkit; last output: ",
    "full-disk": "No space left on device",
}
# Agents that start have to be heard: that takes ten seconds on a busy machine.
HEARD = "20s"
PERIODS = {"full-disk": HEARD}


@dataclass(frozen=True)
class Failing:
    box: Box
    cluster: Cluster
    folder: Path

    def submit(self, pool: str) -> int:
        code, config = self.folder / "code", self.folder / f"{pool}.yaml"
        code.mkdir(exist_ok=True)
        (code / "train.py").touch()
        content = {
            "entrypoint": "true", "searcher": {"name": "single", "metric": "loss"}, "max_restarts": 0,
            "resources": {"resource_pool": pool, "slots_per_trial": 1},
        }  # fmt: skip
        config.write_text(yaml.safe_dump(content))
        return self.cluster.create(config, code)

    def until_told(self, experiment_id: int, reason: str) -> None:
        """Wait until `det why` gives a reason, beside that the pool rents no more."""

        def told() -> bool:
            reasons = self.cluster.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
            sentences = "".join(r["sentence"] for r in reasons)
            return reason in sentences and "the last 3 machines did not join" in sentences

        try:
            until(told, reason, 150)
        except AssertionError as e:
            last = self.cluster.det("why", str(experiment_id)).out
            raise AssertionError(f"{e}: {last}{self.box.why()}{self.cluster.why()}") from None
        assert reason in self.cluster.det("why", str(experiment_id)).out

    def rows(self, name: str) -> list[dict[str, str]]:
        path = f"/api/v1/instances?all=true&pool={name}"
        return list(self.cluster.get(path)["instances"])


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failing]:
    folder = tmp_path_factory.mktemp("box")
    with box_for_a_cluster(folder / "clouds") as box:
        pools = []
        for number, (name, image) in enumerate(IMAGES.items(), 1):
            box.images[box.image_id(number)] = image
            own = {"agent_config_file_contents": REAL_SLOTS} if name.startswith("no-") else {}
            section = on_aws(box, "a", image=number, **own)
            pools.append(pool(name, section, max_agent_starting_period=PERIODS.get(name, "9s")))
        strangers = [on_aws(box, "b"), on_google(box, "b")]
        for section in strangers:
            name = f"strange-{section['type']}"
            pools.append(pool(name, section, max_agent_starting_period=HEARD))
        with boxed_cluster(box, folder / "cluster", *pools) as cluster:
            yield Failing(box, cluster, folder)


@pytest.mark.parametrize("name", IMAGES)
def test_failing_image_stops_the_pool_with_a_reason(failing: Failing, name: str) -> None:
    experiment = failing.submit(name)
    failing.until_told(experiment, EXPECTED[name])
    check_no_machines_run(failing, name)
    assert len(failing.rows(name)) == 3, "the pool must not rent machines in a loop"
    failing.cluster.det("experiment", "kill", str(experiment))


def lie(instance: Instance) -> None:
    """Have the metadata service of a machine say that it is another."""
    if isinstance(instance, Ec2Instance):
        instance.document["instanceId"] = "i-0123456789abcdef0"
    elif isinstance(instance, GceInstance):
        instance.claims["instance_name"] = "somebody-elses"


@pytest.mark.parametrize(
    ("cloud", "reason"),
    [
        ("aws", "aws machine 'i-0123456789abcdef0' is not one that this cluster launched"),
        ("gcp", "gcp machine 'acme/somebody-elses' is not one that this cluster launched"),
    ],
)
def test_machine_with_another_machines_identity_is_rejected(
    failing: Failing, cloud: str, reason: str
) -> None:
    failing.box.before_boot = lie
    experiment = failing.submit(f"strange-{cloud}")
    failing.until_told(experiment, reason)
    assert not failing.cluster.get("/api/v1/agents")["agents"][1:], "only the local agent may join"
    check_no_machines_run(failing, f"strange-{cloud}")
    failing.cluster.det("experiment", "kill", str(experiment))


def test_wrong_clock_is_the_reported_reason(failing: Failing) -> None:
    result = failing.cluster.run("pool", "resume", "strange-aws", environ={"DET_USER": "admin"})
    assert result.code == 0, result.err
    failing.box.before_boot = lambda instance: None
    failing.box.sts.ahead_s = 3600
    experiment = failing.submit("strange-aws")
    failing.until_told(experiment, "is the machine's clock right?")
    check_no_machines_run(failing, "strange-aws")


def check_no_machines_run(failing: Failing, pool: str) -> None:
    def live() -> object:
        return failing.cluster.get(f"/api/v1/instances?pool={pool}")["instances"]

    until(lambda: not live(), "the end of every machine", 150)
    assert not failing.box.on()
