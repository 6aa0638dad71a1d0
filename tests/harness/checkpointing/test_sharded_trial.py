"""A PyTorchTrial with an FSDP2 model: saved on some ranks, resumed on others, exported to one file."""

import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from determined.pytorch import _consolidate, load_trial_from_checkpoint_path

from tests.support import gang, ml
from tests.support.sharded_trial import BlockTrial

SCRIPT = pathlib.Path(__file__).parent / "trial_script.py"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    modules = (
        "torch.distributed.fsdp",
        "torch.distributed.checkpoint.state_dict",
        "determined.checkpointing._async",
        "determined.checkpointing._sharded",
        "determined.pytorch",
    )
    with ml.forks(sys.executable, tmp_path_factory.mktemp("forks"), *modules) as processes:
        yield processes


def train(
    forks: ml.Forks, home: pathlib.Path, ranks: int, *arguments: str
) -> tuple[Any, pathlib.Path]:
    """Return the result and the newest checkpoint."""
    result = gang.run(forks, SCRIPT, ranks, home, *arguments)
    stored = (home / "determined" / "checkpoints").iterdir()
    return result, max(stored, key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="module")
def saved(forks: ml.Forks, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, pathlib.Path]:
    return train(forks, tmp_path_factory.mktemp("saved"), 4, "fsdp", "async", "3")


def test_each_rank_stores_its_shards(saved: tuple[Any, pathlib.Path]) -> None:
    files = {path.name for path in saved[1].iterdir()}
    shards = {f"__{rank}_0.distcp" for rank in range(4)}
    assert files >= {"state_dict.pth", "load_data.json", "metadata.json", ".metadata", *shards}
    assert json.loads((saved[1] / "metadata.json").read_text())["format"] == "sharded"


@pytest.mark.parametrize(("ranks", "plan"), [(1, "fsdp"), (2, "fsdp"), (8, "fsdp"), (2, "none")])
def test_trial_of_four_ranks_resumes_with_equal_values_on(
    saved: tuple[Any, pathlib.Path],
    forks: ml.Forks,
    tmp_path: pathlib.Path,
    ranks: int,
    plan: str,
) -> None:
    result, path = saved
    resumed, _ = train(forks, tmp_path / "home", ranks, plan, "sync", "4", str(path))
    assert resumed["loaded"] == result["final"]
    assert resumed["loaded"]["optimizers_state_dict"]["0"]["state"]


def test_resumed_gang_of_the_same_size_is_bit_identical(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    whole, _ = train(forks, tmp_path / "whole", 2, "fsdp", "sync", "4")
    _, path = train(forks, tmp_path / "first", 2, "fsdp", "async", "2")
    resumed, _ = train(forks, tmp_path / "second", 2, "fsdp", "sync", "4", str(path))
    assert resumed["final"] == whole["final"]
    assert resumed["losses"] == whole["losses"][2:]


def test_checkpoint_without_shards_loads_into_a_sharded_model(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    result, path = train(forks, tmp_path / "first", 2, "none", "sync", "3")
    assert not (path / ".metadata").exists()
    resumed, _ = train(forks, tmp_path / "second", 2, "fsdp", "sync", "4", str(path))
    assert resumed["loaded"] == result["final"]


def test_trial_loads_on_one_machine(saved: tuple[Any, pathlib.Path]) -> None:
    result, path = saved
    trial: Any = load_trial_from_checkpoint_path(str(path), trial_class=BlockTrial)
    weights = {f"0.{k}": v.tolist() for k, v in trial.model.state_dict().items()}
    assert weights == result["final"]["models_state_dict"]


def test_export_has_whole_tensors_in_the_usual_file(
    saved: tuple[Any, pathlib.Path], forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    result, path = saved
    exported = tmp_path / "exported"
    exported.mkdir()
    for file in path.iterdir():
        if file.is_file():
            os.link(file, exported / file.name)
    _consolidate.consolidate(exported)
    files = {file.name for file in exported.iterdir() if file.is_file()}
    assert files == {"state_dict.pth", "load_data.json", "metadata.json"}
    state = torch.load(exported / "state_dict.pth", weights_only=True)
    weights = {f"0.{k}": v.tolist() for k, v in state["models_state_dict"][0].items()}
    assert weights == result["final"]["models_state_dict"]
    resumed, _ = train(forks, tmp_path / "resumed", 2, "none", "sync", "4", str(exported))
    assert resumed["loaded"] == result["final"]
