"""Compare search methods on LCBench: validation accuracies of small networks on 34 data sets (YAHPO's surrogate).

python -m bench.search_lcbench --data DIR [--seeds 30] [--datasets 3945,7593] [--methods model_asha,random]

DIR has model.onnx, encoding.json and config_space.json of YAHPO Gym's "lcbench". It needs onnxruntime; with optuna,
Optuna takes part. Each method has four workers. The result is the best accuracy that any trial reported at any
epoch, after 10, 25, 50 and 100 times the 52 epochs of one full training.
"""

import argparse
import importlib.util
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_controlplane.core.hparams import Double, Int, Log, Space
from det_controlplane.core.search import SimulatedTrial, simulate

from bench import lcbench_optuna

FULL = 52  # epochs
WORKERS = 4
MARKS = (10, 25, 50, 100)  # full trainings
DATASETS = (
    3945, 7593, 34539, 126025, 126026, 126029, 146212, 167104, 167149, 167152, 167161, 167168, 167181, 167184,
    167185, 167190, 167200,
)  # fmt: skip
SPACE: Space = {
    "batch_size": Log(math.log(16), math.log(512), math.e),
    "learning_rate": Log(math.log(1e-4), math.log(0.1), math.e),
    "momentum": Double(0.1, 0.99),
    "weight_decay": Double(1e-5, 0.1),
    "num_layers": Int(1, 5),
    "max_units": Log(math.log(64), math.log(1024), math.e),
    "max_dropout": Double(0.0, 1.0),
}

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
    "local_asha": {**_LENGTH, "name": "local_asha", "num_rungs": 4},
    "local_asha, 3 rungs": {**_LENGTH, "name": "local_asha", "num_rungs": 3},
    "async_halving": {**_LENGTH, "name": "async_halving", "num_rungs": 4},
    "adaptive_asha": {**_TIME, "name": "adaptive_asha"},
    "random": {**_LENGTH, "name": "random"},
}
PEERS: dict[str, lcbench_optuna.Study] = (
    lcbench_optuna.studies() if importlib.util.find_spec("optuna") else {}
)


class Curves:
    """The learning curves of one data set, predicted by the surrogate."""

    def __init__(self, folder: Path, dataset: int) -> None:
        import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._model = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        encoding = json.loads((folder / "encoding.json").read_text())
        self._dataset = encoding.get("OpenML_task_id", encoding)[str(dataset)]
        self._curves: dict[tuple[Any, ...], list[float]] = {}

    def accuracies(self, hparams: Mapping[str, Any]) -> list[float]:
        """Return the validation accuracy in percent after each epoch."""
        key = tuple(hparams[name] for name in SPACE)
        if key not in self._curves:
            self._curves[key] = self._predict(hparams)
        return self._curves[key]

    def _predict(self, hparams: Mapping[str, Any]) -> list[float]:
        import numpy

        sizes = {"batch_size", "max_units"}
        row = [round(hparams[n]) if n in sizes else hparams[n] for n in SPACE]
        inputs = numpy.array([[epoch, *row] for epoch in range(1, FULL + 1)], numpy.float32)
        datasets: Any = numpy.full((FULL, 1), self._dataset, numpy.int32)
        (outputs,) = self._model.run(None, {"x_cont": inputs, "x_cat": datasets})
        return [float(value) for value in outputs[:, 1]]


@dataclass
class Incumbent:
    """The best accuracy that was reported so far, noted at each mark."""

    curves: Curves
    best: float = 0.0
    marks: tuple[float, ...] = ()

    def observe(self, work: float, hparams: Mapping[str, Any], epochs: float) -> None:
        while len(self.marks) < len(MARKS) and work > MARKS[len(self.marks)] * FULL:
            self.marks += (self.best,)
        self.best = max(self.best, *self.curves.accuracies(hparams)[: int(epochs)])

    def result(self) -> tuple[float, ...]:
        return self.marks + (self.best,) * (len(MARKS) - len(self.marks))


def accuracies(method: str, folder: Path, dataset: int, seed: int) -> tuple[float, ...]:
    """Return the best accuracy of one run at each mark."""
    curves = Curves(folder, dataset)
    incumbent = Incumbent(curves)
    budget = MARKS[-1] * FULL
    if method in PEERS:
        error = _error_of(curves)
        lcbench_optuna.run(PEERS[method], seed, WORKERS, FULL, budget, error, incumbent.observe)
        return incumbent.result()

    def observe(work: float, trial: SimulatedTrial) -> None:
        incumbent.observe(work, trial.create.hparams, trial.length)

    def curve(hparams: Mapping[str, Any], trial_seed: int, length: float) -> float:
        return 100 - curves.accuracies(hparams)[int(length) - 1]

    simulate(OURS[method], SPACE, seed, curve, WORKERS, budget, observe)
    return incumbent.result()


def _error_of(curves: Curves) -> Callable[[Mapping[str, Any], int], float]:
    return lambda hparams, epoch: 100 - curves.accuracies(hparams)[epoch - 1]


def figures(
    runs: Mapping[tuple[str, int, int], Sequence[float]], methods: Sequence[str]
) -> Iterable[dict[str, Any]]:
    """Yield the mean rank and the mean regret of each method at each mark, with 95 % intervals."""
    best: dict[int, float] = defaultdict(float)
    for (_, dataset, _), marks in runs.items():
        best[dataset] = max(best[dataset], marks[-1])
    pairs = sorted({(dataset, seed) for _, dataset, seed in runs})
    for index, mark in enumerate(MARKS):
        ranks: dict[str, list[float]] = defaultdict(list)
        regrets: dict[str, list[float]] = defaultdict(list)
        for dataset, seed in pairs:
            found = {method: runs[method, dataset, seed][index] for method in methods}
            for method, accuracy in found.items():
                better = sum(other > accuracy for other in found.values())
                equal = sum(other == accuracy for other in found.values())
                ranks[method].append(better + (equal + 1) / 2)
                regrets[method].append(best[dataset] - accuracy)
        for method in methods:
            for name, values in (("rank", ranks[method]), ("regret", regrets[method])):
                yield {
                    "name": f"search.lcbench.{name}.{method}.{mark}R",
                    "value": round(statistics.fmean(values), 3),
                    "interval": round(_interval(values), 3),
                    "runs": len(values),
                    "unit": "rank" if name == "rank" else "% accuracy below the best known",
                }


def _interval(values: Sequence[float]) -> float:
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _run(task: tuple[str, Path, int, int]) -> tuple[float, ...]:
    return accuracies(*task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--datasets", default=",".join(map(str, DATASETS)))
    parser.add_argument("--methods", default=";".join([*OURS, *PEERS]), help="separated by ;")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    methods = options.methods.split(";")
    datasets = [int(dataset) for dataset in options.datasets.split(",")]
    keys = [(m, d, s) for m in methods for d in datasets for s in range(options.seeds)]
    tasks = [(method, options.data, dataset, seed) for method, dataset, seed in keys]
    with ProcessPoolExecutor(options.processes) as pool:
        runs = dict(zip(keys, pool.map(_run, tasks, chunksize=4), strict=True))
    for figure in figures(runs, methods):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
