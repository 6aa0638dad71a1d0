"""The parts of global batches that ranks of an elastic trial train."""

from typing import Any

import pytest
from determined.pytorch._elastic import ElasticBatchSampler, average
from torch.utils.data import BatchSampler, SequentialSampler


def parts(records: int, batch_size: int, slots: int, ranks: int) -> list[list[Any]]:
    """Return the parts of all ranks for each global batch."""
    batches = BatchSampler(SequentialSampler(range(records)), batch_size, False)
    samplers = [ElasticBatchSampler(batches, slots, ranks, rank) for rank in range(ranks)]
    return [[part for (part,) in step] for step in zip(*samplers, strict=True)]


SHAPES = [(22, 2, 4, ranks) for ranks in (1, 2, 3, 4)] + [
    (33, 16, 2, 2),
    (5, 1, 8, 7),
    (9, 4, 8, 5),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_record_has_a_weight_once(shape: tuple[int, int, int, int]) -> None:
    weighted = [
        record
        for step in parts(*shape)
        for part in step
        for piece, weight in zip(part.indices, part.weights, strict=True)
        if weight
        for record in piece
    ]
    assert sorted(weighted) == list(range(shape[0]))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_rank_has_equally_many_micro_batches(shape: tuple[int, int, int, int]) -> None:
    for step in parts(*shape):
        assert len({len(part.indices) for part in step}) == 1
        assert all(0 < len(piece) <= shape[1] for part in step for piece in part.indices)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_of_all_ranks_average_to_one(shape: tuple[int, int, int, int]) -> None:
    for step in parts(*shape):
        total = sum(weight for part in step for weight in part.weights)
        assert total / shape[3] == pytest.approx(1)


def test_length_counts_global_batches() -> None:
    batches = BatchSampler(SequentialSampler(range(22)), 2, False)
    assert len(ElasticBatchSampler(batches, 4, 3, 0)) == 3


def test_metrics_of_micro_batches_are_averaged_by_weight() -> None:
    metrics = [{"loss": 1.0, "name": "a"}, {"loss": 4.0, "name": "b"}]
    assert average(metrics, [1.0, 0.5]) == {"loss": 2.0, "name": "b"}
