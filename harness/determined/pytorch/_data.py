"""The DataLoader, and functions that move batches to a device."""

import logging
from typing import Any, Callable, Dict, Iterator, Optional, Set, Type, Union

import torch
from torch.utils.data import BatchSampler, Dataset, SequentialSampler
from torch.utils.data import DataLoader as TorchDataLoader

from determined.pytorch import _elastic, _rng
from determined.pytorch.samplers import ReproducibleShuffleSampler, adapt_batch_sampler

logger = logging.getLogger("determined.pytorch")

TorchData = Any


class DataLoader:
    """A data loader with torch's arguments that the Trainer can shard, repeat and skip.

    It needs a map-style dataset, because only indexed datasets can resume in the middle of an epoch.
    """

    def __init__(
        self,
        dataset: "Dataset[Any]",
        batch_size: Optional[int] = 1,
        shuffle: bool = False,
        sampler: Optional[Any] = None,
        batch_sampler: Optional[Any] = None,
        num_workers: int = 0,
        collate_fn: Optional[Callable[[Any], Any]] = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Optional[Callable[[int], None]] = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: Optional[int] = None,
        persistent_workers: bool = False,
    ) -> None:
        _check_map_style(dataset)
        _check_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.collate_fn = collate_fn
        self._shuffle = shuffle
        self._sampler = sampler
        self._batch_sampler = batch_sampler
        self._drop_last = drop_last
        self._generator = generator
        self._options: Dict[str, Any] = {
            "num_workers": num_workers,
            "pin_memory": pin_memory,
            "timeout": timeout,
            "worker_init_fn": worker_init_fn,
            "multiprocessing_context": multiprocessing_context,
            "generator": generator,
            "persistent_workers": persistent_workers,
        }
        if prefetch_factor is not None:
            self._options["prefetch_factor"] = prefetch_factor

    def get_data_loader(
        self, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0
    ) -> "TorchDataLoader[Any]":
        """Make a torch DataLoader for one rank's shard, starting at batch `skip`."""
        adapted = adapt_batch_sampler(self._batches(), repeat, skip, num_replicas, rank)
        return TorchDataLoader(
            self.dataset, batch_sampler=adapted, collate_fn=self.collate_fn, **self._options
        )

    def _get_elastic_loader(
        self, max_slots: int, skip: int, num_replicas: int, rank: int
    ) -> "TorchDataLoader[Any]":
        """Make a torch DataLoader for one rank of an elastic trial, starting at global batch `skip`."""
        parts = _elastic.ElasticBatchSampler(self._batches(), max_slots, num_replicas, rank)
        adapted = adapt_batch_sampler(parts, repeat=True, skip=skip)
        return _elastic.elastic_loader(self.dataset, self.collate_fn, adapted, self._options)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get_data_loader())

    def __len__(self) -> int:
        return len(self._batches())

    def _batches(self) -> Any:
        if self._batch_sampler is not None:
            return self._batch_sampler
        sampler = self._sampler if self._sampler is not None else SequentialSampler(self.dataset)
        if self._shuffle:
            sampler = ReproducibleShuffleSampler(sampler, self._seed())
        return BatchSampler(sampler, self.batch_size or 1, self._drop_last)

    def _seed(self) -> int:
        if self._generator is not None:
            return int(self._generator.initial_seed())
        return _rng.trial_seed()


def _check_map_style(dataset: Any) -> None:
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise ValueError(
            "determined.pytorch.DataLoader needs a map-style dataset to shard and resume it. For an "
            "IterableDataset call context.experimental.disable_dataset_reproducibility_checks() and return "
            "a torch.utils.data.DataLoader that shards by itself."
        )


def _check_samplers(
    batch_size: Optional[int], shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
    if sampler is not None and shuffle:
        raise ValueError("sampler excludes shuffle")
    if batch_sampler is None and batch_size is None:
        raise ValueError(
            "batch_size=None (no batching) is not supported: a trial trains on batches"
        )


def data_length(data: TorchData) -> int:
    """Return the number of records in a batch, which is the first dimension of its first tensor."""
    if isinstance(data, (dict, list, tuple)) and not data:
        raise ValueError(
            f"an empty {type(data).__name__} has no records: a batch needs a tensor, or override get_batch_length()"
        )
    if isinstance(data, dict):
        return data_length(next(iter(data.values())))
    if isinstance(data, (list, tuple)):
        return data_length(data[0]) if not isinstance(data[0], (str, int, float)) else len(data)
    try:
        return len(data)
    except TypeError:
        raise TypeError(
            f"cannot count the records of a {type(data).__name__}: override get_batch_length()"
        ) from None


def to_device(
    data: TorchData,
    device: Union[torch.device, str],
    warned_types: Optional[Set[Type[Any]]] = None,
) -> TorchData:
    """Move the tensors of a batch to a device. Objects that cannot be moved are returned unchanged.

    Such objects are logged. With `warned_types`, each type is logged only once.
    """
    if isinstance(data, torch.Tensor):
        return data if data.device == device else data.to(device, non_blocking=True)
    if isinstance(data, (list, tuple)):
        # Most batches are lists of tensors, so avoid a call for each tensor.
        items = [
            item
            if isinstance(item, torch.Tensor) and item.device == device
            else to_device(item, device, warned_types)
            for item in data
        ]
        kind = type(data)
        if kind is list:
            return items
        return kind(*items) if hasattr(data, "_fields") else kind(items)
    if isinstance(data, dict):
        moved = {name: to_device(value, device, warned_types) for name, value in data.items()}
        return moved if type(data) is dict else _like_mapping(data, moved)
    if type(data).__module__ == "numpy" and getattr(data, "dtype", None) is not None:
        return _array_to_device(data, device, warned_types)
    if hasattr(data, "to"):
        return data.to(device)
    _log_once(type(data), warned_types)
    return data


def mover(
    device: torch.device, warned_types: Optional[Set[Type[Any]]] = None
) -> Callable[[TorchData], TorchData]:
    """Return `to_device` for one device. For the CPU, it detects quickly that tensors need no move."""
    if device.type != "cpu":
        return lambda data: to_device(data, device, warned_types)
    tensor = torch.Tensor

    def move(data: TorchData) -> TorchData:
        kind = type(data)
        if kind is list or kind is tuple:
            for item in data:
                if type(item) is not tensor or not item.is_cpu:
                    break
            else:
                return kind(data)
        return to_device(data, device, warned_types)

    return move


def _array_to_device(
    array: Any, device: Union[torch.device, str], warned_types: Optional[Set[Type[Any]]]
) -> Any:
    if array.dtype.kind in "biufc":
        return torch.as_tensor(array).to(device, non_blocking=True)
    _log_once(type(array), warned_types)
    return array


def _like_mapping(original: Any, moved: Dict[Any, Any]) -> Any:
    if hasattr(original, "to"):
        # transformers.BatchEncoding is such a dict, and its subclasses have different constructors.
        original.data = moved
        return original
    try:
        return type(original)(moved)
    except TypeError:
        return moved


def _log_once(kind: Type[Any], warned_types: Optional[Set[Type[Any]]]) -> None:
    if warned_types is not None:
        if kind in warned_types:
            return
        warned_types.add(kind)
    logger.warning("items of a batch of type %s were not moved to the device", kind.__name__)
