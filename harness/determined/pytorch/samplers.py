"""Samplers that shuffle reproducibly, shard evenly and resume in the middle of an epoch.

They compose: shuffle, then batch, then shard over ranks, then repeat, then skip what a resumed trial has
already seen. Shuffling depends on (seed, epoch) alone, so skipping an epoch costs one permutation.
"""

import itertools
from typing import Any, Iterator, List, Optional, Sized

from torch.utils.data import BatchSampler, Sampler, SequentialSampler


def set_epoch(sampler: Any, epoch: int) -> bool:
    """Tell a chain of samplers which epoch comes next; False if one in it has a memory of its own."""
    if hasattr(sampler, "set_epoch"):
        return sampler.set_epoch(epoch) is not False
    if type(sampler) is SequentialSampler:
        return True
    if type(sampler) is BatchSampler:
        return set_epoch(sampler.sampler, epoch)
    return False


class _Wrapper(Sampler):  # type: ignore[misc]
    """A sampler around another one."""

    def __init__(self, sampler: Any) -> None:
        # Sampler's own constructor takes and ignores an argument up to torch 2.1, and warns about it.
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._sampler)

    def set_epoch(self, epoch: int) -> bool:
        return set_epoch(self._sampler, epoch)


class RepeatSampler(_Wrapper):
    """Goes over the inner sampler forever; its length is that of one pass."""

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
    """Goes over the inner batch sampler forever; its length is that of one pass."""

    def __init__(self, batch_sampler: Any) -> None:
        super().__init__(batch_sampler)


class DistributedSampler(_Wrapper):
    """Yields every `num_workers`-th item, beginning with the `rank`-th."""

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
    """Yields every `num_workers`-th batch, beginning with the `rank`-th."""

    def __init__(self, batch_sampler: Any, num_workers: int, rank: int) -> None:
        super().__init__(batch_sampler, num_workers, rank)


class EvenBatchSampler(DistributedSampler):
    """Shards of equal length: the first batches fill up the last round, so that epochs end together."""

    def __len__(self) -> int:
        return -(-len(self._sampler) // self._num_workers)

    def __iter__(self) -> Iterator[Any]:
        wanted = len(self) * self._num_workers
        filled = itertools.islice(self._filled(), wanted)
        return itertools.islice(filled, self._rank, None, self._num_workers)

    def _filled(self) -> Iterator[Any]:
        first: List[Any] = []
        for batch in self._sampler:
            if len(first) < self._num_workers:
                first.append(batch)
            yield batch
        yield from itertools.cycle(first)


class SkipSampler(_Wrapper):
    """Leaves out the first `skip` items, once; its length is that of a whole pass."""

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
    """Leaves out the first `skip` batches, once; its length is that of a whole pass."""

    def __init__(self, batch_sampler: Any, skip: int) -> None:
        super().__init__(batch_sampler, skip)


class ReproducibleShuffleSampler(_Wrapper):
    """Shuffles by (seed, epoch) alone; each pass is another epoch.

    The epochs of a seed are the permutations that `numpy.random.RandomState(seed)` draws one after another.
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
        """Draw the permutation of the current epoch, after those of the epochs before it."""
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

    # Seeds of torch's generators have more bits than numpy's.
    return numpy.random.RandomState(seed & 0xFFFFFFFF)


class ReproducibleShuffleBatchSampler(ReproducibleShuffleSampler):
    """Shuffles whole batches."""

    def __init__(self, batch_sampler: Any, seed: int) -> None:
        super().__init__(batch_sampler, seed)


def adapt_batch_sampler(
    batch_sampler: Any,
    repeat: bool = False,
    skip: int = 0,
    num_replicas: int = 1,
    rank: int = 0,
) -> Any:
    """Shard, repeat and skip. Shards of a repeated sampler are of equal length, others leave nothing out twice."""
    if num_replicas > 1:
        shard = EvenBatchSampler if repeat else DistributedBatchSampler
        batch_sampler = shard(batch_sampler, num_replicas, rank)
    if repeat:
        batch_sampler = RepeatBatchSampler(batch_sampler)
    if skip > 0:
        batch_sampler = SkipBatchSampler(batch_sampler, skip)
    return batch_sampler


def length_of(sized: Any) -> Optional[int]:
    """Return the length of an object, None if it has no length."""
    try:
        return len(sized) if isinstance(sized, Sized) else None
    except TypeError:
        # torch's DataLoader over an IterableDataset has __len__ and refuses.
        return None


def _check_rank(num_workers: int, rank: int) -> None:
    if not 0 <= rank < num_workers:
        raise ValueError(f"rank must be within 0 and {num_workers - 1}, but is {rank}")


def _drain(items: Iterator[Any]) -> None:
    for _ in items:
        pass
