"""Processes on gloo, started by torchrun as our launcher starts them."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.support.ports import free_port

ROOT = pathlib.Path(__file__).parents[3]
SCRIPT = pathlib.Path(__file__).parent / "distributed_script.py"
LENGTH = 9


def train(home: pathlib.Path, stop_in_batch: int = -1, checkpoint: str | None = None) -> Any:
    home.mkdir(exist_ok=True)
    output = home / "report.json"
    own = {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(home), "OMP_NUM_THREADS": "1"}
    ports = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node=2"]
    address = ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    arguments = [str(SCRIPT), str(output), str(LENGTH), str(stop_in_batch)]
    done = subprocess.run(
        [sys.executable, *torchrun, *address, *arguments, *([checkpoint] if checkpoint else [])],
        env={**os.environ, **own, **ports},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tmp_path_factory.mktemp("uninterrupted"))


def losses(result: Any) -> list[float]:
    return [row["loss"] for kind, _, _, *rows in result["reported"] if rows for row in rows[0]]


def test_each_rank_sees_its_own_half_of_every_epoch(trained: Any) -> None:
    ours, theirs = (sorted(r for batch in seen[:3] for r in batch) for seen in trained["seen"])
    assert sorted(ours + theirs) == list(range(22))


def test_all_ranks_end_with_the_same_weights(trained: Any) -> None:
    first, second = trained["weights"]
    assert first == second


def test_reducers_collect_from_every_slot(trained: Any) -> None:
    validation = next(
        m for kind, _, m in (r[:3] for r in trained["reported"]) if kind == "validation"
    )
    assert validation["records"] == 22


def test_the_chief_reports_averages_over_ranks(trained: Any) -> None:
    steps = [steps for kind, steps, *_ in trained["reported"] if kind == "training"]
    assert steps == [2, 4, 6, 8, 9]
    assert len(losses(trained)) == LENGTH


def test_a_distributed_trial_resumes_with_bit_identical_losses(
    trained: Any, tmp_path: pathlib.Path
) -> None:
    """The sum of two values is the same in any order; tests/e2e/test_distributed.py has four."""
    stopped = train(tmp_path, stop_in_batch=4)
    (checkpoint,) = (tmp_path / "determined" / "checkpoints").iterdir()
    resumed = train(tmp_path, checkpoint=checkpoint.name)
    assert losses(stopped) + losses(resumed) == losses(trained)
    assert resumed["weights"] == trained["weights"]
