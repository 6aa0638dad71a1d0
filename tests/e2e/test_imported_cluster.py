"""Determined's own client 0.38.1 works with an imported cluster: lists, metrics, checkpoints, models, paused work."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, local_cluster
from tests.support.determined_source import SourceCluster, archive, config_of
from tests.support.postgres import DatabaseServer
from tests.support.stock import StockClient, stock_client

pytestmark = pytest.mark.slow
# Trains to step 4 from its newest checkpoint, and says where it starts.
CODE = """
import determined as det

with det.core.init() as core:
    latest, start = det.get_cluster_info().latest_checkpoint, 0
    if latest:
        with core.checkpoint.restore_path(latest) as path:
            start = int((path / "state").read_text())
    print("starts after step", start)
    for steps in range(start + 1, 5):
        core.train.report_validation_metrics(steps, {"loss": 1 / steps})
        with core.checkpoint.store_path({"steps_completed": steps}) as (path, uuid):
            (path / "state").write_text(str(steps))
"""
ENDED, PAUSED = 30, 31


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def old(postgres_server: DatabaseServer, storage: Path) -> Iterator[SourceCluster]:
    """A cluster with an ended experiment and one that was paused after two steps; each has a checkpoint."""
    with postgres_server.empty_database() as url:
        cluster = SourceCluster(url)
        config = config_of(
            entrypoint="python3 train.py",
            hyperparameters={},
            searcher={"name": "single", "metric": "loss", "max_length": {"batches": 4}},
            checkpoint_storage={"type": "shared_fs", "host_path": str(storage)},
        )
        content = archive(train=CODE)
        cluster.experiment(ENDED, config=config, model_definition=content, best_trial_id=60)
        cluster.experiment(
            PAUSED, state="PAUSED", config=config, model_definition=content, end_time=None
        )
        for trial, experiment, state in ((60, ENDED, "COMPLETED"), (61, PAUSED, "PAUSED")):
            for steps in (1, 2):
                best = cluster.validation(trial, steps, {"loss": 1 / steps})
            cluster.trial(
                trial, experiment, state=state, hparams={}, total_batches=2, best_validation_id=best,
                latest_validation_id=best, searcher_metric_value=0.5,
                end_time=None if state == "PAUSED" else "2024-05-01T13:00:00Z",
            )  # fmt: skip
            uuid = cluster.checkpoint(trial, experiment, 2)
            (storage / uuid).mkdir()
            (storage / uuid / "state").write_text("2")
        yield cluster
        cluster.close()


@pytest.fixture(scope="module")
def cluster(old: SourceCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A new cluster with the old one's contents."""
    with local_cluster(tmp_path_factory.mktemp("new"), runtime="process") as running_cluster:
        folder = ("--data-dir", running_cluster.folder / "data")
        running_cluster.det("import", "determined", old.url, *folder)
        verification = running_cluster.det("import", "verify", old.url, *folder).out
        assert "differs" not in verification
        yield running_cluster


@pytest.fixture(scope="module")
def stock(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClient]:
    with stock_client(cluster.env["DET_MASTER"], tmp_path_factory.mktemp("client"), {}) as client:
        client.det("user", "login", "determined", stdin="\n")
        yield client


def test_experiments_are_listed_and_described(stock: StockClient) -> None:
    assert re.search(rf"{ENDED} .*digits", stock.det("experiment", "list", "--all"))
    description = stock.det("experiment", "describe", ENDED, "--metrics")
    assert "COMPLETED" in description
    assert "0.5" in description
    assert "digits" in stock.det("experiment", "config", ENDED)


def test_checkpoint_is_downloaded_and_registered(
    old: SourceCluster, stock: StockClient, tmp_path: Path
) -> None:
    uuid = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", stock.det("trial", "describe", 60))[-1]
    stock.det("checkpoint", "download", uuid, "--output-dir", tmp_path / "files")
    assert (tmp_path / "files" / "state").read_text() == "2"
    stock.det("model", "create", "imported-digits")
    stock.det("model", "register-version", "imported-digits", uuid)
    assert uuid in stock.det("model", "list-versions", "imported-digits")


def test_paused_experiment_continues_from_its_checkpoint(
    cluster: Cluster, stock: StockClient
) -> None:
    stock.det("experiment", "activate", PAUSED)
    stock.det("experiment", "wait", PAUSED)
    assert "starts after step 2" in stock.det("trial", "logs", 61)
    metrics = cluster.get("/api/v1/trials/61")["trial"]
    assert (metrics["state"], metrics["totalBatchesProcessed"]) == ("STATE_COMPLETED", 4)
