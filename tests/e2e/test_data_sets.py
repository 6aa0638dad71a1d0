"""Trials read data sets that their agent loaded once, in processes and in Docker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_agent.identity import address_towards

from tests.support.cluster import Cluster
from tests.support.object_server import ObjectServer, object_server

CODE = Path(__file__).parent / "data_near"


def files(test: str) -> dict[str, bytes]:
    """Return files with other contents for each test, because the cache has each content once."""
    return {f"part/{n}.bin": f"{test}-{n:05}".encode() * 1_000 for n in range(20)}


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    # Agents with Docker do not load from loopback addresses.
    with object_server(address_towards("8.8.8.8")) as objects:
        yield objects


def config(tmp_path: Path, source: str, **more: Any) -> Path:
    path = tmp_path / "data.yaml"
    body = {
        "name": "data near the GPU",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
        "max_restarts": 0,
        "data": [{"source": source, "at": "/data", **more}],
    }
    path.write_text(yaml.safe_dump(body))
    return path


def ran(cluster: Cluster, path: Path) -> str:
    """Run an experiment, and return the log of its trial."""
    experiment_id = cluster.create(path, CODE)
    cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=60)
    return cluster.logs(int(cluster.trials(experiment_id)[0]["id"]))


def test_second_trial_reads_the_cache(
    cluster: Cluster, server: ObjectServer, tmp_path: Path
) -> None:
    source = server.manifest(files("cach"))
    first = ran(cluster, config(tmp_path, source))
    assert "read 200000 bytes" in first
    assert "Loading 200 kB of data sets" in first
    if cluster.runtime == "docker":
        assert "cannot write to /data: Read-only file system" in first
    assert set(server.gets.values()) == {1}
    server.gets.clear()
    second = ran(cluster, config(tmp_path, source))
    assert "read 200000 bytes" in second
    assert "Data sets are in the cache: 200 kB" in second
    assert dict(server.gets) == {"/set/manifest.json": 1}
    (agent,) = cluster.get("/api/v1/agents")["agents"]
    assert f"{agent['id']} holds {source} (200 kB)" in second
    (held,) = [s for s in agent["dataCache"]["sets"] if s["source"] == source]
    assert (held["bytes"], held["total"]) == (200_000, 200_000)
    assert f"{source}: 195.3KB" in cluster.det("agent", "describe", agent["id"]).err


def test_stream_reads_objects_on_access(
    cluster: Cluster, server: ObjectServer, tmp_path: Path
) -> None:
    source = server.manifest(files("stre"), "/stream/manifest.json")
    log = ran(cluster, config(tmp_path, source, mode="stream"))
    assert "read 200000 bytes" in log
    assert "Loading" not in log
    assert sum(server.gets.values()) == 21


def test_wrong_checksum_ends_the_trial_with_a_sentence(
    cluster: Cluster, server: ObjectServer, tmp_path: Path
) -> None:
    source = server.manifest(files("dama"), "/damaged/manifest.json")
    server.objects["/damaged/part/3.bin"] = b"x" * 10_000
    experiment_id = cluster.create(config(tmp_path, source), CODE)
    cluster.until_state(experiment_id, "ERROR", timeout_s=60)
    why = cluster.det("why", str(experiment_id)).out
    assert "object 'part/3.bin' has the checksum" in why
