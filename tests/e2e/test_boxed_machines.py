"""The whole life of rented machines on both clouds in a box, from a submission to the last termination.

Each machine boots from its user data in its own namespaces, and joins by the identity from its metadata service.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cloudbox.box import Box, Instance, until
from tests.support.cloudbox.machine import BARE
from tests.support.cloudbox.pools import box_for_a_cluster, boxed_cluster, on_aws, on_google, pool
from tests.support.cluster import Cluster

pytestmark = pytest.mark.usefixtures("machines_may_boot")
HELD_AT = 25  # the step before which the training of `exact` waits for its gate


@dataclass(frozen=True)
class Rented:
    """A cluster with pools that rent from both clouds of a box."""

    box: Box
    cluster: Cluster

    def instances(self, pool: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.cluster.get(f"/api/v1/instances?pool={pool}&all=true")[
            "instances"
        ]
        return rows

    def machine_of(self, trial_id: int) -> Instance:
        """Wait until a trial runs, and return the machine that it runs on."""
        log = until(lambda: re.findall(r"Started .* on agent (\S+)", self.log(trial_id)), "a start")
        return next(i for i in self.box.on() if i.name == log[-1])

    def log(self, trial_id: int) -> str:
        return "\n".join(line["message"] for line in self.cluster.task_logs(trial_id))

    def until_logged(self, trial_id: int, text: str) -> None:
        try:
            self.cluster.until(
                lambda: text in self.log(trial_id), f"{text!r} of trial {trial_id}", 90
            )
        except AssertionError as e:
            raise AssertionError(f"{e}{self.box.why()}") from None

    def until_saved(self, trial_id: int, step: int) -> None:
        """Wait until the cluster knows a checkpoint: a log may come before it, by another way of the same agent."""
        path = f"/api/v1/trials/{trial_id}/checkpoints"

        def steps() -> list[int]:
            checkpoints = self.cluster.get(path)["checkpoints"]
            return [c["metadata"].get("steps_completed") for c in checkpoints]

        self.cluster.until(lambda: step in steps(), f"a checkpoint of step {step}", 90)


@pytest.fixture(scope="module")
def rented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rented]:
    folder = tmp_path_factory.mktemp("box")
    with box_for_a_cluster(folder / "clouds") as box:
        box.images[box.image_id(1)] = BARE
        pools = (
            pool("aws", on_aws(box, "a", "b")),
            pool("google", on_google(box, "a", "b")),
            pool("bare", on_aws(box, "a", image=1)),
            pool("both", on_aws(box, "c"), on_google(box, "c")),
        )
        with boxed_cluster(box, folder / "cluster", *pools) as cluster:
            yield Rented(box, cluster)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file that trainings wait for at their step 25."""
    gate = tmp_path / "gate" / "open"
    gate.parent.mkdir()
    return gate


def submit(machines: Rented, exact: Path, gate: Path, pool: str, trials: int = 1) -> int:
    """Create an experiment with trials that wait at the gate. Return its id."""
    config = yaml.safe_load((exact / "single.yaml").read_text())
    config["environment"] = {"environment_variables": [f"EXACT_GATE={gate}"]}
    config["bind_mounts"] = [{"host_path": str(gate.parent), "container_path": str(gate.parent)}]
    config["resources"] = {"resource_pool": pool, "slots_per_trial": 1}
    if trials > 1:
        values = {"type": "categorical", "vals": list(range(trials))}
        config["hyperparameters"] = {"number": values}
        config["searcher"] |= {"name": "grid"}
    path = gate.parent / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return machines.cluster.create(path, exact)


def interrupt(machines: Rented, trial_id: int) -> tuple[Instance, Instance]:
    """Announce the end of a trial's machine, take it back when another one is there; returns both."""
    first = machines.machine_of(trial_id)
    before = {i.cloud_id for i in machines.box.on()}
    first.announce()
    (second,) = until(
        lambda: [i for i in machines.box.on() if i.cloud_id not in before], "a replacement"
    )
    machines.until_logged(trial_id, f"preempted at step {HELD_AT}")
    machines.until_saved(trial_id, HELD_AT)
    first.take()
    return first, second


@pytest.mark.parametrize("name", ["aws", "google", "both"])
def test_reclaimed_trial_moves_to_a_new_machine_and_all_machines_end(
    rented: Rented, exact: Path, gate: Path, name: str
) -> None:
    experiment = submit(rented, exact, gate, name)
    (trial,) = rented.cluster.until(lambda: rented.cluster.trials(experiment), "a trial")
    rented.until_logged(trial["id"], "saved step 20")
    first, second = interrupt(rented, trial["id"])
    assert (first.place, type(first)) != (second.place, type(second))
    assert (type(first) is type(second)) == (name != "both")
    gate.touch()
    assert rented.cluster.until_state(experiment, "COMPLETED", "ERROR") == "COMPLETED"

    log = rented.log(trial["id"])
    # Messages contain whole logs, because another line may explain a missing one.
    assert f"resumed at step {HELD_AT}" in log, f"steps were lost after the notice: {log}"
    assert "finished at step 60: exact" in log, log
    (trial,) = rented.cluster.trials(experiment)
    assert trial["restarts"] == 0
    check_no_machines_remain(rented, first, second)
    reclaimed, replacing = sorted(rented.instances(name), key=lambda row: str(row["requestedAt"]))
    ended_at = reclaimed["terminatingSince"] or reclaimed["endedAt"]
    assert replacing["requestedAt"] <= ended_at, (
        "the machine must be rented at the notice, not after the loss"
    )
    check_costs(rented, name, experiment)


