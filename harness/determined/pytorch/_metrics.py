"""Metrics of batches. They stay tensors on their device until a report needs numbers.

Reading a number from a GPU waits for all of its queued work. One such read for each batch would prevent the CPU from
running ahead of the GPU. Rows are therefore stored as they are, and each column is transferred at once. If training
runs on the CPU there is no such wait, and reading a number is cheaper than keeping its tensor.
"""

import contextlib
import logging
import operator
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from determined.pytorch._reducer import Reducer

logger = logging.getLogger("determined.pytorch")

Columns = Dict[str, List[Any]]
_Tensor = torch.Tensor
_NUMBERS = (float, int)
_dtype_of = operator.attrgetter("dtype")


class MetricRows:
    """The metrics of a workload's batches, in order."""

    def __init__(
        self, device: Optional[torch.device] = None, earlier: Sequence[Dict[str, Any]] = ()
    ) -> None:
        """Start with rows of an earlier run, in numbers."""
        on_cpu = device is not None and device.type == "cpu"
        self._convert: Callable[[torch.Tensor], Any] = _Tensor.item if on_cpu else _Tensor.detach
        self._keeps_numbers = on_cpu
        self._rows: List[Dict[str, Any]] = []
        # True if all current rows consist of numbers.
        self._are_numbers = on_cpu
        self._packed: List[Dict[str, Any]] = list(earlier)
        self._first: Dict[str, torch.Tensor] = {}
        self._reused: Tuple[str, ...] = ()
        # True while values must be compared with the first row, to detect reused buffers.
        self._compares = True

    def add(self, returned: Any) -> None:
        """Add the metrics of one batch without waiting for the device."""
        if type(returned) is not dict:
            returned = _as_metrics(returned)
        convert, row = self._convert, {}
        try:
            for name, value in returned.items():
                row[name] = convert(value) if type(value) is _Tensor else self._detach(value)
        except (RuntimeError, ValueError):  # a tensor with several values
            row = {name: self._detach(value) for name, value in returned.items()}
        if self._compares and not self._are_numbers:
            self._copy_reused(row)
        self._rows.append(row)

    def pack(self) -> None:
        """Convert the current rows to numbers, because thousands of small tensors slow down training."""
        self._packed += self._rows if self._are_numbers else _to_host(self._rows)
        self._rows, self._are_numbers = [], self._keeps_numbers

    def packed(self) -> List[Dict[str, Any]]:
        """Return all rows as Python numbers."""
        self.pack()
        return list(self._packed)

    def pop_all(self) -> List[Dict[str, Any]]:
        """Return all rows as Python numbers, and remove them."""
        self.pack()
        rows, self._packed = self._packed, []
        self._first, self._compares = {}, True
        return rows

    def _detach(self, value: Any) -> Any:
        if type(value) in _NUMBERS:
            return value
        self._are_numbers = False
        return value.detach() if isinstance(value, _Tensor) else value

    def _copy_reused(self, row: Dict[str, Any]) -> None:
        """Copy values if a trial returns the same buffer for each batch."""
        has_new_names = False
        for name, value in row.items():
            if not isinstance(value, _Tensor):
                continue
            first = self._first.get(name)
            if first is None:
                self._first[name], has_new_names = value, True
            elif first.data_ptr() == value.data_ptr() and first.numel():
                self._reused += () if name in self._reused else (name,)
            if first is None or name in self._reused:
                row[name] = value.clone()
        self._compares = has_new_names or not self._first or bool(self._reused)


def _as_metrics(returned: Any) -> Mapping[str, Any]:
    if isinstance(returned, Mapping):
        return returned
    if isinstance(returned, (torch.Tensor, float, int)):
        return {"loss": returned}
    raise TypeError(
        f"a batch must return a tensor (the loss) or a dictionary of metrics, not {type(returned).__name__}"
    )


