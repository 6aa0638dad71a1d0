"""An import that is killed at any point, and started again, ends the same."""

import random
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from det_controlplane.db.importing import source, target
from det_controlplane.services.importing import verify

from tests.support.determined_source import SourceCluster, populate
from tests.support.postgres import DatabaseServer

KILLS, EXPERIMENTS = 20, 40
# Small batches, so that there are many points between them. The line says that all modules are loaded.
PROGRAM = """
import sys
from argparse import Namespace
from det_controlplane.entry.importing import commands
from det_controlplane.services.importing import importing
importing._EXPERIMENTS = 1
print("ready", flush=True)
sys.exit(commands.main("determined", Namespace(
    source=sys.argv[1], into=sys.argv[2], data_dir=None, cluster_name="", logs="all", id_offset=0,
    merge_users=False, dry_run=False, name="", mapping=None, limit_s=0)))
"""


def started(old: SourceCluster, url: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, old.url, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.slow
def test_twenty_kills_end_the_same(
    postgres_server: DatabaseServer, empty_database_url: str
) -> None:
    old = SourceCluster(empty_database_url)
    populate(old)
    for number in range(100, 100 + EXPERIMENTS):
        old.experiment(number)
        old.trial(number, number)
        old.validation(number, 4, {"loss": 1 / number})
    chance = random.Random(36)
    with postgres_server.database() as url:
        killed = 0
        while killed < KILLS:
            with started(old, url) as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0.01, 0.25))
                killed += process.poll() is None
                process.send_signal(signal.SIGKILL)
            if process.returncode == 0:
                break
        with started(old, url) as process:
            assert process.stdout is not None
            process.stdout.read()
        assert process.returncode == 0
        with source.opened(old.url) as snapshot, target.opened(url) as cluster:
            assert [each for each in verify.compare(snapshot, cluster) if not each.equal] == []
    old.close()
    assert killed >= 10  # the import was not over before