def test_stock_image_installs_the_agent_from_its_cluster_and_trains(
    rented: Rented, exact: Path, gate: Path
) -> None:
    experiment = submit(rented, exact, gate, "bare")
    gate.touch()
    assert rented.cluster.until_state(experiment, "COMPLETED", "ERROR") == "COMPLETED"
    (row,) = rented.instances("bare")
    console = rented.box.machine(row["cloudId"]).printed()
    assert "determined-boot: installing the agent" in console
    check_no_machines_remain(rented)


def check_no_machines_remain(rented_machines: Rented, *machines: Instance) -> None:
    until(lambda: not rented_machines.box.on(), "an empty cloud")
    for machine in machines:
        process = rented_machines.box.machine(machine.cloud_id).process
        process.wait(60)
    rows = rented_machines.cluster.until(
        lambda: not rented_machines.cluster.get("/api/v1/instances")["instances"],
        "the last row's end",
    )
    assert rows


def check_costs(machines: Rented, name: str, experiment: int) -> None:
    """Compare the costs of the pool with the intervals of its machines and with the costs of its work."""
    rows = machines.instances(name)
    assert len(rows) == 2
    intervals = sum(
        row["priceUsdHour"] * seconds(row["launchedAt"], row["endedAt"]) / 3600 for row in rows
    )
    costs = machines.cluster.get("/api/v1/costs/pools")["costs"]
    (of_pool,) = [cost for cost in costs if cost["pool"] == name]
    assert of_pool["costUsd"] == pytest.approx(intervals, abs=0.01)
    assert of_pool["costUsd"] == pytest.approx(of_pool["workingUsd"] + of_pool["idleUsd"], abs=0.01)
    (of_work,) = machines.cluster.get(f"/api/v1/costs/experiments?ids={experiment}")["costs"]
    assert of_pool["workingUsd"] == pytest.approx(of_work["costUsd"], abs=0.01)
    assert of_work["costUsd"] > 1


def seconds(start: str, end: str) -> float:
    begin_time, end_time = (
        datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (start, end)
    )
    return (end_time - begin_time).total_seconds()


def test_reclaim_of_one_of_four_machines_loses_no_step(
    rented: Rented, exact: Path, gate: Path
) -> None:
    experiment = submit(rented, exact, gate, "aws", trials=4)
    trials = rented.cluster.until(
        lambda: len(four := rented.cluster.trials(experiment)) == 4 and four, "four trials"
    )
    ids = [trial["id"] for trial in trials]
    for id in ids:
        rented.until_logged(id, "saved step 20")
    assert len({rented.machine_of(id).cloud_id for id in ids}) == 4
    interrupt(rented, ids[2])
    gate.touch()
    assert rented.cluster.until_state(experiment, "COMPLETED", "ERROR") == "COMPLETED"
    for id in ids:
        rented.until_logged(id, "finished at step 60: exact")
    logs = {id: rented.log(id) for id in ids}
    resumptions = {id: re.findall(r"resumed at step (\d+)", log) for id, log in logs.items()}
    assert resumptions == {id: [str(HELD_AT)] if id == ids[2] else [] for id in ids}


def test_distributed_trial_resumes_when_one_of_its_machines_is_reclaimed(
    rented: Rented, gate: Path
) -> None:
    check_no_machines_remain(
        rented
    )  # machines of an earlier test, while they are idle, would take a part of it
    code = Path(__file__).parent / "gang"
    config = yaml.safe_load((code / "gang.yaml").read_text())
    config["environment"] = {"environment_variables": [f"GANG_GATE={gate}"]}
    config["bind_mounts"] = [{"host_path": str(gate.parent), "container_path": str(gate.parent)}]
    config["resources"] = {"resource_pool": "aws", "slots_per_trial": 2}
    path = gate.parent / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    experiment = rented.cluster.create(path, code)
    (trial,) = rented.cluster.until(lambda: rented.cluster.trials(experiment), "a trial")
    rented.until_logged(trial["id"], "saved step 10")
    before = rented.box.on()
    assert len(before) == 2, "each machine has one slot"
    before[1].announce()
    # Rank 0 saves, also if its machine is reclaimed.
    rented.until_logged(trial["id"], "rank 1 preempted at step 15")
    rented.until_saved(trial["id"], 15)
    before[1].take()
    gate.touch()
    assert rented.cluster.until_state(experiment, "COMPLETED", "ERROR") == "COMPLETED"
    log = rented.log(trial["id"])
    for rank in (0, 1):
        assert f"rank {rank} of 2 resumed at step 15" in log, (
            f"steps were lost after the notice: {log}"
        )
        assert f"rank {rank} finished: exact" in log, log
    (trial,) = rented.cluster.trials(experiment)
    assert trial["restarts"] == 0
    check_no_machines_remain(rented, *before)
