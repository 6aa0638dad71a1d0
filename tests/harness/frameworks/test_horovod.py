"""Horovod with two ranks over gloo: a PyTorchTrial trains as it does under torch.distributed.

`make test` runs Horovod only in tests/e2e/test_horovod.py."""

import itertools
import json
import pathlib
import struct
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heavy("trains under Horovod for minutes what others train, too"),
]
SCRIPT = str(pathlib.Path(__file__).parent / "horovod_script.py")
SUMMED = {"average_aggregated_gradients": False}


# These cases run under Horovod and under torch.distributed.
COMPARED: dict[str, Any] = {
    "adamw": {},
    "averaged over two batches": {"optimizer": "SGD", "aggregation_frequency": 2},
    "summed over two batches": {
        "optimizer": "SGD",
        "aggregation_frequency": 2,
        "optimizations": SUMMED,
    },
    "scaled": {"scaled": True},
}
OTHERS: dict[str, Any] = {
    "two batches": {"length": 2},
    "four batches": {"length": 4},
    "compressed": {"optimizations": {"gradient_compression": True}},
}


def train(home: pathlib.Path, launcher: str, cases: dict[str, Any]) -> dict[str, Any]:
    """Train the cases one after another in two ranks. Return the results by name."""
    python, output = ml.require("horovod"), home / "report.json"
    commands = {
        "horovod": ["-m", "horovod.runner.launch", "-np", "2", "-H", "localhost:2", python],
        "torchrun": ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"],
    }[launcher]  # fmt: skip
    ports = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}
    arguments = [*commands, SCRIPT, str(output), json.dumps(list(cases.values()))]
    ml.run("horovod", arguments, home, 300, PYTHONPATH=str(ml.ROOT), **ports)
    return dict(zip(cases, json.loads(output.read_text()), strict=True))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("horovod")


@pytest.fixture(scope="module")
def trained(home: pathlib.Path) -> dict[str, Any]:
    return train(home, "horovod", {**COMPARED, **OTHERS})


@pytest.fixture(scope="module")
def by_torchrun(home: pathlib.Path) -> dict[str, Any]:
    # Processes of torchrun can rendezvous only once, so all cases run in one launch.
    alone = (train(home, "torchrun", {name: case}) for name, case in COMPARED.items())
    return {name: report for each in alone for name, report in each.items()}


def flat(weights: Any) -> list[float]:
    return list(itertools.chain.from_iterable(weights))


@pytest.mark.parametrize("case", COMPARED)
def test_trial_trains_as_under_torch_distributed(
    trained: dict[str, Any], by_torchrun: dict[str, Any], case: str
) -> None:
    own_losses, expected = trained[case], by_torchrun[case]
    assert own_losses["weights"][0] == own_losses["weights"][1]
    assert flat(own_losses["weights"][0]) == pytest.approx(flat(expected["weights"][0]), rel=1e-4)
    assert flat(own_losses["gradients"][0]) == pytest.approx(
        flat(expected["gradients"][0]), abs=1e-6
    )
    assert own_losses["losses"] == pytest.approx(expected["losses"], rel=1e-4)
    assert len(own_losses["losses"]) == 6


def test_trial_resumes_with_bit_identical_losses(
    trained: dict[str, Any], home: pathlib.Path
) -> None:
    uninterrupted, first = trained["adamw"], trained["four batches"]
    (checkpoint,) = first["saved"]
    run = train(home, "horovod", {"rest": {"checkpoint": checkpoint}})["rest"]
    assert first["losses"] + run["losses"] == uninterrupted["losses"]
    assert run["weights"] == uninterrupted["weights"]


def test_script_can_make_the_distributed_context(
    trained: dict[str, Any], home: pathlib.Path
) -> None:
    own = train(home, "horovod", {"own": {"own_context": True, "length": 2}})["own"]
    assert own["weights"] == trained["two batches"]["weights"]


def test_configured_gradient_compression_uses_half_precision(
    trained: dict[str, Any],
) -> None:
    gradient = flat(trained["compressed"]["gradients"][0])
    assert gradient == [through_half(value) for value in gradient]
    assert any(gradient)


def through_half(value: float) -> float:
    (back,) = struct.unpack("e", struct.pack("e", value))
    return float(back)
