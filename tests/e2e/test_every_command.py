"""Every command of the first day, on a whole cluster, as a person at a terminal meets them."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Held, in_docker_on_demand
from tests.support.cluster import Cluster

pytestmark = in_docker_on_demand
SHORT = ("--config", "searcher.max_length.batches=5")


@pytest.fixture(scope="module")
def ended(cluster: Cluster) -> int:
    """An experiment that has completed."""
    exact = Path(__file__).parent / "exact"
    answer = cluster.det("e", "create", exact / "single.yaml", exact, *SHORT, "--follow")
    assert "finished at step 5: exact" in answer.out
    assert "COMPLETED" in answer.err
    return int(re.findall(r"Created experiment (\d+)", answer.out)[0])


@pytest.fixture
def paused(cluster: Cluster, held: Held) -> int:
    """An experiment that does not end after its activation until it is canceled."""
    return cluster.create(held.config, held.code, "--paused")


def test_lists_are_printed_as_table_json_csv_and_yaml(cluster: Cluster, ended: int) -> None:
    table = cluster.det("e", "list").out
    assert [c.strip() for c in table.splitlines()[0].split("|")][:3] == ["ID", "Owner", "Name"]
    (row,) = [e for e in cluster.det("e", "list", "--json").json() if e["id"] == ended]
    assert row["state"] == "STATE_COMPLETED"
    rows = csv.DictReader(io.StringIO(cluster.det("e", "list", "--csv").out))
    assert str(ended) in [r["ID"] for r in rows]
    experiments = yaml.safe_load(cluster.det("e", "list", "-o", "yaml").out)
    assert ended in [e["id"] for e in experiments]


def test_experiment_is_described_with_its_trials_and_checkpoints(
    cluster: Cluster, ended: int
) -> None:
    output = cluster.det("e", "describe", str(ended)).out
    assert "COMPLETED" in output
    config = yaml.safe_load(cluster.det("e", "config", str(ended)).out)
    assert config["searcher"]["max_length"] == {"batches": 5}
    assert "COMPLETED" in cluster.det("e", "list-trials", str(ended)).out
    assert cluster.det("e", "wait", str(ended)).code == 0


def test_trial_is_described_and_its_log_followed(cluster: Cluster, ended: int) -> None:
    trial = str(cluster.trials(ended)[0]["id"])
    assert "COMPLETED" in cluster.det("trial", "describe", trial).out
    log = cluster.det("trial", "logs", "-f", trial).out
    assert "finished at step 5: exact" in log
    task = cluster.trials(ended)[0]["taskId"]
    assert cluster.det("task", "logs", task).out == log
    allocation = cluster.det("task", "logs", f"{task}.1").out
    assert allocation
    assert set(allocation.splitlines()) <= set(log.splitlines())


def test_checkpoints_are_listed_described_and_downloaded(
    cluster: Cluster, ended: int, tmp_path: Path
) -> None:
    (checkpoint,) = cluster.det(
        "checkpoint", "list", "--experiment-id", str(ended), "--json"
    ).json()
    uuid = checkpoint["uuid"]
    assert uuid in cluster.det("e", "list-checkpoints", str(ended)).out
    assert "COMPLETED" in cluster.det("checkpoint", "describe", uuid).out
    cluster.det("checkpoint", "download", uuid, "-o", tmp_path / "files")
    assert json.loads((tmp_path / "files/state.json").read_text())["step"] == 5


def test_experiment_is_archived_and_unarchived(cluster: Cluster, ended: int) -> None:
    cluster.det("e", "archive", str(ended))
    assert ended not in [e["id"] for e in cluster.det("e", "list", "--json").json()]
    assert ended in [e["id"] for e in cluster.det("e", "list", "--all", "--json").json()]
    cluster.det("e", "unarchive", str(ended))
    assert ended in [e["id"] for e in cluster.det("e", "list", "--json").json()]


def test_paused_experiment_is_activated_and_canceled(cluster: Cluster, paused: int) -> None:
    assert cluster.experiment(paused)["state"] == "STATE_PAUSED"
    cluster.det("e", "activate", str(paused))
    cluster.until(lambda: cluster.trials(paused), "it has a trial")
    cluster.det("e", "cancel", str(paused))
    assert cluster.until_state(paused, "CANCELED", "COMPLETED", "ERROR") == "CANCELED"
    waited = cluster.run("e", "wait", str(paused))
    assert (waited.code, "CANCELED" in waited.err) == (1, True)


def test_killed_trial_is_canceled(cluster: Cluster, held: Held) -> None:
    experiment_id = cluster.create(held.config, held.code)
    cluster.until(lambda: cluster.trials(experiment_id), "it has a trial")
    cluster.det("trial", "kill", str(cluster.trials(experiment_id)[0]["id"]))
    cluster.until(
        lambda: cluster.trials(experiment_id)[0]["state"] == "STATE_CANCELED", "it is canceled"
    )


def test_deleted_experiment_is_not_found(cluster: Cluster, paused: int) -> None:
    cluster.det("e", "kill", str(paused))
    cluster.until_state(paused, "CANCELED")
    cluster.det("e", "delete", str(paused), "--yes")
    cluster.until(lambda: cluster.run("e", "describe", str(paused)).code == 3, "it is gone")


def test_agents_and_slots_are_listed(cluster: Cluster) -> None:
    (agent,) = cluster.det("agent", "list", "--json").json()
    slots = cluster.det("slot", "list", "--json").json()
    assert {s["agent_id"] for s in slots} == {agent["id"]}
    assert len(slots) == agent["num_slots"] == 4
    assert "clusterId" in cluster.det("master", "info").out
    assert "0.38.1" in cluster.det("version").out


def test_users_are_created_and_sign_in_and_out(cluster: Cluster, tmp_path: Path) -> None:
    admin = {"DET_USER": "admin", "DET_PASS": ""}
    result = cluster.run("user", "create", "ada", "--password", "Lovelace-1815", environ=admin)
    assert result.code == 0, result.err
    assert "ada" in cluster.det("user", "list").out
    home = {"XDG_CONFIG_HOME": str(tmp_path), "DET_USER": None}
    ada = {**home, "DET_PASS": "Lovelace-1815"}
    assert cluster.run("user", "login", "ada", environ=ada).code == 0
    assert "ada" in cluster.run("user", "whoami", environ=home).out
    assert cluster.run("user", "logout", environ=home).code == 0
    rejected_result = cluster.run("user", "login", "ada", environ={**home, "DET_PASS": "wrong"})
    assert rejected_result.code == 4
    assert "Traceback" not in rejected_result.err


def test_ignored_files_are_not_sent_and_a_large_context_names_its_largest_file(
    cluster: Cluster, exact: Path, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    (context / "__pycache__").mkdir(parents=True)
    (context / "__pycache__/train.pyc").write_bytes(b"x")
    (context / ".detignore").write_text("data/\n!data/keep.txt\n*.log\n")
    (context / "train.py").write_text((exact / "train.py").read_text())
    (context / "noise.log").write_text("x")
    (context / "data").mkdir()
    with open(context / "data/huge.bin", "wb") as f:
        f.truncate(200 * 1024 * 1024)
    experiment_id = cluster.create(exact / "single.yaml", context, "--paused")
    cluster.det("e", "download-model-def", str(experiment_id), "--output-dir", tmp_path)
    assert _names(tmp_path / f"experiment_{experiment_id}_model_def.tgz") == {"train.py"}
    (context / ".detignore").unlink()
    result = cluster.run("e", "create", exact / "single.yaml", context)
    assert result.code == 1
    assert "95 MiB" in result.err
    assert "huge.bin" in result.err


def _names(archive: Path) -> set[str]:
    import tarfile

    with tarfile.open(archive) as tar:
        return set(tar.getnames())
