"""Distributed training over gloo, with the variables of torchrun. tests/e2e/test_distributed.py runs torchrun itself.

The processes are forks of a process that has loaded torch.
"""

import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

SCRIPT = pathlib.Path(__file__).parent / "distributed_script.py"
LENGTH = 9
RANKS = 2


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(sys.executable, folder, "torch.nn.parallel", "determined.pytorch") as processes:
        yield processes


def train(
    forks: ml.Forks, home: pathlib.Path, stop_in_batch: int = -1, checkpoint: str | None = None
) -> Any:
    home.mkdir(exist_ok=True)
    output = home / "report.json"
    arguments = [str(SCRIPT), str(output), str(LENGTH), str(stop_in_batch)]
    gang = {
        "XDG_DATA_HOME": str(home), "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        **{f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)},
    }  # fmt: skip
    ranks = ({**gang, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(RANKS))
    forks.run_beside([*arguments, *([checkpoint] if checkpoint else [])], home, *ranks)
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def trained(forks: ml.Forks, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(forks, tmp_path_factory.mktemp("uninterrupted"))


def losses(result: Any) -> list[float]:
    return [row["loss"] for kind, _, _, *rows in result["reported"] if rows for row in rows[0]]


def test_each_rank_trains_half_of_every_epoch(trained: Any) -> None:
    own_records, other_records = (
        sorted(r for batch in stored_seen[:3] for r in batch) for stored_seen in trained["seen"]
    )
    assert sorted(own_records + other_records) == list(range(22))


def test_all_ranks_end_with_the_same_weights(trained: Any) -> None:
    first, second = trained["weights"]
    assert first == second


def test_reducers_collect_from_every_slot(trained: Any) -> None:
    validation = next(
        m for kind, _, m in (r[:3] for r in trained["reported"]) if kind == "validation"
    )
    assert validation["records"] == 22


def test_chief_reports_averages_over_ranks(trained: Any) -> None:
    steps = [steps for kind, steps, *_ in trained["reported"] if kind == "training"]
    assert steps == [2, 4, 6, 8, 9]
    assert len(losses(trained)) == LENGTH


def test_distributed_trial_resumes_with_bit_identical_losses(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    """The sum of two values does not depend on their order. tests/e2e/test_distributed.py has four ranks."""
    result = train(forks, tmp_path, stop_in_batch=4)
    (checkpoint,) = (tmp_path / "determined" / "checkpoints").iterdir()
    resumed_losses = train(forks, tmp_path, checkpoint=checkpoint.name)
    assert losses(result) + losses(resumed_losses) == losses(trained)
    assert resumed_losses["weights"] == trained["weights"]
