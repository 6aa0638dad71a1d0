"""An elastic trial trains the same samples with the same result on any number of ranks."""

import json
import pathlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

SCRIPT = pathlib.Path(__file__).parent / "elastic_script.py"
EPOCH = 3  # batches: 22 records in global batches of 8
RECORDS = list(range(22))


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(sys.executable, folder, "torch.nn.parallel", "determined.pytorch") as processes:
        yield processes


def train(
    forks: ml.Forks,
    home: pathlib.Path,
    ranks: int,
    length: int,
    checkpoint: str | None = None,
    kind: str = "whole",
) -> Any:
    home.mkdir(exist_ok=True)
    output = home / "report.json"
    gang = {
        "XDG_DATA_HOME": str(home), "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        **{f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)},
    }  # fmt: skip
    environments = ({**gang, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(ranks))
    arguments = [str(SCRIPT), str(output), str(length), kind]
    arguments += [checkpoint] if checkpoint else []
    forks.run_beside(arguments, home, *environments)
    return json.loads(output.read_text())


@pytest.fixture(scope="module")
def full(forks: ml.Forks, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(forks, tmp_path_factory.mktemp("full"), 4, 2 * EPOCH)


def records_by_batch(result: Any) -> dict[int, list[int]]:
    batches: defaultdict[int, list[int]] = defaultdict(list)
    for batch, records in result["seen"]:
        batches[batch] += records
    return {batch: sorted(records) for batch, records in batches.items()}


def test_each_epoch_has_every_record_once(full: Any) -> None:
    batches = records_by_batch(full)
    for epoch in range(2):
        first = epoch * EPOCH
        assert sorted(r for n in range(first, first + EPOCH) for r in batches[n]) == RECORDS


@pytest.mark.parametrize("ranks", [1, 3])
def test_fewer_ranks_train_the_same_batches_to_the_same_weights(
    forks: ml.Forks, tmp_path: pathlib.Path, full: Any, ranks: int
) -> None:
    shrunk = train(forks, tmp_path, ranks, 2 * EPOCH)
    assert records_by_batch(shrunk) == records_by_batch(full)
    for own, expected in zip(shrunk["weights"], full["weights"], strict=True):
        assert own == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("ranks", [2, 3])
def test_sharded_model_trains_to_the_same_weights(
    forks: ml.Forks, tmp_path: pathlib.Path, full: Any, ranks: int
) -> None:
    sharded = train(forks, tmp_path, ranks, 2 * EPOCH, kind="sharded")
    assert records_by_batch(sharded) == records_by_batch(full)
    for own, expected in zip(sharded["weights"], full["weights"], strict=True):
        assert own == pytest.approx(expected, abs=1e-5)


def test_trial_resumes_in_the_middle_of_an_epoch_on_other_ranks(
    forks: ml.Forks, tmp_path: pathlib.Path, full: Any
) -> None:
    before = train(forks, tmp_path, 4, EPOCH + 1)
    (checkpoint,) = [path.parent for path in tmp_path.rglob("state_dict.pth")]
    after = train(forks, tmp_path / "after", 3, 2 * EPOCH, str(checkpoint))
    assert records_by_batch(before) | records_by_batch(after) == records_by_batch(full)
    assert min(records_by_batch(after)) == EPOCH + 1
    for own, expected in zip(after["weights"], full["weights"], strict=True):
        assert own == pytest.approx(expected, abs=1e-6)
