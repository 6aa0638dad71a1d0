"""Sharded checkpoints over gloo: saved on four ranks, loaded on one, two and eight with equal values."""

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.support import gang, ml

SCRIPT = pathlib.Path(__file__).parent / "sharded_script.py"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    modules = (
        "torch.distributed.fsdp",
        "torch.distributed.checkpoint.state_dict",
        "determined.checkpointing._async",
        "determined.checkpointing._sharded",
    )
    with ml.forks(sys.executable, tmp_path_factory.mktemp("forks"), *modules) as processes:
        yield processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("stored")


@pytest.fixture(scope="module", params=["save", "async"])
def saved(request: pytest.FixtureRequest, forks: ml.Forks, folder: pathlib.Path) -> Any:
    return gang.run(forks, SCRIPT, 4, folder / request.param, request.param, str(folder))


def test_checkpoint_has_the_shards_of_each_rank_and_is_completed(
    saved: Any, folder: pathlib.Path
) -> None:
    files = {path.name for path in (folder / saved["uuid"]).iterdir()}
    assert files == {".metadata", "metadata.json", *(f"__{n}_0.distcp" for n in range(4))}
    assert saved["states"] == {saved["uuid"]: "completed"}


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_checkpoint_of_four_ranks_loads_on(
    saved: Any, forks: ml.Forks, folder: pathlib.Path, tmp_path: pathlib.Path, ranks: int
) -> None:
    loaded = gang.run(forks, SCRIPT, ranks, tmp_path / "home", "load", str(folder), saved["uuid"])
    assert loaded["values"] == saved["values"]


def test_checkpoint_loads_without_torch_distributed(
    saved: Any, forks: ml.Forks, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    loaded = gang.run(forks, SCRIPT, 1, tmp_path / "h", "load-plain", str(folder), saved["uuid"])
    assert loaded["values"] == saved["values"]


def test_torch_itself_reads_the_files(
    saved: Any, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    dcp_to_torch_save(folder / saved["uuid"], tmp_path / "plain.pt")
    state = torch.load(tmp_path / "plain.pt", weights_only=False)
    weights = {name: tensor.tolist() for name, tensor in state["model"].items()}
    assert weights == saved["values"]["model"]
