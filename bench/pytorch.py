"""Measure the cost of the PyTorch training loop compared with a loop written by hand.

The two loops alternate in one process, a reporting period each, so that other load affects both alike. The CPU time by
hand is the time of its one thread. The CPU time of the training loop is the rest of the process, with the threads that
report and write TensorBoard files. The median of groups removes rare costs, such as TensorBoard's first import. Each
comparison uses several processes, because memory addresses change the time of a loop by microseconds. Records are in
memory and loaded a batch at once, because a slow loader would hide the differences. Prints a line of JSON for each
figure. Runs itself in the environment that scripts/ml-venv creates.
"""

import itertools
import json
import logging
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
BATCH = 32
PERIOD = 100
PROCESSES = 5
logger = logging.getLogger(__name__)


class Clock(NamedTuple):
    """Readings of three clocks in seconds, of which only differences count."""

    wall: float
    cpu: float
    thread: float


def now() -> Clock:
    return Clock(time.perf_counter(), time.process_time(), time.thread_time())


class Period(NamedTuple):
    """Times of one reporting period and of the hand-written loop beside it, in seconds."""

    hand_wall: float
    hand_cpu: float
    ours_wall: float
    ours_cpu: float


class Comparison(NamedTuple):
    wall_us: float
    cpu_us: float
    cpu_ratio: float
    cpu_error_us: float
    ratio_error: float


def emit(name: str, value: float, unit: str, floor: float, peer: float | None = None) -> None:
    figure = {"name": name, "value": round(value, 4), "unit": unit, "floor": floor}
    print(json.dumps({**figure, "better": "lower", "peer": peer}), flush=True)


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


def table_of(shape: tuple[int, ...], batches: int) -> Any:
    import torch

    class Table(torch.utils.data.Dataset):  # type: ignore[misc]
        """Records in memory. A loader requests a whole batch."""

        def __init__(self, records: int) -> None:
            self.x, self.y = torch.randn(records, *shape), torch.randn(records, 1)

        def __len__(self) -> int:
            return len(self.x)

        def __getitems__(self, indices: list[int]) -> tuple[Any, Any]:
            rows = torch.tensor(indices)
            return self.x[rows], self.y[rows]

    return Table(batches * BATCH)


def as_it_is(batch: Any) -> Any:
    return batch


class ByHand:
    """A plain loop as users write it for any device. It logs the mean of its losses as often as the trial reports."""

    def __init__(self, make_model: Any, table: Any) -> None:
        import torch

        self.device = torch.device("cpu")
        self.model = make_model().to(self.device).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batches = iter(
            torch.utils.data.DataLoader(table, batch_size=BATCH, shuffle=True, collate_fn=as_it_is)
        )
        self.done = 0

    def train(self, count: int) -> None:
        import torch
        from torch.nn.functional import mse_loss

        device, model, optimizer, losses = self.device, self.model, self.optimizer, []
        for x, y in itertools.islice(self.batches, count):
            x, y = x.to(device), y.to(device)
            loss = mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        self.done += count
        logger.info("batch %d: loss %.6f", self.done, torch.stack(losses).mean().item())


def turns(make_model: Any, table: Any, batches: int) -> list[Period]:
    """Train by PyTorchTrial with all default features. After each of its periods, train one by hand."""
    import torch
    from determined import pytorch
    from torch.nn.functional import mse_loss

    periods: list[Period] = []
    hand = ByHand(make_model, table)

    class Trial(pytorch.PyTorchTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.model = context.wrap_model(make_model())
            optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
            self.optimizer = context.wrap_optimizer(optimizer)

        def build_training_data_loader(self) -> Any:
            return pytorch.DataLoader(table, batch_size=BATCH, shuffle=True, collate_fn=as_it_is)

        def build_validation_data_loader(self) -> Any:
            return pytorch.DataLoader(table, batch_size=BATCH, collate_fn=as_it_is)

        def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
            return {"turns": Turns()}

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            x, y = batch
            loss = mse_loss(self.model(x), y)
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            return {"loss": loss}

        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            return {"zero": 0.0}

    class Turns(pytorch.PyTorchCallback):
        def on_training_start(self) -> None:
            self.last = now()

        def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
            start = now()
            hand.train(PERIOD)
            end = now()
            hand_wall, hand_cpu = end.wall - start.wall, end.thread - start.thread
            ours_wall = start.wall - self.last.wall
            periods.append(
                Period(hand_wall, hand_cpu, ours_wall, end.cpu - self.last.cpu - hand_cpu)
            )
            self.last = now()

    with pytorch.init(exp_conf={}, enable_tensorboard_logging=True) as context:
        pytorch.Trainer(Trial(context), context).fit(
            max_length=pytorch.Batch(batches), reporting_period=pytorch.Batch(PERIOD)
        )
    return periods


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "tiny_mlp": (tiny_mlp, (16,)),
    "small_cnn": (small_cnn, (1, 16, 16)),
}


