"""DeepSpeed on the CPU, with one process and with two that share the optimizer's state (ZeRO 1).

`make test` runs DeepSpeed only in tests/e2e/test_gallery.py."""

import json
import pathlib
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heavy("trains with DeepSpeed for minutes what others train, too"),
]
SCRIPT = str(pathlib.Path(__file__).parent / "deepspeed_script.py")


def train(home: pathlib.Path, length: int, *checkpoint: str, processes: int = 1) -> Any:
    output = home / "report.json"
    arguments = [SCRIPT, str(output), str(length), *checkpoint]
    ports: Any = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}
    if processes > 1:
        torchrun = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
        arguments = [
            *torchrun,
            "--master_addr=127.0.0.1",
            f"--master_port={free_port()}",
            *arguments,
        ]
    ml.run("deepspeed", arguments, home, PYTHONPATH=str(ml.ROOT), **ports)
    return json.loads(output.read_text())


def losses(report: Any) -> list[float]:
    return [row["loss"] for kind, _, _, *rows in report if rows for row in rows[0]]


def checkpoint_of(home: pathlib.Path, steps: int) -> str:
    for path in (home / "share" / "determined" / "checkpoints").iterdir():
        if json.loads((path / "metadata.json").read_text())["steps_completed"] == steps:
            return path.name
    raise AssertionError(f"there is no checkpoint of step {steps}")


@pytest.mark.parametrize("processes", [1, 2])
def test_deepspeed_trial_resumes_with_bit_identical_losses(
    tmp_path: pathlib.Path, processes: int
) -> None:
    uninterrupted = train(tmp_path, 4, processes=processes)
    first = train(tmp_path, 2, processes=processes)
    result = train(tmp_path, 4, checkpoint_of(tmp_path, 2), processes=processes)
    micro_batches = 2
    assert len(losses(uninterrupted)) == 4 * micro_batches
    assert losses(first) + losses(result) == losses(uninterrupted)
    assert [steps for kind, steps, *_ in uninterrupted if kind == "validation"] == [2, 4]