def _to_host(rows: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Convert rows of tensors to rows of numbers, with one transfer for each metric."""
    names = list({name: None for row in rows for name in row})
    if names and all(len(row) == len(names) for row in rows):
        moved = [_column_to_host([row[name] for row in rows]) for name in names]
        return [dict(zip(names, values)) for values in zip(*moved)]
    host: List[Dict[str, Any]] = [{} for _ in rows]
    for name in names:
        holders = [i for i, row in enumerate(rows) if name in row]
        for i, value in zip(holders, _column_to_host([rows[i][name] for i in holders])):
            host[i][name] = value
    return host


def _column_to_host(values: List[Any]) -> List[Any]:
    if isinstance(values[0], _Tensor) and values[0].numel() == 1 and _are_of_one_kind(values):
        with contextlib.suppress(RuntimeError):  # different shapes or devices
            numbers: List[Any] = torch.stack(values).flatten().tolist()
            return numbers
    return [plain(value) for value in values]


def _are_of_one_kind(values: List[Any]) -> bool:
    """Return whether values have the same type. Stacking different types would convert integers to floats."""
    return len(set(map(type, values))) == 1 and len(set(map(_dtype_of, values))) == 1


def plain(value: Any) -> Any:
    """Return a metric as Python numbers and lists."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else value.tolist()
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    names = list(rows[0]) if rows else []
    if set(map(len, rows)) == {len(names)}:
        with contextlib.suppress(KeyError):  # the same number of names, but other names
            return {name: list(map(operator.itemgetter(name), rows)) for name in names}
    result: Columns = {}
    for row in rows:
        for name, value in row.items():
            result.setdefault(name, []).append(value)
    return result


def reduce_columns(
    shards: Sequence[Columns], reducer: Union[Reducer, Mapping[str, Reducer]] = Reducer.AVG
) -> Dict[str, Any]:
    """Reduce the columns of all ranks to one value for each numeric metric."""
    metrics: Dict[str, Any] = {}
    for name in {name: None for shard in shards for name in shard}:
        values = [value for shard in shards for value in shard.get(name, [])]
        chosen = reducer if isinstance(reducer, Reducer) else _chosen(reducer, name)
        reduced = _reduce(chosen, values)
        if reduced is None:
            _warn_not_reduced(name, values[0])
        else:
            metrics[name] = reduced
    return metrics


def average_rows(shards: Sequence[Sequence[Dict[str, Any]]]) -> List[Dict[str, Any]]:
    """Average the rows of all ranks. Row n of the result has the averages over the ranks' batch n."""
    if len(shards) == 1:
        return list(shards[0])
    averaged = []
    for batch in zip(*shards):
        row = reduce_columns([columns(batch)])
        averaged.append({name: row.get(name, batch[0][name]) for name in batch[0]})
    return averaged


def _chosen(reducers: Mapping[str, Reducer], name: str) -> Reducer:
    if name not in reducers:
        raise ValueError(f"evaluation_reducer() has no reducer for the metric {name!r}")
    return reducers[name]


def _reduce(reducer: Reducer, values: List[Any]) -> Optional[Any]:
    if isinstance(values[0], list):
        try:
            stacked = torch.tensor(values, dtype=torch.float64)
        except (TypeError, ValueError):
            return None
        return _REDUCE_TENSOR[reducer](stacked).tolist()
    if not all(issubclass(kind, (int, float)) for kind in set(map(type, values))):
        return None
    return _REDUCE_NUMBERS[reducer](values)


_REDUCE_NUMBERS: Dict[Reducer, Callable[[List[Any]], Any]] = {
    Reducer.AVG: lambda values: sum(values) / len(values),
    Reducer.SUM: sum,
    Reducer.MAX: max,
    Reducer.MIN: min,
}
_REDUCE_TENSOR: Dict[Reducer, Callable[[torch.Tensor], Any]] = {
    Reducer.AVG: lambda stacked: stacked.mean(0),
    Reducer.SUM: lambda stacked: stacked.sum(0),
    Reducer.MAX: lambda stacked: stacked.amax(0),
    Reducer.MIN: lambda stacked: stacked.amin(0),
}

_is_warned: Dict[str, bool] = {}


def _warn_not_reduced(name: str, value: Any) -> None:
    if not _is_warned.setdefault(name, False):
        _is_warned[name] = True
        logger.warning(
            "the metric %r is not reduced: a %s is not a number", name, type(value).__name__
        )
