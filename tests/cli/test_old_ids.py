"""Commands that find imported experiments and trials by their old ids."""

from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from det_controlplane.core.importing.options import Options
from det_controlplane.db.importing import source, target
from det_controlplane.services.importing import importing

from tests.cli.conftest import Det
from tests.support.api import Api
from tests.support.determined_source import SourceCluster, config_of
from tests.support.postgres import DatabaseServer

NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)
SECOND = "0d0e7e12-2222-4222-8333-444455556666"


@pytest.fixture
def old(postgres_server: DatabaseServer) -> Iterator[SourceCluster]:
    """A cluster with experiment 17 and its trial 40."""
    with postgres_server.empty_database() as url:
        cluster = SourceCluster(url)
        cluster.experiment(17)
        cluster.trial(40, 17)
        yield cluster
        cluster.close()


@pytest.fixture
def second(postgres_server: DatabaseServer) -> Iterator[SourceCluster]:
    """Another cluster with an experiment 17."""
    with postgres_server.empty_database() as url:
        cluster = SourceCluster(url, cluster_id=SECOND)
        cluster.experiment(17, job_id="f0e1d2c3-0000-4000-8000-000000000017")
        cluster.trial(41, 17)
        yield cluster
        cluster.close()


def move(old: SourceCluster, url: str, name: str = "") -> None:
    options = Options(id_offset=5000, name=name)
    with source.opened(old.url) as snapshot, target.opened(url) as cluster:
        importing.run(snapshot, cluster, options, lambda: NOW, lambda report: None)


def test_old_ids_name_imported_experiments_and_trials(
    api: Api, det: Det, old: SourceCluster, database_url: str
) -> None:
    move(old, database_url)
    assert "5017" in det("experiment", "describe", "old:17").out
    assert det("experiment", "config", "old:17").out == det("experiment", "config", "5017").out
    described = det("trial", "describe", "old:40").out
    assert "5040" in described
    assert described == det("trial", "describe", "old:1/40").out
    assert det("experiment", "archive", "old:17").code == 0
    assert det("checkpoint", "list", "--trial-id", "old:40").code == 0
    assert "experiment 5018" in det("experiment", "describe", "5017,old:17,5018").err


def test_trial_of_an_imported_search_continues_in_a_new_experiment(
    api: Api, det: Det, old: SourceCluster, database_url: str
) -> None:
    pbt = {"name": "pbt", "metric": "loss", "num_rounds": 3, "length_per_round": {"batches": 4}}
    old.add("storage_backend_shared_fs", id=1, host_path="/checkpoints", propagation="rprivate")
    old.add("storage_backend", id=1, shared_fs_id=1)
    old.experiment(18, state="PAUSED", end_time=None, config=config_of(searcher=pbt))
    old.trial(50, 18, state="PAUSED", end_time=None, hparams={"lr": 0.25, "net": {"width": 8}})
    checkpoint = old.checkpoint(50, 18, 4, storage_id=1)
    move(old, database_url)
    answer = det("trial", "continue", "old:50")
    assert answer.code == 0, answer.err
    assert answer.out == "Created experiment 5019, which continues trial 5050\n"
    experiment = api.signed_in("determined").get("/api/v1/experiments/5019")["experiment"]
    config = experiment["config"]
    assert config["searcher"]["source_checkpoint_uuid"] == checkpoint
    assert config["searcher"]["max_length"] == {"batches": 12}
    assert config["hyperparameters"]["net"]["width"] == {"type": "const", "val": 8}
    assert experiment["forkedFrom"] == 5018


def test_old_id_of_several_imports_needs_the_name_of_one(
    api: Api, det: Det, old: SourceCluster, second: SourceCluster, database_url: str
) -> None:
    move(old, database_url)
    move(second, database_url, name="lab")
    error = det("experiment", "describe", "old:17").err
    assert "write old:1/17 (experiment 5017) or old:lab/17 (experiment 10017)" in error
    assert "10017" in det("experiment", "describe", "old:lab/17").out
    assert det("trial", "describe", "old:41").code == 0
    assert (
        "there is no import lib: the imports are 1, lab"
        in det("trial", "describe", "old:lib/1").err
    )
    rows = [line.split("|") for line in det("import", "list").out.splitlines()[2:]]
    assert [[row[1].strip(), row[-1].strip()] for row in rows] == [
        ["", "N + 5000"],
        ["lab", "N + 10000"],
    ]


def test_new_experiment_behind_the_imported_ones_has_no_old_id(
    api: Api, det: Det, old: SourceCluster, database_url: str
) -> None:
    move(old, database_url)
    with api.ctx.db.begin() as tx:
        tx.exec_driver_sql("UPDATE imports SET last_ids = '{\"experiments\": 16}'")
    assert "no import has experiment 17" in det("experiment", "describe", "old:17").err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("old:17", "old:17 names an imported experiment, and this cluster has no imports"),
        ("old:", "'old:' is no old id: write old:17, or old:NAME/17"),
        ("old:x", "'old:x' is no old id"),
    ],
)
def test_wrong_old_ids_are_explained(api: Api, det: Det, word: str, message: str) -> None:
    answer = det("experiment", "describe", word)
    assert answer.code != 0
    assert message in answer.err


def test_other_words_are_no_ids(api: Api, det: Det) -> None:
    assert "must be a number, not 'new:17'" in det("trial", "describe", "new:17").err
