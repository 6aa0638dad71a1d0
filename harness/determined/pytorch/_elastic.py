"""The data of elastic trials: a batch has the same samples for any number of slots.

The samples of `max_slots` batches of the data loader form a global batch. Each rank trains a part of it in one or
several micro-batches that are not larger than a batch of the loader. The optimizer steps after the last one. Each loss
is weighted with its share of the global batch, so the sum of the gradients does not depend on the number of slots.
"""

from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import default_collate

from determined.pytorch.samplers import _check_rank, _Wrapper


class MicroBatches(NamedTuple):
    """The part of a global batch that a rank trains. The weights are factors of the losses."""

    batches: List[Any]
    weights: List[float]


class _Part(NamedTuple):
    """The indices of a rank's micro-batches, with the weight of each."""

    indices: List[List[Any]]
    weights: List[float]


class ElasticBatchSampler(_Wrapper):
    """Yields a rank's part of each global batch, in a list as batch samplers do."""

    def __init__(self, batch_sampler: Any, max_slots: int, num_workers: int, rank: int) -> None:
        super().__init__(batch_sampler)
        _check_rank(num_workers, rank)
        self._max_slots = max_slots
        self._num_workers = num_workers
        self._rank = rank

    def __len__(self) -> int:
        return -(-len(self._sampler) // self._max_slots)

    def __iter__(self) -> Iterator[List[_Part]]:
        batches = iter(self._sampler)
        while True:
            group = [list(batch) for batch in islice(batches, self._max_slots)]
            if not group:
                return
            yield [self._part_of(group)]

    def _part_of(self, group: Sequence[List[Any]]) -> _Part:
        """Return the rank's part in as many micro-batches as every other rank has.

        Ranks exchange shards of a model in each forward pass. An empty micro-batch has a sample with a weight of zero.
        """
        samples = [index for batch in group for index in batch]
        total, ranks = len(samples), self._num_workers
        start, end = (total * n // ranks for n in (self._rank, self._rank + 1))
        largest = -(-total // ranks)
        pieces = -(-largest // max(len(batch) for batch in group))
        cuts = [start + (end - start) * n // pieces for n in range(pieces + 1)]
        indices = [samples[cuts[n] : cuts[n + 1]] for n in range(pieces)]
        weights = [len(piece) * ranks / total for piece in indices]
        return _Part([piece or samples[:1] for piece in indices], weights)


class _PartDataset(torch.utils.data.Dataset):  # type: ignore[misc]
    """Reads and collates the micro-batches of a part, within the loader's worker processes."""

    def __init__(self, dataset: Any, collate: Callable[[List[Any]], Any]) -> None:
        self._dataset = dataset
        self._collate = collate

    def __getitem__(self, part: _Part) -> MicroBatches:
        batches = [self._collate(self._read(indices)) for indices in part.indices]
        return MicroBatches(batches, part.weights)

    def _read(self, indices: List[Any]) -> List[Any]:
        read_all = getattr(self._dataset, "__getitems__", None)
        if read_all is not None:
            samples: List[Any] = read_all(indices)
            return samples
        return [self._dataset[index] for index in indices]


def _only(items: List[MicroBatches]) -> MicroBatches:
    return items[0]


def elastic_loader(
    dataset: Any, collate: Any, batch_sampler: Any, options: Dict[str, Any]
) -> "TorchDataLoader[Any]":
    """Return a loader that yields `MicroBatches`. `batch_sampler` adapts an `ElasticBatchSampler`."""
    parts = _PartDataset(dataset, collate or default_collate)
    return TorchDataLoader(parts, batch_sampler=batch_sampler, collate_fn=_only, **options)


def average(metrics: Sequence[Any], weights: Sequence[float]) -> Any:
    """Return the weighted average of the metrics of micro-batches. Other values are taken from the last one."""
    last = metrics[-1]
    total = sum(weights)
    if len(metrics) == 1 or not total or not all(isinstance(m, dict) for m in metrics):
        return last
    return {
        name: sum(m[name] * weight for m, weight in zip(metrics, weights)) / total
        if _is_number(value) and all(name in m for m in metrics)
        else value
        for name, value in last.items()
    }


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(value.numel() == 1 and value.is_floating_point())
    return isinstance(value, (int, float)) and not isinstance(value, bool)
