"""PyTorch trials over gloo name a slow rank by its own time, although all ranks have the same step time."""

import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from determined.pytorch._own_time import OwnTime

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


class WithBuffers(torch.nn.Module):  # type: ignore[misc]
    """A model that exchanges buffers before its forward pass, as DistributedDataParallel does."""

    broadcast_buffers = True

    def __init__(self) -> None:
        super().__init__()
        self.module = torch.nn.BatchNorm1d(2)

    def _sync_buffers(self) -> None:
        """Wait for nothing."""

    def forward(self, x: torch.Tensor) -> Any:
        self._sync_buffers()
        return self.module(x)


def test_time_of_a_device_begins_after_the_first_exchange_of_buffers() -> None:
    calls: list[str] = []

    class Device:
        def start(self) -> None:
            calls.append("start")

        def stop(self) -> None:
            calls.append("stop")

        def end_step(self, own_s: float, data_s: float) -> None:
            calls.append("end")

    model: Any = WithBuffers()
    own_time = OwnTime(model, lambda own_s, data_s: None)
    own_time._device = Device()  # type: ignore[assignment]
    own_time.begin()
    for _ in range(4):
        calls.clear()
        own_time.loaded()
        loss = model(torch.ones(3, 2)).sum() + model(torch.ones(3, 2)).sum()
        loss.backward()
        own_time.done()
    assert calls == ["start", "start", "stop", "end"]
