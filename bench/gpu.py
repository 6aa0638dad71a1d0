"""Measure asynchronous checkpoints on the GPU of this machine, or on its CPU. Prints a line of JSON for each figure.

python bench/gpu.py [--mib 3072] [--folder DIR]

It needs torch and the folder `harness` of this repository, one GPU and no network, and takes less than five minutes.
A model with the optimizer state of AdamW is stored through `store_async`, by `torch.save`, and by plain copies. The
first checkpoint allocates the buffers and is not counted. Steps of training are timed alone and beside a checkpoint.
The exit status is 1 if a figure misses its floor on a GPU. On a CPU, training and the writer share the processors and
nothing is copied from a device, so floors are not judged.
"""

import argparse
import json
import logging
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "harness"))
MIB = 1024 * 1024
REPEATS = 3
LAYER = 2048  # a layer's weight has 16 MiB, and three times as much with its optimizer state
STEP_SECONDS = 3.0  # of training alone, before each checkpoint
MAX_BESIDE_S = 15.0
MAX_STALL_S = 0.25  # of a state of 3 GiB on a GPU
MAX_OF_SAVE = 0.1
MAX_OF_COPY = 1.2
MAX_SLOWDOWN = 1.05
NO_GPU = "cpu, floors not judged"


class Figures:
    """Prints figures with the device that they were measured on, and counts the missed floors."""

    def __init__(self, gpu: str) -> None:
        self._gpu = gpu
        self.missed = 0

    def emit(self, name: str, value: float, unit: str, floor: float | None = None) -> None:
        judged = floor if self._gpu else None
        figure = {"name": name, "value": round(value, 4), "unit": unit, "floor": judged}
        print(json.dumps({**figure, "better": "lower", "device": self._gpu or NO_GPU}), flush=True)
        if judged is not None and value > judged:
            self.missed += 1
            print(f"missed: {name}: {value:.4f} {unit}, floor {judged:.4f}", file=sys.stderr)


class Training:
    """A stack of layers under AdamW, with a state of about the given size on the device."""

    def __init__(self, device: Any, mib: int) -> None:
        import torch

        per_layer = 3 * 4 * LAYER * LAYER / MIB
        layers = max(1, round(mib / per_layer))
        self.device = device
        self.model = torch.nn.Sequential(
            *(torch.nn.Linear(LAYER, LAYER, bias=False) for _ in range(layers))
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        rows = 256 if device.type == "cuda" else 8
        self.batch = torch.randn(rows, LAYER, device=device)
        self.step()

    def step(self) -> None:
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def tensors(self) -> list[Any]:
        values = (v for s in self.optimizer.state.values() for v in s.values())
        return [*self.model.state_dict().values(), *values]

    def wait(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize()


def seconds(training: Training, work: Callable[[], Any]) -> float:
    training.wait()
    start = time.perf_counter()
    work()
    training.wait()
    return time.perf_counter() - start


def copier(training: Training) -> Callable[[], None]:
    """Return a function that copies the state to ordinary host memory that exists already."""
    import torch

    targets = [torch.empty_like(t, device="cpu") for t in training.tensors()]

    def copy() -> None:
        for target, tensor in zip(targets, training.tensors(), strict=True):
            target.copy_(tensor)

    copy()
    return copy


def stalls(
    training: Training, checkpoints: Any, copy: Callable[[], None]
) -> list[tuple[float, float]]:
    """Return pairs of a checkpoint's stall and of the plain copy beside it, so that other load affects both alike."""

    def store() -> None:
        checkpoints.store_async(training.state(), {"steps_completed": 1})

    pairs = []
    for _ in range(REPEATS + 1):
        copied = seconds(training, copy)
        pairs.append((seconds(training, store), copied))
        checkpoints.wait()
    return pairs[1:]


def slowdowns(training: Training, checkpoints: Any) -> list[float]:
    """Return the time of a step beside a checkpoint relative to the steps before it."""
    ratios = []
    for number in range(REPEATS):
        alone: list[float] = []
        while sum(alone) < STEP_SECONDS:
            alone.append(seconds(training, training.step))
        pending = checkpoints.store_async(training.state(), {"steps_completed": number})
        beside = [seconds(training, training.step)]
        while not pending.done and sum(beside) < MAX_BESIDE_S:
            beside.append(seconds(training, training.step))
        pending.wait()
        ratios.append(statistics.median(beside) / statistics.median(alone))
    return ratios


def measure(folder: pathlib.Path, mib: int) -> int:
    """Print the figures. Return how many of them miss their floors."""
    import torch
    from determined.common.storage import DirectoryStorageManager
    from determined.core import DummyCheckpointContext, DummyDistributedContext

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    check_memory(device, mib)
    figures = Figures(torch.cuda.get_device_name() if on_gpu else "")
    training = Training(device, mib)
    storage = DirectoryStorageManager(str(folder / "checkpoints"))
    checkpoints = DummyCheckpointContext(DummyDistributedContext(), storage)
    size = sum(t.numel() * t.element_size() for t in training.tensors())
    figures.emit("checkpoint_state", size / MIB, "MiB")
    pairs = stalls(training, checkpoints, copier(training))
    check_buffers(checkpoints, on_gpu)
    stall = statistics.median(s for s, _ in pairs)
    of_copy = statistics.median(s / c for s, c in pairs)
    saving = min(
        seconds(training, lambda: torch.save(training.state(), folder / "plain")) for _ in range(2)
    )
    figures.emit("checkpoint_stall", stall, "s", MAX_STALL_S * size / (3072 * MIB))
    figures.emit("checkpoint_copy_rate", stall / (size / 2**30), "s/GiB")
    figures.emit("checkpoint_stall_of_torch_save", stall / saving, "ratio", MAX_OF_SAVE)
    figures.emit("checkpoint_stall_of_copy", of_copy, "ratio", MAX_OF_COPY)
    figures.emit("torch_save", saving, "s")
    slower = statistics.median(slowdowns(training, checkpoints))
    figures.emit("step_beside_checkpoint", slower, "ratio", MAX_SLOWDOWN)
    checkpoints.close()
    return figures.missed


def check_memory(device: Any, mib: int) -> None:
    """Exit if the GPU cannot hold the state, the gradients (a third of it) and some activations."""
    import torch

    if device.type != "cuda":
        return
    free = torch.cuda.mem_get_info()[0] // MIB
    if free < 1.5 * mib + 512:
        sys.exit(f"a state of {mib} MiB needs about {1.5 * mib + 512:.0f} MiB, but {free} MiB of the GPU are free: "
                 "choose a smaller --mib")  # fmt: skip


def check_buffers(checkpoints: Any, on_gpu: bool) -> None:
    """Exit if checkpoints were not copied to (pinned) host memory, because the figures would mean something else."""
    buffers = checkpoints._saver._buffers
    if not buffers.size:
        sys.exit("the state does not fit into the free host memory: choose a smaller --mib")
    if on_gpu and not buffers._pinned:
        sys.exit(
            "the host memory could not be pinned (see the warning): raise the limit of locked memory, ulimit -l"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure checkpoints on the GPU of this machine.")
    parser.add_argument("--mib", type=int, default=3072, help="size of the state (default: 3072)")
    parser.add_argument(
        "--folder", help="where checkpoints are written (default: a new one in /tmp)"
    )
    args = parser.parse_args()
    logging.disable(logging.INFO)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="det-bench-", dir=args.folder))
    try:
        missed = measure(folder, args.mib)
    finally:
        shutil.rmtree(folder)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
