"""What the PyTorch training loop costs over one written by hand, round by round in one process.

Prints a line of JSON for each figure. Runs itself in the environment that scripts/ml-venv makes.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
ROUNDS = 7
BATCH = 32


def emit(name: str, value: float, unit: str, floor: float, peer: float | None = None) -> None:
    figure = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor}
    print(json.dumps({**figure, "better": "less", "peer": peer}), flush=True)


def tiny_mlp() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def small_cnn() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 12 * 12, 1),
    )


def data_of(shape: tuple[int, ...], batches: int) -> Any:
    import torch

    records = batches * BATCH
    return torch.utils.data.TensorDataset(torch.randn(records, *shape), torch.randn(records, 1))


def by_hand(make_model: Any, data: Any) -> tuple[float, float]:
    """Wall and CPU seconds of a plain loop that keeps every loss until the end."""
    import torch
    from torch import nn

    model = make_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)
    losses = []
    wall, cpu = time.perf_counter(), time.process_time()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    torch.stack(losses).tolist()
    return time.perf_counter() - wall, time.process_time() - cpu


def by_trainer(make_model: Any, data: Any, batches: int) -> tuple[float, float]:
    """The same by PyTorchTrial; validation and checkpoint are not counted."""
    import torch
    from determined import pytorch
    from torch import nn

    class Trial(pytorch.PyTorchTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.model = context.wrap_model(make_model())
            optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
            self.optimizer = context.wrap_optimizer(optimizer)

        def build_training_data_loader(self) -> Any:
            return pytorch.DataLoader(data, batch_size=BATCH, shuffle=True)

        def build_validation_data_loader(self) -> Any:
            return pytorch.DataLoader(torch.utils.data.Subset(data, [0]))

        def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
            return {"clock": clock}

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            x, y = batch
            loss = nn.functional.mse_loss(self.model(x), y)
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            return {"loss": loss}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            return {"zero": 0.0}

    class Clock(pytorch.PyTorchCallback):
        def on_training_start(self) -> None:
            self.wall, self.cpu = time.perf_counter(), time.process_time()

        def on_validation_start(self) -> None:
            self.wall = time.perf_counter() - self.wall
            self.cpu = time.process_time() - self.cpu

    clock = Clock()
    with pytorch.init(exp_conf={}, enable_tensorboard_logging=True) as context:
        pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Batch(batches))
    return clock.wall, clock.cpu


def compare(name: str, make_model: Any, shape: tuple[int, ...], batches: int) -> None:
    """Alternate the two loops, so that what else runs on the machine meets both alike."""
    data = data_of(shape, batches)
    hand, trainer = [], []
    for _ in range(ROUNDS + 1):
        hand.append(by_hand(make_model, data))
        trainer.append(by_trainer(make_model, data, batches))
    pairs = list(zip(hand, trainer, strict=True))[1:]
    cpu_over = statistics.median((t[1] - h[1]) / batches * 1e6 for h, t in pairs)
    wall_over = (min(t[0] for _, t in pairs) - min(h[0] for h, _ in pairs)) / batches * 1e6
    ratio = statistics.median(t[1] / h[1] for h, t in pairs)
    is_tiny = name == "tiny_mlp"
    if is_tiny:
        emit(f"pytorch_{name}_overhead_wall", wall_over, "us/batch", 10, 91)
        emit(f"pytorch_{name}_overhead_cpu", cpu_over, "us/batch", 10, 91)
    emit(
        f"pytorch_{name}_cpu_ratio", ratio, "x", 1.1 if is_tiny else 1.01, 1.8 if is_tiny else None
    )


def import_added_cpu_s() -> float:
    """What the import adds where torch is there already; the least of fresh processes."""
    code = (
        "import time, torch\n"
        "before = time.process_time()\n"
        "import determined.pytorch\n"
        "print(time.process_time() - before)"
    )
    spent = [
        float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(7)
    ]
    return min(spent)


def main() -> None:
    """Measure; called again in the right interpreter if this one has no torch."""
    try:
        import torch
    except ImportError:
        venv = str(ROOT / "scripts" / "ml-venv")
        python = subprocess.check_output([venv, "torch"], text=True).strip()
        os.execv(python, [python, __file__])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_DATA_HOME"] = home
        compare("tiny_mlp", tiny_mlp, (16,), 2_000)
        compare("small_cnn", small_cnn, (1, 16, 16), 300)
    emit("import_determined_pytorch_over_torch", import_added_cpu_s() * 1e3, "ms CPU", 50, 320)


if __name__ == "__main__":
    main()
