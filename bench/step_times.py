"""Measure the cost of the step times of ranks: `python bench/step_times.py`. Prints a line of JSON for each figure.

Blocks of steps with and without the measurement alternate in one process, so that other load affects both alike. The
cost of a step is the CPU time of the process. The exchange between the ranks is measured on the chief, with another
rank in a second process. Runs itself in the environment that scripts/ml-venv creates.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
STEPS = 400  # of a block
BLOCKS = 30
EXCHANGES = 300
STEP_S = 0.008  # the figure of a step that is this long
MAX_STEP_US = 15.0
MAX_SHARE = 0.0025

# Another rank, which sends its windows and receives the answer of the chief as the training loop does.
OTHER_RANK = """
import sys
from determined.core import DistributedContext
ranks = DistributedContext(rank=1, size=2, local_rank=1, local_size=2, cross_rank=0, cross_size=1)
for _ in range(int(sys.argv[1])):
    ranks.gather(("agent", [(0.01, 0.001, 0.001)] * 2))
    ranks.broadcast(None)
ranks.close()
"""


def emit(name: str, value: float, unit: str, floor: float | None) -> None:
    figure = {"name": name, "value": round(value, 5), "unit": unit, "floor": floor}
    print(json.dumps({**figure, "better": "lower", "peer": None}), flush=True)


class Ranks:
    """Two ranks, of which this is the chief. The other one never answers."""

    rank, size = 0, 2


def step_us() -> float:
    """Return the CPU microseconds that the measurement adds to a step with DistributedDataParallel and buffers."""
    import torch
    from determined.core._step_times import StepTimes
    from determined.pytorch._own_time import own_time_of
    from torch import distributed, nn

    distributed.init_process_group("gloo", "tcp://127.0.0.1:0", rank=0, world_size=1)
    ranks: Any = Ranks()
    times = StepTimes(ranks, "agent", lambda *_: None)

    def make() -> tuple[Any, Any]:
        net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
        model = nn.parallel.DistributedDataParallel(net)
        return model, torch.optim.SGD(model.parameters(), lr=1e-3)

    plain, timed = make(), make()
    own = own_time_of([timed[0]], times.add)
    assert own is not None
    batch = torch.ones(8, 16)

    def train(model: Any, optimizer: Any) -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def without() -> None:
        for _ in range(STEPS):
            train(*plain)

    def with_times() -> None:
        own.begin()
        for _ in range(STEPS):
            own.loaded()
            train(*timed)
            own.done()
        times._windows.clear()

    differences = []
    for block in range(BLOCKS + 2):
        base, added = cpu_s(without), cpu_s(with_times)
        if block > 1:
            differences.append((added - base) / STEPS * 1e6)
    distributed.destroy_process_group()
    return statistics.median(differences)


def cpu_s(work: Any) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def exchange_us() -> float:
    """Return the CPU microseconds of the chief for one exchange of windows, and the answer to all ranks."""
    from determined.core import DistributedContext
    from determined.core._step_times import StepTimes

    other = subprocess.Popen([sys.executable, "-c", OTHER_RANK, str(EXCHANGES)])
    ranks = DistributedContext(
        rank=0, size=2, local_rank=0, local_size=2, cross_rank=0, cross_size=1
    )
    times = StepTimes(ranks, "agent", lambda *_: None)
    spent = []
    for number in range(EXCHANGES):
        times._windows = [(0.01, 0.001, 0.001)] * 2
        start = time.thread_time()
        times.exchange(number)
        ranks.broadcast((False, 31))
        spent.append((time.thread_time() - start) * 1e6)
    ranks.close()
    other.wait()
    return statistics.median(spent)


def main() -> None:
    try:
        import torch
    except ImportError:
        venv = str(ROOT / "scripts" / "ml-venv")
        python = subprocess.check_output([venv, "ml"], text=True).strip()
        os.execv(python, [python, __file__])
    from determined.pytorch import _loop

    torch.set_num_threads(1)
    step, exchange = step_us(), exchange_us()
    steps = max(20, _loop._LEAST_EXCHANGE_SECONDS / STEP_S)
    total = step + exchange / steps
    emit("step_time_of_a_step", step, "us CPU", MAX_STEP_US)
    emit("step_time_exchange", exchange, "us CPU", None)
    emit("step_time_share_of_8_ms", total / (STEP_S * 1e6), "ratio", MAX_SHARE)


if __name__ == "__main__":
    main()
