"""The content of the storage after training, collection and deletions, on a directory and on S3."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.support.cluster import Cluster, local_cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from moto.server import ThreadedMotoServer

CODE = Path(__file__).parent / "storage"
PREFIX = "team/a"
AWS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Storage:
    """A place for checkpoints: how experiments name it, and the files that lie in it."""

    config: dict[str, Any]
    environment: dict[str, str]
    files: Callable[[], set[str]]

    def checkpoints(self) -> set[str]:
        """Return the names of checkpoints, without the TensorBoard files beside them."""
        return {name.split("/")[0] for name in self.files() if "/tensorboard/" not in name}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with local_cluster(tmp_path_factory.mktemp("storage"), runtime="process") as running_cluster:
        yield running_cluster


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["shared_fs", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, endpoint: str) -> Iterator[Storage]:
    if request.param == "s3":
        yield from _bucket(endpoint)
    else:
        config = {"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "ck"}
        yield Storage(config, {}, lambda: _files(tmp_path / "ck"))


def _files(folder: Path) -> set[str]:
    """List the files. A folder that is being deleted has no files; `rglob` would raise an error."""
    paths = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(path, folder) for path in paths}


def _bucket(endpoint: str) -> Iterator[Storage]:
    import boto3

    name = f"checkpoints-{uuid4()}"
    session = boto3.Session("key", "secret", region_name="us-east-1")
    bucket = session.resource("s3", endpoint_url=endpoint).Bucket(name)
    bucket.create()

    def files() -> set[str]:
        return {item.key.removeprefix(f"{PREFIX}/") for item in bucket.objects.all()}

    config = {"type": "s3", "bucket": name, "prefix": PREFIX, "endpoint_url": endpoint}
    yield Storage(config, AWS, files)
    bucket.meta.client.close()


def train(cluster: Cluster, storage: Storage, folder: Path, **policy: int) -> int:
    config = yaml.safe_load((CODE / "config.yaml").read_text())
    config["checkpoint_storage"] = storage.config | policy
    variables = [f"{k}={v}" for k, v in storage.environment.items()]
    config["environment"] = {"environment_variables": variables}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    experiment_id = cluster.create(path, CODE)
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR")
    assert state == "COMPLETED", cluster.logs(cluster.trials(experiment_id)[0]["id"])
    return experiment_id


def checkpoints(cluster: Cluster, experiment_id: int) -> dict[int, dict[str, Any]]:
    """Return checkpoints by the steps that they hold."""
    reported = cluster.get(f"/api/v1/experiments/{experiment_id}/checkpoints")["checkpoints"]
    return {int(c["metadata"]["steps_completed"]): c for c in reported}


KEEP_ALL = {"save_experiment_best": 4, "save_trial_best": 4, "save_trial_latest": 4}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ({"save_experiment_best": 0, "save_trial_best": 1, "save_trial_latest": 1}, {2, 4}),
        ({"save_experiment_best": 2, "save_trial_best": 0, "save_trial_latest": 0}, {2, 3}),
    ],
)
def test_ended_experiment_has_only_the_checkpoints_of_its_policy(
    cluster: Cluster, storage: Storage, tmp_path: Path, policy: dict[str, int], kept: set[int]
) -> None:
    experiment_id = train(cluster, storage, tmp_path, **policy)
    cluster.until(
        lambda: len(storage.checkpoints()) <= len(kept), f"only {kept} are left in the storage"
    )
    by_step = checkpoints(cluster, experiment_id)
    assert storage.checkpoints() == {by_step[step]["uuid"] for step in kept}
    cluster.until(
        lambda: {s for s, c in checkpoints(cluster, experiment_id).items()
                 if c["state"] == "STATE_COMPLETED"} == kept, "the others are told as deleted",
    )  # fmt: skip


def test_checkpoint_contains_its_files_and_can_be_downloaded(
    cluster: Cluster, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    experiment_id = train(cluster, storage, tmp_path, **KEEP_ALL)
    third = checkpoints(cluster, experiment_id)[3]["uuid"]
    assert {f"{third}/weights/layer.bin", f"{third}/metadata.json"} <= storage.files()
    cluster.det("checkpoint", "download", third, "-o", tmp_path / "out")
    assert (tmp_path / "out/weights/layer.bin").read_bytes() == b"\3" * 1000


def test_deleting_a_checkpoint_deletes_its_files(
    cluster: Cluster, storage: Storage, tmp_path: Path
) -> None:
    experiment_id = train(cluster, storage, tmp_path, **KEEP_ALL)
    all_of_them = {c["uuid"] for c in checkpoints(cluster, experiment_id).values()}
    assert storage.checkpoints() == all_of_them
    uuid = checkpoints(cluster, experiment_id)[1]["uuid"]
    cluster.det("checkpoint", "delete", uuid, "--yes")
    cluster.until(lambda: uuid not in storage.checkpoints(), f"the files of {uuid} are gone")
    assert storage.checkpoints() == all_of_them - {uuid}


def test_deleting_an_experiment_deletes_all_its_files(
    cluster: Cluster, storage: Storage, tmp_path: Path
) -> None:
    experiment_id = train(cluster, storage, tmp_path, **KEEP_ALL)
    cluster.det("experiment", "delete", str(experiment_id), "--yes")
    cluster.until(lambda: not storage.files(), "the storage is empty")
    cluster.until(
        lambda: cluster.run("experiment", "describe", str(experiment_id)).code != 0,
        "the experiment is gone",
    )


def test_trial_reports_unwritable_storage_before_training(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load((CODE / "config.yaml").read_text())
    (tmp_path / "file").touch()
    unusable_path = str(tmp_path / "file" / "below")
    config["checkpoint_storage"] = {"type": "shared_fs", "host_path": unusable_path}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    answer = cluster.run("experiment", "create", tmp_path / "config.yaml", CODE, "--follow")
    assert answer.code == 1
    assert "checkpoints cannot be saved" in answer.out
    assert unusable_path in answer.out
