"""LCBench: validation accuracies of small networks on 34 data sets, predicted by the surrogate of YAHPO Gym.

The folder of the data has `model.onnx` and `encoding.json` of YAHPO Gym's "lcbench". It needs onnxruntime.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_controlplane.core.hparams import Double, Int, Log, Space

FULL = 52  # epochs
MARKS = (5, 10, 15, 25, 35, 50, 70, 100)  # full trainings
SPACE: Space = {
    "batch_size": Log(math.log(16), math.log(512), math.e),
    "learning_rate": Log(math.log(1e-4), math.log(0.1), math.e),
    "momentum": Double(0.1, 0.99),
    "weight_decay": Double(1e-5, 0.1),
    "num_layers": Int(1, 5),
    "max_units": Log(math.log(64), math.log(1024), math.e),
    "max_dropout": Double(0.0, 1.0),
}
_SIZES = ("batch_size", "max_units")  # whole numbers


class Curves:
    """The learning curves of one data set."""

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

    def error(self, hparams: Mapping[str, Any], epoch: int) -> float:
        """Return the validation error in percent after an epoch."""
        return 100 - self.accuracies(hparams)[epoch - 1]

    def _predict(self, hparams: Mapping[str, Any]) -> list[float]:
        import numpy

        row = [round(hparams[n]) if n in _SIZES else hparams[n] for n in SPACE]
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
