"""Custom reducers, for metrics that are not simple averages over batches."""

import enum
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Union


class Reducer(enum.Enum):
    """A function that reduces the results of `evaluate_batch` for all batches to one value."""

    AVG = 1
    SUM = 2
    MAX = 3
    MIN = 4


class MetricReducer:
    """Collects values for each batch. They are reduced on each slot, then across all slots.

    `cross_slot_reduce` runs only on the chief. It returns the metric, or a dictionary of metrics if the reducer was
    wrapped without a name.
    """

    def reset(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define reset()")

    def per_slot_reduce(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define per_slot_reduce()")

    def cross_slot_reduce(self, per_slot_metrics: List[Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define cross_slot_reduce()")


class _FunctionReducer(MetricReducer):
    """A function of the list of all values that were passed to `update` on any slot."""

    def __init__(self, function: Callable[[List[Any]], Any]) -> None:
        self._function = function
        self._values: List[Any] = []

    def update(self, value: Any) -> None:
        self._values.append(value)

    def reset(self) -> None:
        self._values = []

    def per_slot_reduce(self) -> List[Any]:
        return self._values

    def cross_slot_reduce(self, per_slot_metrics: List[List[Any]]) -> Any:
        return self._function([value for values in per_slot_metrics for value in values])


@dataclass(frozen=True)
class _Wrapped:
    reducer: MetricReducer
    name: Optional[str]
    for_training: bool
    for_validation: bool

    def applies(self, training: bool) -> bool:
        return self.for_training if training else self.for_validation

    def named(self, reduced: Any) -> Dict[str, Any]:
        if self.name is not None:
            return {self.name: reduced}
        if not isinstance(reduced, dict):
            kind = type(self.reducer).__name__
            raise TypeError(
                f"{kind} was wrapped without a name, so its cross_slot_reduce() must return a dictionary "
                f"of metrics, not a {type(reduced).__name__}; or give wrap_reducer() a name"
            )
        return reduced


class ReducerContext:
    """The metric reducers of a context."""

    def __init__(self) -> None:
        self._reducers: List[_Wrapped] = []

    def wrap_reducer(
        self,
        reducer: Union[Callable[[List[Any]], Any], MetricReducer],
        name: Optional[str] = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """Register a reducer, or a function of all values. Its result is reported with the metrics."""
        if not isinstance(reducer, MetricReducer):
            if not callable(reducer):
                raise TypeError(f"a reducer is a MetricReducer or a function, not {reducer!r}")
            reducer = _FunctionReducer(reducer)
        self._reducers.append(_Wrapped(reducer, name, for_training, for_validation))
        return reducer

    def reset_reducers(self) -> None:
        for wrapped in self._reducers:
            wrapped.reducer.reset()

    def _per_slot(self, training: bool) -> List[Any]:
        return [w.reducer.per_slot_reduce() for w in self._reducers if w.applies(training)]

    def _cross_slot(self, training: bool, per_slot: Iterable[List[Any]]) -> Dict[str, Any]:
        """Reduce the results of all slots to one dictionary. This runs on the chief."""
        metrics: Dict[str, Any] = {}
        applicable = [w for w in self._reducers if w.applies(training)]
        for wrapped, slots in zip(applicable, zip(*per_slot)):
            for name, value in wrapped.named(
                wrapped.reducer.cross_slot_reduce(list(slots))
            ).items():
                add_metric(metrics, name, value)
        return metrics


def add_metric(metrics: Dict[str, Any], name: str, value: Any) -> None:
    if name in metrics:
        raise ValueError(f"two sources report a metric named {name!r}: rename one of them")
    metrics[name] = value
