"""The example `examples/fsdp_transformer` on two ranks over gloo, and its checkpoint on one."""

import os
import pathlib
import subprocess
import sys

import torch
from determined.pytorch import _consolidate

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "fsdp_transformer"


def train(home: pathlib.Path, ranks: int, epochs: int, *arguments: str) -> str:
    """Train 100 records. Return the output."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    if ranks > 1:
        launcher += ["--master-port", "0", "--standalone"]
    result = subprocess.run(
        [
            sys.executable,
            *launcher,
            "train.py",
            "--records",
            "100",
            "--epochs",
            str(epochs),
            *arguments,
        ],
        cwd=EXAMPLE,
        env={**os.environ, "XDG_DATA_HOME": str(home), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_example_saves_on_two_ranks_and_resumes_on_one(tmp_path: pathlib.Path) -> None:
    train(tmp_path, 2, 1)
    (checkpoint,) = (tmp_path / "determined" / "checkpoints").iterdir()
    assert {"__0_0.distcp", "__1_0.distcp"} <= {path.name for path in checkpoint.iterdir()}
    output = train(tmp_path, 1, 3, "--checkpoint", checkpoint.name)
    # Two ranks trained the two batches of an epoch with 64 records; one rank trains the rest of three epochs.
    assert "validation metrics at step 6" in output
    _consolidate.consolidate(checkpoint)
    state = torch.load(checkpoint / "state_dict.pth", weights_only=True)
    assert state["models_state_dict"][0]["head.weight"].shape == (32, 64)
