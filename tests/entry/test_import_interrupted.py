"""Imports whose databases fail in the middle: one sentence, and the same command continues."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.entry.importing import commands
from det_controlplane.services.importing import importing

from tests.entry.test_import_command import arguments
from tests.support.cut_connection import cutting
from tests.support.determined_source import SourceCluster
from tests.support.postgres import DatabaseServer
from tests.support.skips import AS_ROOT, because

EXPERIMENTS = 4
REPORTS = 5000  # of each experiment, about 700 KB
NEXT = "finished experiments stay imported; run the same command again to continue"
_FILL = """
    INSERT INTO metrics (id, trial_id, end_time, metrics, total_batches, trial_run_id, archived, metric_group,
        partition_type)
    SELECT t.id * 100000 + n, t.id, now(), jsonb_build_object('avg_metrics', jsonb_build_object(
        'loss', random(), 'text', repeat(md5(n::text), 3))), n, 1, false, 'training', 'TRAINING'
    FROM runs t, generate_series(1, %s) n
"""


@pytest.fixture
def old(empty_database_url: str) -> Iterator[SourceCluster]:
    """A cluster with experiments that have many reports each."""
    cluster = SourceCluster(empty_database_url)
    for number in range(1, EXPERIMENTS + 1):
        cluster.experiment(number)
        cluster.trial(number, number)
    with cluster.engine.begin() as tx:
        tx.exec_driver_sql(_FILL, (REPORTS,))
    yield cluster
    cluster.close()


@pytest.fixture
def new_url(postgres_server: DatabaseServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


@pytest.fixture(autouse=True)
def _single_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_EXPERIMENTS", 1)


def run(source: str, into: str) -> int:
    return commands.main("determined", arguments(source, into))


def errors(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("size", [300_000, 1_500_000])
def test_import_continues_after_a_connection_is_cut_in_a_stream(
    old: SourceCluster, new_url: str, capsys: pytest.CaptureFixture[str], side: str, size: int
) -> None:
    with cutting(old.url if side == "source" else new_url) as (proxy, url):
        source, into = (url, new_url) if side == "source" else (old.url, url)
        proxy.remaining = size
        assert run(source, into) == 1
        (line,) = errors(capsys)
        name = "the old cluster's database" if side == "source" else "the new cluster's database"
        assert line.startswith(f"det import: {name} does not answer: ")
        assert line.endswith(NEXT)
        proxy.remaining = None
        assert run(source, into) == 0
    assert commands.main("verify", arguments(old.url, new_url)) == 0


class SmallDisk:
    """A file system in memory with a size that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def leave_free(self, size: int) -> None:
        usage = shutil.disk_usage(self.folder)
        self._mount(f"remount,size={usage.used + size}")

    def _mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.folder], check=True)

    def __enter__(self) -> "SmallDisk":
        self._mount("size=100m")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)


@pytest.fixture
def full_soon() -> Iterator[tuple[SmallDisk, str]]:
    """A small disk, and the URL of a cluster's database that has its tables there. The log of the server has room."""
    # PostgreSQL runs as another user, which cannot enter the folders of pytest.
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder) / "server", throwaway=True) as server,
    ):
        os.chmod(folder, 0o755)
        owner, disk = server.data.stat(), Path(folder) / "disk"
        disk.mkdir()
        with SmallDisk(disk) as small:
            os.chown(disk, owner.st_uid, owner.st_gid)
            engine = plain_engine(server.url()).execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as admin:
                admin.exec_driver_sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
                admin.exec_driver_sql("CREATE DATABASE det TABLESPACE small")
                migrate(server.url("det"))
                admin.exec_driver_sql("CHECKPOINT")
            yield small, server.url("det")
            server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason=because("only root may mount a disk", AS_ROOT))
def test_import_continues_after_the_disk_was_full(
    old: SourceCluster, full_soon: tuple[SmallDisk, str], capsys: pytest.CaptureFixture[str]
) -> None:
    disk, url = full_soon
    disk.leave_free(3_000_000)  # of about 6 MB
    assert run(old.url, url) == 1
    (line,) = errors(capsys)
    assert line.startswith(
        "det import: the disk of the new cluster's database is full: make room on it"
    )
    assert line.endswith(NEXT)
    disk.leave_free(50_000_000)
    assert run(old.url, url) == 0
    assert commands.main("verify", arguments(old.url, url)) == 0
