"""Run searches on LCBench in one environment, and append a JSON line for each run to a file (see search_lcbench.py)."""

import argparse
import importlib.metadata
import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_controlplane.core.search import SimulatedTrial, simulate

from bench import lcbench_optuna, lcbench_ray, lcbench_syne_tune
from bench.lcbench_curves import FULL, MARKS, SPACE, Curves, Incumbent
from bench.lcbench_peers import Package, run

WORKERS = 4
_BASE = {
    "metric": "error",
    "divisor": 3,
    "max_trials": 1_000_000,
    "max_concurrent_trials": WORKERS,
}
_LENGTH = {**_BASE, "max_length": {"epochs": FULL}}
_TIME = {**_BASE, "time_metric": "epochs", "max_time": FULL}
OURS: dict[str, Mapping[str, Any]] = {
    "model_asha": {**_LENGTH, "name": "model_asha"},
    "model_asha, stopping": {**_TIME, "name": "model_asha"},
    "model_asha, 3 rungs": {**_LENGTH, "name": "model_asha", "max_rungs": 3},
    "local_asha": {**_LENGTH, "name": "local_asha", "num_rungs": 4},
    "local_asha, 3 rungs": {**_LENGTH, "name": "local_asha", "num_rungs": 3},
    "async_halving": {**_LENGTH, "name": "async_halving", "num_rungs": 4},
    "adaptive_asha, stopping": {**_TIME, "name": "adaptive_asha"},
    "random": {**_LENGTH, "name": "random"},
}
PEERS: dict[str, Package] = {
    **lcbench_optuna.PACKAGES,
    **lcbench_ray.PACKAGES,
    **lcbench_syne_tune.PACKAGES,
}
METHODS = (*OURS, *PEERS)


@dataclass(frozen=True)
class Task:
    method: str
    dataset: int
    seed: int


def environment_of(method: str) -> str:
    return PEERS[method].environment if method in PEERS else "optuna"


def finished(file: Path) -> dict[Task, list[float]]:
    """Return the accuracies at each mark of the runs in a file."""
    runs = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        row = json.loads(line)
        runs[Task(row["method"], row["dataset"], row["seed"])] = row["accuracies"]
    return runs


def accuracies(task: Task, folder: Path) -> tuple[float, ...]:
    """Return the best accuracy of one run at each mark."""
    curves = Curves(folder, task.dataset)
    if task.method in PEERS:
        return run(PEERS[task.method].make(task.seed), curves, WORKERS)
    incumbent = Incumbent(curves)

    def observe(work: float, trial: SimulatedTrial) -> None:
        incumbent.observe(work, trial.create.hparams, trial.length)

    def curve(hparams: Mapping[str, Any], trial_seed: int, length: float) -> float:
        return curves.error(hparams, int(length))

    searcher = OURS[task.method]
    simulate(searcher, SPACE, task.seed, curve, WORKERS, MARKS[-1] * FULL, observe)
    return incumbent.result()


def _line(task: Task, folder: Path) -> str:
    started = time.process_time()
    marks = accuracies(task, folder)
    names = PEERS[task.method].versions if task.method in PEERS else ()
    row = {
        "method": task.method,
        "dataset": task.dataset,
        "seed": task.seed,
        "accuracies": [round(accuracy, 4) for accuracy in marks],
        "cpu_s": round(time.process_time() - started, 1),
        "versions": {name: importlib.metadata.version(name) for name in names},
    }
    return json.dumps(row)


def tasks(
    methods: Iterable[str], datasets: Iterable[int], seeds: Iterable[int], done: Iterable[Task]
) -> list[Task]:
    """Return the runs that are not done. All data sets get a seed before any gets the next one."""
    known, names, numbers = set(done), list(methods), list(datasets)
    every = (Task(m, d, seed) for seed in seeds for d in numbers for m in names)
    return [task for task in every if task not in known]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--methods", required=True, help="separated by ;")
    parser.add_argument("--datasets", required=True)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    todo = tasks(
        options.methods.split(";"),
        map(int, options.datasets.split(",")),
        range(options.seeds),
        finished(options.results),
    )
    folders = [options.data] * len(todo)
    with ProcessPoolExecutor(options.processes) as pool, options.results.open("a") as file:
        for line in pool.map(_line, todo, folders):
            file.write(f"{line}\n")
            file.flush()


if __name__ == "__main__":
    main()
