"""Every search method passes the contract kit."""

from collections.abc import Mapping
from typing import Any, ClassVar

from det_controlplane.core.hparams import Categorical, Const, Double, Int, Log, Nested, Space
from det_controlplane.testing.searchers import SearcherContract

_METRIC = {"metric": "loss", "smaller_is_better": True}
_TIME = {**_METRIC, "time_metric": "batches", "max_time": 81, "divisor": 3}
_LENGTH = {**_METRIC, "max_length": {"batches": 81}, "divisor": 3}

# Every kind of hyperparameter. The values of the optimizer have hyperparameters of their own.
_EVERY_KIND: Space = {
    "optimizer": Categorical(({"name": "adam", "beta": 0.9}, {"name": "sgd"}, "none")),
    "learning_rate": Log(-5.0, -1.0, 10.0),
    "one": Log(-3.0, 0.0, 1.0),
    "half": Log(-3.0, 0.0, 0.5),
    "net": Nested({"block": Nested({"width": Int(16, 512), "drop": Double(0.0, 0.6)})}),
    "layers": Int(0, 1),
    "norm": Categorical((True, False)),
    "only": Categorical((3,)),
    "fixed": Const([1, 2]),
}


class TestSingle(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_METRIC,
        "name": "single",
        "max_length": {"batches": 10},
    }
    max_trials = 1
    reads_metrics = False


class TestRandom(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_METRIC,
        "name": "random",
        "max_trials": 14,
        "max_concurrent_trials": 4,
    }
    max_trials = 14
    reads_metrics = False


class TestGrid(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_METRIC, "name": "grid", "max_concurrent_trials": 5}
    max_trials = 24
    reads_metrics = False


class TestAsyncHalvingThatStops(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_TIME,
        "name": "async_halving",
        "num_rungs": 4,
        "max_trials": 20,
    }
    max_trials = 20


class TestAsyncHalvingThatStopsOnceByLength(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_LENGTH,
        "name": "async_halving",
        "num_rungs": 3,
        "max_trials": 20,
        "stop_once": True,
    }
    max_trials = 20


class TestAsyncHalvingThatPromotes(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_LENGTH,
        "name": "async_halving",
        "num_rungs": 4,
        "max_trials": 20,
    }
    max_trials = 20


class TestAdaptiveAshaThatStops(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_TIME,
        "name": "adaptive_asha",
        "max_trials": 30,
        "mode": "conservative",
    }
    max_trials = 30


class TestAdaptiveAshaThatPromotes(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_LENGTH, "name": "adaptive_asha", "max_trials": 30}
    max_trials = 30


class TestLocalAshaThatStops(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_TIME, "name": "local_asha", "max_trials": 40}
    max_trials = 40


class TestLocalAshaThatPromotes(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_LENGTH, "name": "local_asha", "max_trials": 40}
    max_trials = 40


class TestModelAshaThatStops(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_TIME, "name": "model_asha", "max_trials": 40}
    max_trials = 40
    seeds = range(4)  # the model takes milliseconds for each decision


class TestModelAshaThatPromotes(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_LENGTH, "name": "model_asha", "max_trials": 40}
    max_trials = 40
    seeds = range(4)


class _ModelAshaInEveryKindOfSpace(SearcherContract):
    model: ClassVar[Mapping[str, Any]] = {
        "name": "model_asha",
        "max_trials": 40,
        "smaller_is_better": False,
    }
    max_trials = 40
    space = _EVERY_KIND
    seeds = range(2)

    def scaled(self, trials: int) -> None:
        return None  # other classes measure the cost


class TestModelAshaThatStopsInEveryKindOfSpace(_ModelAshaInEveryKindOfSpace):
    searcher: ClassVar[Mapping[str, Any]] = {**_TIME, **_ModelAshaInEveryKindOfSpace.model}


class TestModelAshaThatPromotesInEveryKindOfSpace(_ModelAshaInEveryKindOfSpace):
    searcher: ClassVar[Mapping[str, Any]] = {**_LENGTH, **_ModelAshaInEveryKindOfSpace.model}


class TestLocalAshaInEveryKindOfSpace(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {**_LENGTH, "name": "local_asha", "max_trials": 40}
    max_trials = 40
    space = _EVERY_KIND


class TestModelAshaThatStopsAndEndsEarly(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_TIME,
        "name": "model_asha",
        "max_trials": 80,
        "stop_when": {"expected_gain_below": 0.2},
    }
    max_trials = 80
    seeds = range(4)


class TestModelAshaThatPromotesAndEndsEarly(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_LENGTH,
        "name": "model_asha",
        "max_trials": 80,
        "stop_when": {"expected_gain_below": 0.2},
    }
    max_trials = 80
    seeds = range(4)


class TestPopulationTraining(SearcherContract):
    searcher: ClassVar[Mapping[str, Any]] = {
        **_METRIC,
        "name": "pbt",
        "population_size": 6,
        "num_rounds": 4,
        "time_metric": "batches",
        "length_per_round": 10,
        "replace_function": {"truncate_fraction": 0.34},
    }
    max_trials = 24
