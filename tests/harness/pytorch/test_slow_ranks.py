"""PyTorch trials over gloo name a slow rank by its own time, although all ranks have the same step time."""

import json
import pathlib
import sys
from collections.abc import Iterator

import pytest

from tests.support import ml
from tests.support.ports import free_port

SCRIPT = pathlib.Path(__file__).parent / "slow_rank_script.py"
SLOW_FROM = 50


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(sys.executable, folder, "torch.nn.parallel", "determined.pytorch") as processes:
        yield processes


def train(
    forks: ml.Forks, home: pathlib.Path, slow_rank: int, part: str, ranks: int = 2
) -> list[tuple[int, str, int, float]]:
    output = home / "found.json"
    gang = {
        "XDG_DATA_HOME": str(home), "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        **{f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)},
    }  # fmt: skip
    every_rank = ({**gang, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(ranks))
    forks.run_beside([str(SCRIPT), str(output), str(slow_rank), part], home, *every_rank)
    return [tuple(change) for change in json.loads(output.read_text())]


@pytest.mark.parametrize(("slow_rank", "part"), [(1, "compute"), (0, "compute"), (1, "data")])
def test_a_slow_rank_is_named_within_100_steps_with_its_cause(
    forks: ml.Forks, tmp_path: pathlib.Path, slow_rank: int, part: str
) -> None:
    ((rank, cause, steps, slowdown),) = train(forks, tmp_path, slow_rank, part)
    assert (rank, cause) == (slow_rank, part)
    assert steps <= SLOW_FROM + 100
    assert 0.15 < slowdown < 0.5