def compare(model: str, batches: int, periods_a_group: int) -> Comparison:
    """Compare the two loops over `batches` in each of several processes."""
    groups = [
        Period(*map(sum, zip(*periods[at : at + periods_a_group], strict=True)))
        for periods in (fresh_turns(model, batches) for _ in range(PROCESSES))
        for at in range(0, len(periods) - periods_a_group + 1, periods_a_group)
    ]
    group_batches = PERIOD * periods_a_group
    over = [(g.ours_cpu - g.hand_cpu) / group_batches * 1e6 for g in groups]
    ratios = [g.ours_cpu / g.hand_cpu for g in groups]
    return Comparison(
        statistics.median((g.ours_wall - g.hand_wall) / group_batches * 1e6 for g in groups),
        statistics.median(over),
        statistics.median(ratios),
        error_of_median(over),
        error_of_median(ratios),
    )


def fresh_turns(model: str, batches: int) -> list[Period]:
    with tempfile.TemporaryDirectory() as home:
        output = subprocess.check_output(
            [sys.executable, __file__, model, str(batches)],
            text=True,
            env={**os.environ, "XDG_DATA_HOME": home},
        )
    periods = [Period(*period) for period in json.loads(output)]
    assert len(periods) == batches // PERIOD
    return [between(*pair) for pair in itertools.pairwise(periods)]


def between(before: Period, period: Period) -> Period:
    """Compare with the hand-written periods before and after, because the speed of a machine changes by the second."""
    return period._replace(
        hand_wall=(before.hand_wall + period.hand_wall) / 2,
        hand_cpu=(before.hand_cpu + period.hand_cpu) / 2,
    )


def error_of_median(values: list[float]) -> float:
    """Estimate the standard error from the quartiles, which single outliers do not change."""
    low, _, high = statistics.quantiles(values)
    error: float = 1.25 * (high - low) / 1.35 / len(values) ** 0.5
    return error


def import_added_cpu_s() -> float:
    """Return the CPU time that the import adds after torch is loaded; the minimum of several fresh processes."""
    code = (
        "import time, torch\n"
        "before = time.process_time()\n"
        "import determined.pytorch\n"
        "print(time.process_time() - before)"
    )
    seconds = [
        float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(7)
    ]
    return min(seconds)


def main() -> None:
    """Measure everything, or one process's periods (`MODEL BATCHES`). Without torch, use another interpreter."""
    try:
        import torch
    except ImportError:
        venv = str(ROOT / "scripts" / "ml-venv")
        python = subprocess.check_output([venv, "ml"], text=True).strip()
        os.execv(python, [python, __file__])
    torch.set_num_threads(1)
    if len(sys.argv) > 2:
        (make_model, shape), batches = MODELS[sys.argv[1]], int(sys.argv[2])
        print(json.dumps(turns(make_model, table_of(shape, batches), batches)))
        return
    tiny = compare("tiny_mlp", 6_000, 5)
    cnn = compare("small_cnn", 2_400, 1)
    emit("pytorch_tiny_mlp_overhead_wall", tiny.wall_us, "us/batch", 10, 91)
    emit("pytorch_tiny_mlp_overhead_cpu", tiny.cpu_us, "us/batch", 10, 91)
    emit("pytorch_tiny_mlp_overhead_cpu_error", tiny.cpu_error_us, "us/batch", 2)
    emit("pytorch_tiny_mlp_cpu_ratio", tiny.cpu_ratio, "x", 1.1, 1.8)
    emit("pytorch_small_cnn_cpu_ratio", cnn.cpu_ratio, "x", 1.01)
    emit("pytorch_small_cnn_cpu_ratio_error", cnn.ratio_error, "x", 0.005)
    emit("import_determined_pytorch_over_torch", import_added_cpu_s() * 1e3, "ms CPU", 50, 320)


if __name__ == "__main__":
    main()
