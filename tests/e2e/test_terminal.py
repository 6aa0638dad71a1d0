"""Live pictures of a cluster that trains, in a terminal."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Held, in_processes
from tests.support.cluster import Cluster
from tests.support.pty_screen import in_terminal

pytestmark = in_processes
DET = [sys.executable, "-m", "det_cli.main"]


@pytest.fixture
def training(cluster: Cluster, held: Held) -> Iterator[int]:
    """An experiment that trains until it is let on."""
    id = cluster.create(held.config, held.code)
    cluster.until_state(id, "RUNNING")
    yield id
    cluster.run("e", "kill", str(id))


def test_top_shows_queue_and_machine_and_ends_with_q(cluster: Cluster, training: int) -> None:
    with in_terminal([*DET, "top"], cluster.env, columns=120, rows=30) as top:
        top.until(lambda s: f"experiment {training}: trial" in s.text, "what the machine runs")
        (row,) = [r for r in top.screen.cells if f"  experiment {training} " in r]
        assert "RUNNING" in row
        top.press("q")
        assert top.end() == 0
        assert top.echoes()


def test_watch_follows_an_experiment_to_its_end(
    cluster: Cluster, training: int, held: Held
) -> None:
    with in_terminal([*DET, "e", "watch", str(training)], cluster.env, columns=100) as watch:
        watch.until(lambda s: f"experiment {training}  RUNNING" in s.text, "the experiment")
        held.let_on()
        assert watch.end(240) == 0
        assert f"experiment {training}  COMPLETED" in watch.screen.before
    document = json.loads(cluster.det("e", "watch", str(training), "--once", "--json").out)
    (trial,) = document["trials"]
    assert trial["curve"][-1][1] == trial["latest"]


def test_describe_names_the_best_trial_and_the_next_command(
    cluster: Cluster, training: int, held: Held, tmp_path: Path
) -> None:
    assert "det experiment watch" in cluster.det("e", "describe", str(training)).out
    held.let_on()
    cluster.until_state(training, "COMPLETED")
    output = cluster.det("e", "describe", str(training)).out
    trial = cluster.trials(training)[0]["id"]
    assert f"trial {trial} after" in output
    assert f"det experiment download {training}" in output
    tables = cluster.det("e", "describe", str(training), "--outdir", tmp_path / "out").out
    assert tables.count(".csv") == 3
