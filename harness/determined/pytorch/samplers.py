"""Samplers that shuffle reproducibly, shard evenly and resume in the middle of an epoch.

They are combined in this order: shuffle, batch, shard over ranks, repeat, and skip the batches that were trained
before. Shuffling depends only on the seed and the epoch, so skipping an epoch costs one permutation.
"""

import itertools
from typing import Any, Iterator, List, Optional, Sized

from torch.utils.data import BatchSampler, Sampler, SequentialSampler


def set_epoch(sampler: Any, epoch: int) -> bool:
    """Set the next epoch on a chain of samplers. Return False if a sampler in it cannot jump to an epoch."""
    if hasattr(sampler, "set_epoch"):
        return sampler.set_epoch(epoch) is not False
    if type(sampler) is SequentialSampler:
        return True
    if type(sampler) is BatchSampler:
        return set_epoch(sampler.sampler, epoch)
    return False


class _Wrapper(Sampler):  # type: ignore[misc]
    """A sampler that wraps another sampler."""

    def __init__(self, sampler: Any) -> None:
        # Until torch 2.1, Sampler's constructor takes an argument, ignores it and warns about it.
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._sampler)

    def set_epoch(self, epoch: int) -> bool:
        return set_epoch(self._sampler, epoch)


class RepeatSampler(_Wrapper):
    """Repeats the inner sampler forever. Its length is the length of one pass."""

    def __iter__(self) -> Iterator[Any]:
        return self.starting_at(0)

    def starting_at(self, position: int) -> Iterator[Any]:
        first, offset = divmod(position, len(self)) if position else (0, 0)
        if first and not set_epoch(self._sampler, first):
            for _ in range(first):
                _drain(iter(self._sampler))
        for epoch in itertools.count(first):
            set_epoch(self._sampler, epoch)
            one_pass = itertools.islice(iter(self._sampler), offset, None)
            offset = 0
            yield from one_pass


class RepeatBatchSampler(RepeatSampler):
    """Repeats the inner batch sampler forever. Its length is the length of one pass."""

    def __init__(self, batch_sampler: Any) -> None:
        super().__init__(batch_sampler)


class DistributedSampler(_Wrapper):
    """Yields every `num_workers`-th item, starting with item `rank`."""

    def __init__(self, sampler: Any, num_workers: int, rank: int) -> None:
        super().__init__(sampler)
        _check_rank(num_workers, rank)
        self._num_workers = num_workers
        self._rank = rank

    def __len__(self) -> int:
        full, rest = divmod(len(self._sampler), self._num_workers)
        return full + (self._rank < rest)

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._sampler), self._rank, None, self._num_workers)


class DistributedBatchSampler(DistributedSampler):
    """Yields every `num_workers`-th batch, starting with batch `rank`."""

    def __init__(self, batch_sampler: Any, num_workers: int, rank: int) -> None:
        super().__init__(batch_sampler, num_workers, rank)


class EvenBatchSampler(DistributedSampler):
    """Shards of equal length. The first batches fill the last round, so that all epochs end together."""

    def __len__(self) -> int:
        return -(-len(self._sampler) // self._num_workers)

    def __iter__(self) -> Iterator[Any]:
        total = len(self) * self._num_workers
        padded = itertools.islice(self._padded(), total)
        return itertools.islice(padded, self._rank, None, self._num_workers)

    def _padded(self) -> Iterator[Any]:
        first: List[Any] = []
        for batch in self._sampler:
            if len(first) < self._num_workers:
                first.append(batch)
            yield batch
        yield from itertools.cycle(first)


class SkipSampler(_Wrapper):
    """Skips the first `skip` items once. Its length is the length of a complete pass."""

    def __init__(self, sampler: Any, skip: int) -> None:
        super().__init__(sampler)
        if skip < 0:
            raise ValueError(f"skip must not be negative, but is {skip}")
        self._skip = skip

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self._sampler, RepeatSampler):
            return self._sampler.starting_at(self._skip)
        return itertools.islice(iter(self._sampler), self._skip, None)


class SkipBatchSampler(SkipSampler):
    """Skips the first `skip` batches once. Its length is the length of a complete pass."""

    def __init__(self, batch_sampler: Any, skip: int) -> None:
        super().__init__(batch_sampler, skip)


class ReproducibleShuffleSampler(_Wrapper):
    """Shuffles depending only on the seed and the epoch. Each pass is a new epoch.

    The epochs of a seed are the successive permutations of `numpy.random.RandomState(seed)`.
    """

    def __init__(self, sampler: Any, seed: int) -> None:
        super().__init__(sampler)
        self._seed = seed
        self._epoch = 0
        self._drawn = 0
        self._generator = _generator(seed)

    def set_epoch(self, epoch: int) -> bool:
        self._epoch = epoch
        return set_epoch(self._sampler, epoch)

    def __iter__(self) -> Iterator[Any]:
        order = self._order(len(self._sampler))
        self._epoch += 1
        if type(self._sampler) is SequentialSampler:
            return iter(order)
        items = list(self._sampler)
        return (items[i] for i in order)

    def _order(self, length: int) -> List[int]:
        """Return the permutation of the current epoch. The permutations of earlier epochs are drawn before it."""
        if self._drawn > self._epoch:
            self._drawn, self._generator = 0, _generator(self._seed)
        while self._drawn < self._epoch:
            self._generator.permutation(length)
            self._drawn += 1
        self._drawn += 1
        order: List[int] = self._generator.permutation(length).tolist()
        return order


def _generator(seed: int) -> Any:
    import numpy

    # Seeds of torch have more bits than numpy accepts.
    return numpy.random.RandomState(seed & 0xFFFFFFFF)


class ReproducibleShuffleBatchSampler(ReproducibleShuffleSampler):
    """Shuffles whole batches instead of items."""

    def __init__(self, batch_sampler: Any, seed: int) -> None:
        super().__init__(batch_sampler, seed)


def adapt_batch_sampler(
    batch_sampler: Any,
    repeat: bool = False,
    skip: int = 0,
    num_replicas: int = 1,
    rank: int = 0,
) -> Any:
    """Shard, repeat and skip. Shards of a repeated sampler have equal length; other shards never repeat a batch."""
    if num_replicas > 1:
        shard = EvenBatchSampler if repeat else DistributedBatchSampler
        batch_sampler = shard(batch_sampler, num_replicas, rank)
    if repeat:
        batch_sampler = RepeatBatchSampler(batch_sampler)
    if skip > 0:
        batch_sampler = SkipBatchSampler(batch_sampler, skip)
    return batch_sampler


def length_of(sized: Any) -> Optional[int]:
    """Return the length of an object, or None if it has none."""
    try:
        return len(sized) if isinstance(sized, Sized) else None
    except TypeError:
        # torch's DataLoader over an IterableDataset has __len__, which raises TypeError.
        return None


def _check_rank(num_workers: int, rank: int) -> None:
    if not 0 <= rank < num_workers:
        raise ValueError(f"rank must be within 0 and {num_workers - 1}, but is {rank}")


def _drain(items: Iterator[Any]) -> None:
    for _ in items:
        pass
