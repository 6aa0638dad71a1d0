from typing import Any

import numpy
import pytest
import torch
from determined import pytorch
from determined.pytorch import _data, samplers

from tests.support.torch_trials import BATCH, EPOCH, RECORDS, Numbers, records_of


def shards(replicas: int, shuffle: bool = False, **options: Any) -> list[list[list[int]]]:
    """Return the records of each batch of each rank."""
    loader = pytorch.DataLoader(Numbers(), batch_size=BATCH, shuffle=shuffle)
    loaders = [
        loader.get_data_loader(num_replicas=replicas, rank=r, **options) for r in range(replicas)
    ]
    return [[records_of(x) for x, _ in loader] for loader in loaders]


@pytest.mark.parametrize("replicas", [1, 2, 4, 5])
def test_validation_shards_have_each_record_once(replicas: int) -> None:
    records = [record for shard in shards(replicas) for batch in shard for record in batch]
    assert sorted(records) == list(range(RECORDS))


@pytest.mark.parametrize("replicas", [2, 4, 5])
def test_repeated_shards_have_equal_length_and_all_records(replicas: int) -> None:
    loader = pytorch.DataLoader(Numbers(), batch_size=BATCH, shuffle=True)
    records: set[int] = set()
    lengths = set()
    for rank in range(replicas):
        shard = loader.get_data_loader(repeat=True, num_replicas=replicas, rank=rank)
        lengths.add(len(shard))
        records.update(
            r for _, (x, _) in zip(range(len(shard)), shard, strict=False) for r in records_of(x)
        )
    assert lengths == {-(-EPOCH // replicas)}
    assert records == set(range(RECORDS))


def first_batches(loader: Any, number: int) -> list[list[int]]:
    return [records_of(x) for _, (x, _) in zip(range(number), loader, strict=False)]


def test_each_epoch_is_shuffled_differently_and_reproducibly() -> None:
    loader = pytorch.DataLoader(Numbers(), batch_size=BATCH, shuffle=True)
    once = first_batches(loader.get_data_loader(repeat=True), 2 * EPOCH)
    batches = first_batches(loader.get_data_loader(repeat=True), 2 * EPOCH)
    assert once == batches
    assert once[:EPOCH] != once[EPOCH:]
    assert sorted(sum(once[EPOCH:], [])) == list(range(RECORDS))  # noqa: RUF017 - a few short lists


@pytest.mark.parametrize("skip", [1, EPOCH - 1, EPOCH, 3 * EPOCH + 2])
@pytest.mark.parametrize("replicas", [1, 2])
def test_skipping_equals_reading(skip: int, replicas: int) -> None:
    loader = pytorch.DataLoader(Numbers(), batch_size=BATCH, shuffle=True)
    options: Any = {"repeat": True, "num_replicas": replicas, "rank": replicas - 1}
    all_batches = first_batches(loader.get_data_loader(**options), skip + 8)
    assert first_batches(loader.get_data_loader(skip=skip, **options), 8) == all_batches[skip:]


def test_stateful_sampler_is_read_up_to_the_position() -> None:
    class Remembering(torch.utils.data.Sampler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.passes = 0

        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Any:
            self.passes += 1
            return iter([self.passes] * 4)

    loader = pytorch.DataLoader(Numbers(), batch_size=2, sampler=Remembering())
    resumed_loader = loader.get_data_loader(repeat=True, skip=5)
    assert first_batches(resumed_loader, 2) == [[3, 3], [4, 4]]


def test_skipping_whole_epochs_reads_no_items() -> None:
    class Counting(samplers.ReproducibleShuffleSampler):
        permutations = 0

        def __iter__(self) -> Any:
            Counting.permutations += 1
            return super().__iter__()

    shuffled = Counting(torch.utils.data.SequentialSampler(Numbers()), 1)
    batches = torch.utils.data.BatchSampler(shuffled, BATCH, False)
    # torch's own BatchSampler does not hide the shuffling sampler: the epoch is set, not replayed.
    next(iter(samplers.adapt_batch_sampler(batches, repeat=True, skip=1_000_000 * EPOCH + 1)))
    assert Counting.permutations == 1


def test_rejects_datasets_that_cannot_be_sharded() -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter([])

    with pytest.raises(ValueError, match="map-style"):
        pytorch.DataLoader(Stream())


def test_rejects_conflicting_options() -> None:
    batches = torch.utils.data.BatchSampler(range(4), 2, False)
    with pytest.raises(ValueError, match="batch_sampler excludes"):
        pytorch.DataLoader(Numbers(), batch_sampler=batches, shuffle=True)


def test_moving_keeps_structure_and_converts_arrays() -> None:
    batch = {"x": numpy.ones(2), "pair": (torch.ones(1), [torch.zeros(1)]), "name": "a"}
    moved_batch = pytorch.to_device(batch, torch.device("meta"))
    assert moved_batch["x"].device.type == moved_batch["pair"][1][0].device.type == "meta"
    assert (moved_batch["name"], type(moved_batch["pair"])) == ("a", tuple)


def test_batches_on_the_cpu_are_not_copied() -> None:
    move = _data.mover(torch.device("cpu"))
    pair = (torch.ones(1), torch.zeros(1))
    assert move(pair) is pair
    mixed = move([torch.ones(1), numpy.ones(2), [numpy.zeros(1)]])
    assert [type(item) for item in mixed] == [torch.Tensor, torch.Tensor, list]
    assert type(mixed[2][0]) is torch.Tensor


def test_unmovable_types_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    types: set[type] = set()
    batch = ["a", "b", numpy.array(["c"]), 1]
    for _ in range(2):
        assert pytorch.to_device(batch, torch.device("cpu"), types) == batch
    assert [record.args for record in caplog.records] == [("str",), ("ndarray",), ("int",)]


def test_order_of_a_seed_equals_numpys_random_state() -> None:
    sampler = samplers.ReproducibleShuffleSampler(
        torch.utils.data.SequentialSampler(range(10)), seed=0
    )
    assert list(sampler) == [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]
    assert list(sampler) == [3, 5, 1, 2, 9, 8, 0, 6, 7, 4]
    sampler.set_epoch(0)
    assert list(sampler) == [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]
    sampler.set_epoch(1)
    assert list(sampler) == [3, 5, 1, 2, 9, 8, 0, 6, 7, 4]


def test_length_of_skipping_sampler_is_a_whole_pass() -> None:
    items = torch.utils.data.SequentialSampler(range(10))
    assert len(samplers.SkipSampler(items, 3)) == 10
    batches = torch.utils.data.BatchSampler(items, 3, False)
    assert len(samplers.SkipBatchSampler(batches, 3)) == 4
    assert list(samplers.SkipBatchSampler(batches, 3)) == [[9]]


@pytest.mark.parametrize("empty", [{}, [], ()])
def test_empty_batch_has_no_length(empty: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        pytorch.data_length(empty)


@pytest.mark.parametrize("batch", [torch.ones(3, 2), [torch.ones(3)], {"a": (torch.ones(3),)}])
def test_length_of_a_batch_is_the_length_of_its_first_tensor(batch: Any) -> None:
    assert pytorch.data_length(batch) == 3
