"""Horovod itself, two ranks over gloo: a PyTorchTrial trains as it does under torch.distributed."""

import itertools
import json
import pathlib
import struct
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "horovod_script.py")
SUMMED = {"average_aggregated_gradients": False}


def train(home: pathlib.Path, launcher: str = "horovod", **case: Any) -> Any:
    home.mkdir(exist_ok=True)
    python, output = ml.require("horovod"), home / "report.json"
    started = {
        "horovod": ["-m", "horovod.runner.launch", "-np", "2", "-H", "localhost:2", python],
        "torchrun": ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"],
    }[launcher]  # fmt: skip
    ports = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}
    arguments = [*started, SCRIPT, str(output), json.dumps(case)]
    ml.run("horovod", arguments, home, 300, PYTHONPATH=str(ml.ROOT), **ports)
    return json.loads(output.read_text())


def flat(weights: Any) -> list[float]:
    return list(itertools.chain.from_iterable(weights))


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"optimizer": "SGD", "aggregation_frequency": 2},
        {"optimizer": "SGD", "aggregation_frequency": 2, "optimizations": SUMMED},
        {"scaled": True},
    ],
    ids=["adamw", "averaged over two batches", "summed over two batches", "scaled"],
)
def test_a_trial_trains_as_it_does_under_torch_distributed(
    tmp_path: pathlib.Path, case: dict[str, Any]
) -> None:
    ours, expected = train(tmp_path, **case), train(tmp_path, "torchrun", **case)
    assert ours["weights"][0] == ours["weights"][1]
    assert flat(ours["weights"][0]) == pytest.approx(flat(expected["weights"][0]), rel=1e-4)
    assert flat(ours["gradients"][0]) == pytest.approx(flat(expected["gradients"][0]), abs=1e-6)
    assert ours["losses"] == pytest.approx(expected["losses"], rel=1e-4)
    assert len(ours["losses"]) == 6


def test_a_trial_resumes_with_bit_identical_losses(tmp_path: pathlib.Path) -> None:
    whole = train(tmp_path / "whole")
    first = train(tmp_path / "parts", length=4)
    (saved,) = (tmp_path / "parts" / "share" / "determined" / "checkpoints").iterdir()
    rest = train(tmp_path / "parts", checkpoint=saved.name)
    assert first["losses"] + rest["losses"] == whole["losses"]
    assert rest["weights"] == whole["weights"]


def test_a_script_may_make_the_distributed_context_itself(tmp_path: pathlib.Path) -> None:
    ours = train(tmp_path, own_context=True, length=2)
    assert ours["weights"] == train(tmp_path, length=2)["weights"]


def test_gradients_travel_in_half_precision_where_the_configuration_says_so(
    tmp_path: pathlib.Path,
) -> None:
    received = flat(train(tmp_path, optimizations={"gradient_compression": True})["gradients"][0])
    assert received == [through_half(value) for value in received]
    assert any(received)


def through_half(value: float) -> float:
    (back,) = struct.unpack("e", struct.pack("e", value))
    return float(back)
