"""Sharded and asynchronous checkpoints of trials on whole clusters."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import sqlalchemy
import yaml
from moto.server import DomainDispatcherApplication
from sqlalchemy import text

from tests.e2e.conftest import Layout, in_processes
from tests.support import ml
from tests.support.cluster import Cluster
from tests.support.moto import moto_server

pytestmark = pytest.mark.slow
CODE = Path(__file__).parent / "sharded"
EXAMPLE = Path(__file__).parents[2] / "examples" / "fsdp_transformer"
TOO_LONG_S = 120


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(slots=2, task_defaults=ml.task_defaults("ml"))


def by_det(cluster: Cluster, home: Path, *arguments: str) -> str:
    """Run det with an interpreter that has PyTorch."""
    return ml.run(
        "ml",
        ["-m", "det_cli.main", *arguments],
        home,
        PYTHONPATH=f"{ml.ROOT / 'cli'}:{ml.ROOT / 'harness'}",
        DET_MASTER=cluster.env["DET_MASTER"],
        DET_USER="determined",
        DET_PASS="",
    )


@in_processes
@pytest.mark.parametrize("mode", ["direct", "master"])
def test_consolidated_checkpoint_has_the_plain_state_of_the_trial(
    cluster: Cluster, tmp_path: Path, trained: tuple[int, Path], mode: str
) -> None:
    experiment, plain = trained
    (checkpoint,) = cluster.get(f"/api/v1/experiments/{experiment}/checkpoints")["checkpoints"]
    assert {"__0_0.distcp", "__1_0.distcp", ".metadata"} <= set(checkpoint["resources"])
    target = tmp_path / "joined"
    options = ["-o", str(target), "--mode", mode, "--consolidate"]
    by_det(cluster, tmp_path, "checkpoint", "download", checkpoint["uuid"], *options)
    assert not list(target.glob("*.distcp"))
    assert not (target / ".metadata").exists()
    joined = str(target / "state_dict.pth")
    count = int(ml.run("ml", [str(CODE / "compare.py"), str(plain), joined], tmp_path))
    parameters = 2 + 3 * 12 + 2
    assert count == parameters * 4, "each parameter, with two moments and a step of AdamW"


@pytest.fixture(scope="module")
def trained(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Train the example on two ranks. Return the experiment and the file of its last plain state."""
    folder = tmp_path_factory.mktemp("trained")
    code = folder / "code"
    shutil.copytree(EXAMPLE, code)
    shutil.copy(CODE / "plain_def.py", code)
    plain = folder / "plain.pth"
    launcher = "python3 -m determined.launch.torch_distributed --trial plain_def:PlainTrial"
    experiment = cluster.train(
        code / "fsdp.yaml",
        code,
        *("--config", f"entrypoint={launcher}"),
        *("--config", "hyperparameters.records=200"),
        *("--config", "searcher.max_length.epochs=1"),
        *("--config", f"environment.environment_variables=[PLAIN_STATE={plain}]"),
    )
    return experiment, plain


@dataclass
class Bucket:
    """A bucket that holds back the last part of an upload."""

    client: Any
    config: dict[str, Any]
    is_open: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    lasts: int = 0

    def checkpoints(self) -> set[str]:
        """Return the checkpoints with files, without the TensorBoard files beside them."""
        listing = self.client.list_objects_v2(Bucket="models").get("Contents", [])
        keys = [item["Key"] for item in listing]
        return {key.split("/")[0] for key in keys if "/tensorboard/" not in key}

    def unfinished(self) -> list[Any]:
        return list(self.client.list_multipart_uploads(Bucket="models").get("Uploads") or [])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with moto_server("us-east-1") as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket="models")
        config = {"type": "s3", "bucket": "models", "endpoint_url": endpoint}
        keys = {"access_key": "testing", "secret_key": "testing"}
        bucket = Bucket(client, {**config, **keys})
        answer = DomainDispatcherApplication.__call__

        def holding(self: Any, environ: dict[str, Any], start_response: Any) -> Any:
            if "partNumber=3" in environ.get("QUERY_STRING", ""):
                bucket.lasts += 1
                if bucket.lasts == 2:
                    bucket.held.set()
                    bucket.is_open.wait(TOO_LONG_S)
            return answer(self, environ, start_response)

        monkeypatch.setattr(DomainDispatcherApplication, "__call__", holding)
        try:
            yield bucket
        finally:
            bucket.is_open.set()
            client.close()


def pass_days(cluster: Cluster, days: int) -> None:
    """Move the ends of all runs, the reports of checkpoints and the last housekeeping into the past."""
    (pid_file,) = (cluster.folder / "data").rglob("postmaster.pid")
    _, _, _, port, folder, *_ = pid_file.read_text().splitlines()
    socket = Path(folder) / f".s.PGSQL.{port}"  # elsewhere if the path of the cluster is long
    url = f"postgresql+pg8000://postgres@localhost/postgres?unix_sock={socket}"
    past = f"interval '{days} days'"
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as tx:
        tx.execute(text(f"UPDATE allocations SET ended_at = ended_at - {past}"))
        tx.execute(text(f"UPDATE checkpoints SET reported_at = reported_at - {past}"))
        tx.execute(text(f"UPDATE cluster SET cleaned_at = cleaned_at - {past}"))


@in_processes
def test_checkpoint_of_a_killed_writer_is_replaced_and_deleted(
    cluster: Cluster, bucket: Bucket, tmp_path: Path
) -> None:
    config = yaml.safe_load((CODE / "interrupted.yaml").read_text())
    config["checkpoint_storage"] = {**bucket.config, "save_trial_latest": 9}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    experiment = cluster.create(tmp_path / "config.yaml", CODE)
    assert bucket.held.wait(TOO_LONG_S), cluster.why()
    (trial,) = cluster.trials(experiment)
    path = f"/api/v1/trials/{trial['id']}/checkpoints"
    (first,) = cluster.get(path)["checkpoints"]
    assert len(bucket.unfinished()) == 1
    unfinished = bucket.unfinished()[0]["Key"].split("/")[0]
    assert unfinished != first["uuid"]
    cluster.kill_containers_of(trial["id"])
    cluster.until(lambda: not cluster.containers_of(trial["id"]), "the writer is gone too")
    bucket.is_open.set()

    assert cluster.until_state(experiment, "COMPLETED", "ERROR") == "COMPLETED"
    begins = [line for line in cluster.logs(trial["id"]).splitlines() if "|| begins after" in line]
    assert [line.rpartition("after ")[2] for line in begins] == ["0 steps", "1 steps"]
    kept = {c["uuid"] for c in cluster.get(path)["checkpoints"] if c["state"] == "STATE_COMPLETED"}
    assert first["uuid"] in kept
    assert len(kept) == 2
    # A program on an unreachable machine might still upload, so files are deleted a day after the end of the run.
    pass_days(cluster, 2)
    cluster.train(tmp_path / "config.yaml", CODE)
    cluster.until(
        lambda: unfinished not in bucket.checkpoints() and not bucket.unfinished(),
        "the files of the unfinished checkpoint are deleted",
    )
    assert kept <= bucket.checkpoints()
    gone = cluster.get(f"/api/v1/checkpoints/{unfinished}")["checkpoint"]
    assert gone["state"] == "STATE_DELETED"
